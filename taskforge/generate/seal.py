"""What a solver gets: the tree without the feature, its hidden tests, history, caches and build products."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from taskforge.errors import Fault, UsageError
from taskforge.generate.patches import git
from taskforge.model import Entry, Tree

__all__ = ["Sealed", "git_workspace", "seal"]

#: Caches and history, wherever they are.
_FOLDERS: Final = (
    "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox", ".venv", "venv",
    "htmlcov", "node_modules", ".idea", ".vscode", ".git*", ".hg", ".svn", ".bzr", ".eggs", ".pytype", ".pyre",
    ".cache", ".ipynb_checkpoints",
)  # fmt: skip
_FILES: Final = (
    "*.pyc", "*.pyo", "*.orig", "*.rej", "*~", ".*.sw[a-p]", ".DS_Store", ".coverage", ".coverage.*", "coverage.xml",
    ".git*",
)  # fmt: skip
#: Build products, unless they lie among the tests: there they are data.
_PRODUCTS: Final = ("*.egg-info", "*.dist-info", "*.egg", "*.whl")
_TEST_FOLDERS: Final = frozenset({"test", "tests", "testing", "testdata"})
#: Only at the root: further down such a name may be a real package.
_ROOT_FOLDERS: Final = ("build", "dist", "_build")
_ROOT_FILES: Final = ("*.patch", "*.diff")
_KEPT: Final = frozenset({".gitignore", ".gitattributes"})


@dataclass(frozen=True, kw_only=True)
class Sealed:
    """A tree in two halves, and what belongs to neither."""

    workspace: Tree
    """All that a solver may read."""
    hidden: Tree
    """Files laid over a submission before it is graded."""
    dropped: tuple[str, ...]
    """Paths of caches, history and build products, in neither half."""


def seal(removal_tree: Tree, hidden_files: Iterable[str], *, pruned: Mapping[str, bytes] | None = None) -> Sealed:
    """Split a tree from which the feature has been removed.

    Args:
        removal_tree: in which the tests are whole.
        hidden_files: paths that a solver does not see, or not the whole of.
        pruned: path -> what a solver sees of it; the hidden half holds the whole.

    Raises:
        UsageError: when a file to hide is not in the tree.
    """
    shown = dict(pruned or {})
    hide = {*hidden_files, *shown}
    if missing := sorted(hide - removal_tree.keys()):
        raise UsageError(
            f"{missing[0]!r} is to be hidden, but the tree does not have it", hint="hide files of the snapshot only"
        )
    workspace: dict[str, Entry] = {}
    dropped: list[str] = []
    for path, entry in removal_tree.items():
        if path in hide:
            if path in shown:
                workspace[path] = Entry(shown[path], entry.kind)
            continue
        if _is_product(path):
            dropped.append(path)
        else:
            workspace[path] = entry
    hidden = Tree({path: removal_tree[path] for path in hide})
    return Sealed(workspace=Tree(workspace), hidden=hidden, dropped=tuple(dropped))


def _is_product(path: str) -> bool:
    *folders, name = path.split("/")
    if name not in _KEPT and _matches(name, _FILES):
        return True
    if any(_matches(folder, _FOLDERS) for folder in folders):
        return True
    if _TEST_FOLDERS.isdisjoint(folders) and any(_matches(part, _PRODUCTS) for part in (*folders, name)):
        return True
    if not folders:
        return _matches(name, _ROOT_FILES)
    return folders[0] in _ROOT_FOLDERS or folders[:2] in (["docs", "_build"], ["doc", "_build"])


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def git_workspace(tree: Tree, folder: Path) -> str:
    """Write ``tree`` into ``folder``, new or empty, as a git repository with one commit. Return the commit's hash.

    The hash depends on the tree alone. Blobs are the files' bytes: attributes of the repository do not convert them.

    Raises:
        UsageError: when the folder holds something.
        Fault: when git or the disk fails.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty", hint="name a new folder")
        _write(tree, folder)
        git(["init", "--quiet", "--template=", "--initial-branch=main", "."], folder)
        private = folder / ".git"
        (private / "info").mkdir(exist_ok=True)
        # Over every .gitattributes of the tree, so that neither the commit nor a solver's `git diff` converts bytes.
        attributes = b"* -text -eol -ident -filter -working-tree-encoding\n"
        (private / "info" / "attributes").write_bytes(attributes)
        for setting in ("core.logAllRefUpdates=false", "core.autocrlf=false", "core.fileMode=true", "gc.auto=0"):
            name, _, value = setting.partition("=")
            git(["config", name, value], folder)
        git(["add", "--all", "--force", "."], folder)
        git(["commit", "--quiet", "--no-verify", "--allow-empty", "--no-gpg-sign", "-m", "workspace"], folder)
        git(["repack", "-adq"], folder)
        git(["prune-packed", "--quiet"], folder)
        (private / "COMMIT_EDITMSG").unlink(missing_ok=True)
        shutil.rmtree(private / "logs", ignore_errors=True)
        return git(["rev-parse", "HEAD"], folder).decode("ascii").strip()
    except OSError as problem:
        what = f"the workspace cannot be written to {folder}: {problem}"
        raise Fault(what, kind="disk", hint="make room, or name another folder") from problem


def _write(tree: Tree, folder: Path) -> None:
    links: list[tuple[Path, bytes]] = []
    for path, entry in tree.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if entry.kind == "link":
            links.append((target, entry.data))
            continue
        target.write_bytes(entry.data)
        target.chmod(0o755 if entry.kind == "exec" else 0o644)
    # Links come last, so that none of them redirects a write.
    for target, data in links:
        os.symlink(data, os.fsencode(target))  # noqa: PTH211 - a target is bytes
