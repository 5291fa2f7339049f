"""A folder as it lies there: what git would commit of it, or everything where git does not know it."""

from __future__ import annotations

import fnmatch
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from taskforge.errors import SourceError
from taskforge.generate.acquire_archive import MAX_BYTES, MAX_FILES, too_large
from taskforge.generate.acquire_git import git
from taskforge.model import Entry

__all__ = ["read"]

_CACHES = frozenset({
    ".git", ".hg", ".svn", "__pycache__", ".venv", "venv", ".tox", ".nox", ".mypy_cache", ".pytest_cache",
    ".ruff_cache", ".hypothesis", ".eggs", "node_modules",
})  # fmt: skip
_LEFT_OUT = ("*.pyc", "*.pyo", ".coverage", ".coverage.*", ".DS_Store")


def read(folder: Path) -> dict[str, Entry]:
    """Files, executables and links below ``folder``; caches, virtual environments and ``.git`` left out.

    In a git work tree that is what git tracks, as it lies there, plus what is neither tracked nor ignored.

    Raises:
        SourceError: when it is past the size gate, or a submodule in it is empty.
    """
    entries: dict[str, Entry] = {}
    total = 0
    for path in _listed(folder) or _walk(folder, ""):
        if _is_cache(path) or path in entries:
            continue
        place = os.fsencode(folder) + b"/" + path.encode("utf-8", "surrogateescape")
        try:
            status = os.lstat(place)
        except (FileNotFoundError, NotADirectoryError):
            continue  # tracked, but deleted in the work tree
        if stat.S_ISLNK(status.st_mode):
            entries[path] = Entry(os.readlink(place), "link")  # noqa: PTH115 - bytes
        elif stat.S_ISREG(status.st_mode):
            total += status.st_size
            if total > MAX_BYTES or len(entries) >= MAX_FILES:
                raise too_large(str(folder))
            data = Path(os.fsdecode(place)).read_bytes()
            entries[path] = Entry(data, "exec" if status.st_mode & 0o100 else "file")
    return entries


def _listed(folder: Path) -> list[str]:
    """What git lists, empty when it does not know the folder (or ignores it as a whole)."""
    try:
        inside = git(["rev-parse", "--is-inside-work-tree"], cwd=folder, timeout=60)
    except SourceError:
        return []  # without git, a folder is read as it is
    if inside.returncode or inside.stdout.strip() != b"true":
        return []
    listing = git(["ls-files", "-co", "--exclude-standard", "-z"], cwd=folder, timeout=120)
    if listing.returncode:
        raise SourceError(f"git cannot list {folder}: {listing.text[-500:]}", hint="repair it, or copy it without .git")
    paths: list[str] = []
    for raw in listing.stdout.split(b"\0")[:-1]:
        path = raw.decode("utf-8", "surrogateescape").removesuffix("/")
        inner = folder / path
        if inner.is_dir() and not inner.is_symlink():
            # A submodule, or a repository inside this one.
            below = list(_walk(inner, f"{path}/"))
            if not below and not raw.endswith(b"/"):
                raise SourceError(
                    f"{folder}: submodule_unavailable: {path} is empty",
                    hint="run `git submodule update --init` in it",
                )
            paths += below
        else:
            paths.append(path)
    return paths


def _walk(folder: Path, prefix: str) -> Iterator[str]:
    with os.scandir(os.fsencode(folder)) as listing:
        found = sorted(listing, key=lambda item: item.name)
    for item in found:
        name = item.name.decode("utf-8", "surrogateescape")
        if _is_cache(name):
            continue
        if item.is_dir(follow_symlinks=False):
            inner = Path(os.fsdecode(item.path))
            if not (inner / "pyvenv.cfg").exists():
                yield from _walk(inner, f"{prefix}{name}/")
        else:
            yield f"{prefix}{name}"


def _is_cache(path: str) -> bool:
    parts = path.split("/")
    return any(part in _CACHES or part.lower() == ".git" for part in parts) or any(
        fnmatch.fnmatchcase(parts[-1], pattern) for pattern in _LEFT_OUT
    )
