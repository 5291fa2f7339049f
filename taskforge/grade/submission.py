"""What somebody hands in, what it changes, and how much of that is let in."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Literal

from taskforge.errors import BadSubmission, UsageError
from taskforge.grade.patch import apply_patch
from taskforge.model import Changes, Entry, TaskTests, Tree
from taskforge.model.tree import check_path

__all__ = ["Admitted", "Submission", "admit", "apply", "read_submission"]

#: Left out of a folder that is handed in: what tools leave behind.
_IGNORED_FOLDERS = frozenset(
    {".git", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox", ".venv"}
)
_IGNORED_SUFFIXES = (".pyc", ".pyo")
#: Files that change how tests run, or run by themselves, wherever they lie.
_STEERING = frozenset(
    {
        "conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg",
        "pyproject.toml", "setup.py", "sitecustomize.py", "usercustomize.py",
    }
)  # fmt: skip
_STEERING_SUFFIXES = (".pth", ".pyc", ".pyo", ".so", ".pyd")


@dataclass(frozen=True)
class Submission:
    """A patch, a whole tree, or nothing at all: a legal submission that earns 0."""

    kind: Literal["patch", "tree", "empty"]
    data: bytes = b""
    """The patch, as it came."""
    tree: Tree | None = None

    @classmethod
    def patch(cls, data: bytes) -> Submission:
        """One that is only white space is the empty submission."""
        return cls("patch", data) if data.strip() else cls.empty()

    @classmethod
    def of_tree(cls, tree: Tree) -> Submission:
        return cls("tree", tree=tree)

    @classmethod
    def empty(cls) -> Submission:
        return cls("empty")

    @property
    def digest(self) -> str:
        """SHA-256 hex of kind and content."""
        content = self.data if self.tree is None else self.tree.digest.encode()
        return hashlib.sha256(self.kind.encode() + b"\0" + content).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Admitted:
    """What of a submission's changes is laid into the sandbox."""

    changes: Changes
    restored: tuple[str, ...]
    """Paths that it may not touch, sorted: they stay as they are in the workspace."""


def read_submission(text: str, stdin: BinaryIO) -> Submission:
    """The submission that ``text`` names: a patch file, ``-`` for ``stdin``, or a folder.

    Raises:
        UsageError: when there is no such file or folder, or it cannot be read.
        BadSubmission: when a folder holds what is no file, link or folder.
    """
    if text == "-":
        return Submission.patch(stdin.read())
    path = Path(text).expanduser()
    try:
        if path.is_dir():
            return Submission.of_tree(Tree(dict(_walk(path))))
        return Submission.patch(path.read_bytes())
    except FileNotFoundError:
        raise UsageError(
            f"there is no submission {text!r}", hint="give a patch file, - for standard input, or a folder"
        ) from None
    except OSError as error:
        raise UsageError(f"cannot read the submission {text!r}: {error.strerror}", hint="check the path") from None


def apply(submission: Submission, workspace: Tree) -> dict[str, Entry | None]:
    """What the submission changes in ``workspace``: new entries by path, None for a deletion.

    Raises:
        BadSubmission: when it does not apply as a whole; nothing is half applied.
        Fault: when git or the disk fails.
    """
    if submission.kind == "empty":
        return {}
    if submission.tree is None:
        changes = apply_patch(submission.data, workspace)
    else:
        changes = {
            path: entry
            for path, entry in workspace.changes_to(submission.tree).items()
            if entry is not None or not _is_ignored(path)
        }
    _check_shape(changes, workspace)
    return changes


