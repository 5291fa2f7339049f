"""What of a snapshot is the product: source that features are chosen from, not tests or their configuration."""

from __future__ import annotations

from typing import TypeAlias

from taskforge.generate.protect import is_protected
from taskforge.languages import Language, SkippedFile
from taskforge.model import Symbol, Tree

__all__ = ["Index", "index_product"]

#: Symbols by path.
Index: TypeAlias = dict[str, list[Symbol]]


def index_product(tree: Tree, language: Language, protected: tuple[str, ...]) -> tuple[Index, dict[str, str]]:
    """The symbols of every source file that is not ``protected``, and why files were skipped, by path."""
    index: Index = {}
    skipped: dict[str, str] = {}
    for path, entry in tree.items():
        if entry.kind == "link" or not language.is_source(path) or is_protected(path, protected):
            continue
        try:
            index[path] = language.index(path, entry.data)
        except SkippedFile as skip:
            skipped[path] = skip.reason
    return index, skipped
