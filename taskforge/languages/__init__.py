"""What taskforge knows of a programming language: one protocol, an explicit table of implementations.

A language is text to text. It never runs anything, so it is tested without a sandbox and may live on the host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Protocol, cast

from taskforge.errors import TaskforgeError, UsageError
from taskforge.model import Symbol

__all__ = ["LANGUAGES", "Language", "SkippedFile", "language"]


class SkippedFile(TaskforgeError):  # noqa: N818 - an outcome for one file; the repository goes on
    """A file that cannot be treated safely. ``reason`` is a stable snake_case word that reports count by."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message, hint="the file is left as it is; its features are not offered")
        self.reason = reason


class Language(Protocol):
    """Definitions and edits of one language."""

    name: str

    def is_source(self, path: str) -> bool:
        """Whether ``path`` may hold features."""
        ...

    def is_test_path(self, path: str) -> bool:
        """Whether ``path`` belongs to the tests, by the customs of the language."""
        ...

    def is_config_path(self, path: str) -> bool:
        """Whether ``path`` steers how tests are run or how the interpreter starts."""
        ...

    def index(self, path: str, source: bytes) -> list[Symbol]:
        """Every function and method of a file that can be named from outside it, in order of appearance.

        Raises:
            SkippedFile: when the file cannot be parsed, or its bytes cannot be told exactly from the parse.
        """
        ...

    def stub(self, source: bytes, symbols: Sequence[Symbol]) -> bytes:
        """``source`` with the body of each symbol raising "not implemented"; all else is the same, byte for byte.

        Raises:
            SkippedFile: when a symbol has no body to replace, or the result would not parse.
        """
        ...


#: Name -> the module whose ``LANGUAGE`` is the implementation. Imported late: a parser is heavy.
LANGUAGES: Mapping[str, str] = MappingProxyType({"python": "taskforge.languages.python"})


def language(name: str) -> Language:
    """The implementation called ``name``.

    Raises:
        UsageError: when there is none.
    """
    if name not in LANGUAGES:
        raise UsageError(f"no language {name!r} is known", hint=f"choose one of: {', '.join(sorted(LANGUAGES))}")
    return cast("Language", import_module(LANGUAGES[name]).LANGUAGE)
