"""A whole task as a value: the public and the sealed half, and the digest over both."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from taskforge.model import TaskCard, TaskTests, Tree, digest_of

__all__ = ["PUBLIC_FILES", "SEALED_FILES", "Bundle", "json_bytes"]

PUBLIC_FILES = ("task.json", "statement.md", "workspace.tar.zst")
SEALED_FILES = ("tests.json", "hidden.tar.zst", "removal.patch", "reference.patch", "reports.json")
#: Of ``task.json``: fields that came later than the first tasks.
_LATER = frozenset({"platform", "image", "sibling", "twin_of", "fan_in", "difficulty"})


def json_bytes(data: Any) -> bytes:
    """JSON as it lies on disk: for people to read, and the same bytes for the same data.

    For values, give it ``model_dump()``: pydantic's JSON mode replaces what is not UTF-8 in the keys of a dict.
    """
    return (json.dumps(data, indent=2, sort_keys=True, ensure_ascii=True) + "\n").encode("ascii")


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """One task, complete. ``card.digest`` need not be filled in; :meth:`sealed_card` has it."""

    card: TaskCard
    statement: str
    """Markdown."""
    workspace: Tree
    """The sealed tree that a solver gets: no answer, no hidden test."""
    tests: TaskTests
    hidden: Tree
    """Files that the grader lays over a submission's tree: tests, their configuration, probes."""
    reference_patch: bytes
    """Turns the workspace into a solution. ``git diff`` format."""
    removal_patch: bytes
    """Turns the snapshot into the workspace."""
    reports: Mapping[str, Any]
    """JSON data about how it was made: removal, leaks, validation."""

    @property
    def parts(self) -> dict[str, str]:
        """SHA-256 by file, of its content rather than of its compressed form."""
        return {
            "task.json": digest_of(self._told()),
            "statement.md": _sha(self.statement.encode("utf-8", "surrogateescape")),
            "workspace.tar.zst": self.workspace.digest,
            "tests.json": digest_of(self.tests.model_dump()),
            "hidden.tar.zst": self.hidden.digest,
            "removal.patch": _sha(self.removal_patch),
            "reference.patch": _sha(self.reference_patch),
            "reports.json": digest_of(dict(self.reports)),
        }

    def _told(self) -> dict[str, Any]:
        # Fields that came later than the first tasks count only where they say something.
        told = self.card.model_dump(exclude={"digest"})
        told["metrics"] = {name: value for name, value in told["metrics"].items() if value or name not in _LATER}
        return {name: value for name, value in told.items() if value or name not in _LATER}

    @property
    def digest(self) -> str:
        """SHA-256 hex over every public and sealed file, the card's own digest apart."""
        return digest_of(self.parts)

    def sealed_card(self) -> TaskCard:
        """The card with its digest filled in."""
        return self.card.model_copy(update={"digest": self.digest})

    @property
    def graded_tree(self) -> Tree:
        """What a grader's sandbox starts with: the workspace, the hidden files laid over it."""
        return self.workspace.with_changes(self.hidden)


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