def admit(changes: Changes, tests: TaskTests, *, strict: bool, workspace: Collection[str] = ()) -> Admitted:
    """Take out the changes that a submission may not make: tests, what steers them, links.

    Args:
        changes: as :func:`apply` gave them.
        workspace: paths that the task gave out. Of these, a file whose name steers tests elsewhere may be changed when
            the task does not protect it: it is part of the product. A new one may not be made.
        strict: refuse such a submission instead.

    Raises:
        BadSubmission: with ``strict``, naming the paths.
    """
    # Names are compared without case: on a file system that folds it, `Tests/` would be `tests/`.
    protected = tuple(name.casefold() for name in tests.protected)
    refused = tuple(
        path
        for path, entry in sorted(changes.items())
        if (entry is not None and entry.kind == "link")
        or (_steers(path) and path not in workspace)
        or _covers(protected, path.casefold())
        or (tests.allowed and not _covers(tests.allowed, path))
    )
    if refused and strict:
        raise BadSubmission(
            f"the submission touches protected files: {', '.join(refused[:5])}{', …' if len(refused) > 5 else ''}",
            hint="leave tests, their configuration and start-up files as they are, and make no links",
        )
    return Admitted(
        changes={path: entry for path, entry in changes.items() if path not in refused}, restored=refused
    )


def _steers(path: str) -> bool:
    name = PurePosixPath(path).name.casefold()
    return name in _STEERING or name.endswith(_STEERING_SUFFIXES)


def _covers(names: tuple[str, ...], path: str) -> bool:
    """Whether ``path`` is one of ``names``, lies below one, or would take the place of a folder among them."""
    return any(path == name.rstrip("/") or path.startswith(name.rstrip("/") + "/") for name in names)


def _is_ignored(path: str) -> bool:
    parts = path.split("/")
    return any(part in _IGNORED_FOLDERS for part in parts[:-1]) or parts[-1].endswith(_IGNORED_SUFFIXES)


def _walk(root: Path) -> Iterator[tuple[str, Entry]]:
    def failed(error: OSError) -> None:
        raise error

    for folder, folders, files in os.walk(root, onerror=failed):
        here = Path(folder)
        links = [name for name in folders if (here / name).is_symlink()]
        folders[:] = sorted(name for name in folders if name not in _IGNORED_FOLDERS and name not in links)
        for name in (*files, *links):
            path = here / name
            relative = path.relative_to(root).as_posix()
            # A `.git` file is what a worktree has in place of the folder.
            if name in _IGNORED_FOLDERS or _is_ignored(relative):
                continue
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                yield relative, Entry(os.fsencode(path.readlink()), "link")
            elif stat.S_ISREG(mode):
                yield relative, Entry(path.read_bytes(), "exec" if mode & 0o100 else "file")
            else:
                raise BadSubmission(
                    f"the submission holds {relative!r}, which is no file, link or folder", hint="remove it"
                )


def _check_shape(changes: Changes, workspace: Tree) -> None:
    """Refuse what would not be a tree, or would lead out of it."""
    kept = {path for path in workspace if path not in changes} | {p for p, e in changes.items() if e is not None}
    folders = {path[:i] for path in kept for i, char in enumerate(path) if char == "/"}
    for path, entry in changes.items():
        try:
            check_path(path)
        except ValueError as error:
            raise BadSubmission(f"the submission writes to a place that is not allowed: {error}") from None
        if entry is None:
            continue
        above = next((p for p in (path[:i] for i, char in enumerate(path) if char == "/") if p in kept), None)
        if above is not None:
            raise BadSubmission(f"the submission writes {path!r}, but {above!r} is a file or a link, not a folder")
        if path in folders:
            raise BadSubmission(f"the submission writes {path!r}, which is a folder")
        if entry.kind == "link":
            _check_link(path, os.fsdecode(entry.data))


def _check_link(path: str, target: str) -> None:
    depth = path.count("/")
    for part in target.split("/"):
        depth += {"..": -1, "": 0, ".": 0}.get(part, 1)
        if depth < 0 or target.startswith("/") or part.lower() == ".git":
            raise BadSubmission(
                f"the submission makes the link {path!r} to {target!r}, which leaves the workspace",
                hint="hand in a copy of the file instead of a link",
            )
