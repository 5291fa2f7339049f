"""A tree of files, by bytes.

Paths are POSIX, relative, and held as ``str`` decoded with ``surrogateescape``, so that names which are not UTF-8
survive.
Like git, a tree holds regular files, executable files and symbolic links; empty directories do not exist in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["Changes", "Entry", "EntryKind", "Tree", "check_path"]

EntryKind: TypeAlias = Literal["file", "exec", "link"]


def check_path(path: str) -> str:
    """Return ``path`` if it is relative, normal and stays inside the tree.

    Raises:
        ValueError: for an absolute path, ``..``, an empty part, a NUL, or anything inside ``.git``.
    """
    parts = path.split("/")
    if not path or "\0" in path or any(part in {"", ".", ".."} for part in parts):
        raise ValueError(f"{path!r} is not a normal relative path")
    if any(part.lower() == ".git" for part in parts):
        raise ValueError(f"{path!r} lies inside .git")
    return path


@dataclass(frozen=True, slots=True)
class Entry:
    """One file. ``data`` is its content, or a link's target."""

    data: bytes
    kind: EntryKind = "file"


#: What one tree has over another: a new entry by path, or None for a deletion.
Changes: TypeAlias = Mapping[str, Entry | None]


class Tree(Mapping[str, Entry]):
    """An immutable tree. Iteration is in byte order of the paths."""

    __slots__ = ("_digest", "_entries")

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self._entries = {path: entries[check_path(path)] for path in sorted(entries)}
        self._digest: str | None = None

    def __getitem__(self, path: str) -> Entry:
        return self._entries[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def digest(self) -> str:
        """SHA-256 hex over every path, kind and content."""
        if self._digest is None:
            total = hashlib.sha256()
            for path, entry in self._entries.items():
                name = path.encode("utf-8", "surrogateescape")
                inner = hashlib.sha256(entry.data).digest()
                total.update(b"%d:%s%s:%s" % (len(name), name, entry.kind.encode(), inner))
            self._digest = total.hexdigest()
        return self._digest

    @property
    def size(self) -> int:
        """Bytes of content."""
        return sum(len(entry.data) for entry in self._entries.values())

    def with_changes(self, changes: Changes) -> Tree:
        """This tree with ``changes`` laid over it."""
        merged = dict(self._entries)
        for path, entry in changes.items():
            if entry is None:
                merged.pop(path, None)
            else:
                merged[path] = entry
        return Tree(merged)

    def changes_to(self, other: Mapping[str, Entry]) -> dict[str, Entry | None]:
        """What turns this tree into ``other``."""
        changes: dict[str, Entry | None] = {
            path: entry for path, entry in other.items() if self._entries.get(path) != entry
        }
        changes.update({path: None for path in self._entries if path not in other})
        return dict(sorted(changes.items()))

    def __repr__(self) -> str:
        return f"<Tree of {len(self)} files, {self.digest[:12]}>"
