"""A Python project as a graph of definitions and uses, and the edits that take definitions out of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from taskforge.languages import Project

__all__ = ["read_project"]


def read_project(files: Mapping[str, bytes], *, is_product: Callable[[str], bool]) -> Project:
    """See :meth:`taskforge.languages.Language.project`."""
    raise NotImplementedError
