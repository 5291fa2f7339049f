"""Patches, applied by git to just the files that they name, in a folder that is thrown away.

Never with fuzz, never in reverse, all or nothing. Two slips of the pen are mended, since only one reading is possible:
a last line that lost its newline, and hunk counts that disagree with the hunk. Anything else is refused.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from taskforge import process
from taskforge.corpus.atomic import store_fault
from taskforge.errors import BadSubmission, Fault
from taskforge.grade.patch_text import PatchedFile, parse_patch
from taskforge.model import Entry, Tree
from taskforge.model.tree import check_path

__all__ = ["apply_patch"]

_TIMEOUT = 120.0
_HINT = "make the patch with `git diff` against the task's workspace, unchanged since it was given out"


def apply_patch(data: bytes, workspace: Tree) -> dict[str, Entry | None]:
    """What the patch changes in ``workspace``.

    Raises:
        BadSubmission: when it is no patch, names files that are not there, or does not apply.
        Fault: when git or the disk fails.
    """
    text, files = parse_patch(data)
    depth = _depth(files, workspace)
    named = _named(files, depth)
    before = Tree({path: workspace[path] for path in named if path in workspace})
    bare = any(hunk.bare for file in files if not (file.is_new or file.is_deletion) for hunk in file.hunks)
    if bare:
        _check_places(files, depth, before)
    try:
        with tempfile.TemporaryDirectory(prefix="taskforge-apply-") as name:
            root = Path(name).resolve() / "tree"
            root.mkdir()
            _lay(before, root)
            _git_apply(text, depth, root, bare=bare)
            after = dict(_read(root))
    except OSError as error:
        raise store_fault(error, Path(tempfile.gettempdir())) from error
    return before.changes_to(after)


def _depth(files: list[PatchedFile], workspace: Tree) -> int:
    """How many leading parts of its names the patch wants stripped: the first by which all that should exist does."""
    missing = ""
    for depth in (1, 0, 2):
        wanted = [file.source(depth) for file in files if not file.is_new]
        absent = [path for path in wanted if path is None or path not in workspace]
        if absent or any(not file.is_deletion and file.target(depth) is None for file in files):
            missing = missing or next((path for path in absent if path), "")
            continue
        if wanted:
            return depth
        # Only new files: nothing in the workspace tells, so the customary prefixes do.
        prefixed = all(file.has_prefix for file in files)
        return 1 if prefixed else 0
    shown = missing or (os.fsdecode(files[0].old or files[0].new or b"?"))
    # By depth 1 `src/x.py` reads as `x.py`: name what its author meant.
    plain = next((file for file in files if not file.has_prefix and not file.is_new), None)
    if plain is not None:
        shown = next((p for f in files if not f.is_new and (p := f.source(0)) not in workspace and p), shown)
    raise BadSubmission(f"the patch changes {shown!r}, which the workspace does not have", hint=_HINT)


def _named(files: Iterable[PatchedFile], depth: int) -> set[str]:
    named: set[str] = set()
    for file in files:
        if file.is_gitlink:
            raise BadSubmission("the patch adds a submodule (mode 160000)", hint="hand in files, not submodules")
        for path in (None if file.is_new else file.source(depth), None if file.is_deletion else file.target(depth)):
            if path is None:
                continue
            try:
                named.add(check_path(path))
            except ValueError as error:
                raise BadSubmission(f"the patch writes to a place that is not allowed: {error}") from None
    return named


def _check_places(files: Iterable[PatchedFile], depth: int, before: Tree) -> None:
    """Hunks without context say where they belong by line number alone: every hunk of such a patch must fit exactly."""
    for file in files:
        path = file.source(depth)
        if file.is_new or path is None or path not in before:
            continue
        lines = before[path].data.split(b"\n")
        if lines[-1] == b"":
            lines.pop()
        for hunk in file.hunks:
            if not hunk.fits(lines):
                raise BadSubmission(
                    f"the patch does not apply: hunk {os.fsdecode(hunk.header)!r} of {path!r} has no context and does"
                    " not fit the lines that it names",
                    hint=_HINT,
                )


def _lay(tree: Tree, root: Path) -> None:
    for path, entry in tree.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if entry.kind == "link":
            target.symlink_to(os.fsdecode(entry.data))
        else:
            target.write_bytes(entry.data)
            target.chmod(0o755 if entry.kind == "exec" else 0o644)


def _git_apply(text: bytes, depth: int, root: Path, *, bare: bool) -> None:
    env = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(root.parent),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_CEILING_DIRECTORIES": str(root.parent),
    }
    options = ["-c", "core.autocrlf=false", "-c", "core.safecrlf=false", "-c", "apply.ignoreWhitespace=no"]
    # Without this, git takes a hunk without context for the end of its file, and puts lines there without a word.
    zero = ["--unidiff-zero"] if bare else []
    argv = ["git", *options, "apply", *zero, f"-p{depth}", "--whitespace=nowarn", "-"]
    try:
        done = process.run(argv, timeout=_TIMEOUT, cwd=root, env=env, stdin=text)
    except process.ProcessTimeoutError as error:
        raise Fault(f"git did not apply the patch within {_TIMEOUT:g} s", kind="git_failed") from error
    except FileNotFoundError as error:
        raise Fault("git is not installed", kind="git_missing", hint="install git", retryable=False) from error
    if done.returncode < 0:
        raise Fault(f"git apply died of signal {-done.returncode}", kind="git_failed")
    if done.returncode:
        said = [line.removeprefix("error: ") for line in done.text.splitlines() if line.strip()]
        raise BadSubmission(f"the patch does not apply: {'; '.join(said[:4]) or 'git gave no reason'}", hint=_HINT)


def _read(root: Path) -> Iterable[tuple[str, Entry]]:
    for folder, folders, files in os.walk(root):
        for name in (*files, *folders):
            path = Path(folder) / name
            relative = path.relative_to(root).as_posix()
            if path.is_symlink():
                yield relative, Entry(os.fsencode(path.readlink()), "link")
            elif path.is_file():
                yield relative, Entry(path.read_bytes(), "exec" if path.stat().st_mode & 0o100 else "file")
