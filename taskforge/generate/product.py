"""What of a snapshot is the product: source that features are chosen from, not tests or their configuration."""

from __future__ import annotations

from collections.abc import Callable, Collection

from taskforge.generate.protect import is_protected
from taskforge.languages import Language
from taskforge.model import Tree

__all__ = ["defining_files", "product"]


def defining_files(tree: Tree, language: Language, protected: tuple[str, ...]) -> list[str]:
    """Paths of the product's source files that may define something."""
    return [
        path
        for path, entry in tree.items()
        if entry.kind != "link"
        and language.is_source(path)
        and not is_protected(path, protected)
        and (b"def " in entry.data or b"class " in entry.data)
    ]


def product(language: Language, protected: tuple[str, ...], left_out: Collection[str]) -> Callable[[str], bool]:
    """Whether a path is the product's own, by the customs of the language.

    Args:
        left_out: paths of the product from which no feature is chosen.
    """
    return lambda path: not is_protected(path, protected) and path not in left_out and not language.is_test_path(path)
