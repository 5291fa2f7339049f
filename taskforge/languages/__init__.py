"""What taskforge knows of a programming language: one protocol, an explicit table of implementations.

A language is text to text. It never runs anything, so it is tested without a sandbox and may live on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Literal, Protocol, TypeAlias, cast

from taskforge.errors import TaskforgeError, UsageError
from taskforge.model import Symbol, Unit

__all__ = ["LANGUAGES", "Language", "Mode", "Plan", "Project", "Pruned", "SkippedFile", "language"]

Mode: TypeAlias = Literal["stub", "remove", "module", "cluster"]


class SkippedFile(TaskforgeError):  # noqa: N818 - an outcome for one file; the repository goes on
    """A file that cannot be treated safely. ``reason`` is a stable snake_case word that reports count by."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message, hint="the file is left as it is; its features are not offered")
        self.reason = reason


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The edit that takes units out of a project."""

    changes: Mapping[str, bytes | None]
    """Path -> its new bytes, or None for a file that is gone."""
    removed: Mapping[str, bytes]
    """What is gone and would tell the answer, by ``path::qualname:line`` (of a function its ``Symbol.key``). Of wanted
    units the bodies, without the docstring and the signature, which a statement tells, and what else a class or a
    constant held; of what went along the whole."""
    deleted: tuple[str, ...] = ()
    """Keys of the wanted units that are wholly gone."""
    joined: tuple[str, ...] = ()
    """``path::qualname`` of what existed only for them and went along: helpers, constants, private methods."""
    stubbed: Mapping[str, str]
    """Key of a wanted unit -> why it stays as a stub."""
    notes: tuple[str, ...] = ()
    """What a reader of the report should know: doubtful uses by strings, units that were kept, edits of metadata."""


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """A test module without some of its definitions."""

    data: bytes | None
    """None when nothing of use is left in it."""
    gone: tuple[str, ...] = ()
    """Qualified names that went along."""


class Project(Protocol):
    """What the definitions of a snapshot are, and who uses them. Read once from all its files; never runs anything."""

    units: Mapping[str, Unit]
    """Key -> unit, of product files, in order of path and appearance."""
    skipped: Mapping[str, str]
    """Path -> reason. One file that cannot be read never ends a repository: it is not edited, nor searched for uses."""

    def plan(
        self,
        mode: Mode,
        units: Sequence[str],
        files: Sequence[str] = (),
        *,
        pinned: Mapping[str, str] = {},
        running: Collection[str] = (),
        keep_docstrings: bool = True,
    ) -> Plan:
        """The edit that takes ``units`` and ``files`` out.

        ``stub`` replaces bodies and touches nothing else. The other modes take out the definitions and what existed
        only for them. Code that remains can be imported; callers fail only when they are called.

        Args:
            units: keys; with ``files``, units in those are implied.
            files: paths that go whole.
            pinned: unit key -> why it has to stay as a stub, for what only the caller knows: a test module that stays
                imports it at the top.
            running: keys of functions that were seen to run while modules were imported: these stay as they are. What
                can be told of that by reading is found without being named here.
            keep_docstrings: whether functions that stay as stubs keep theirs; ``Plan.removed`` never holds it.

        Raises:
            SkippedFile: when it cannot be done; ``reason`` says why: ``unit_unknown``, ``runs_at_import``,
                ``nothing_removed``, ``layout_unclear``, ``edit_does_not_parse``, or a file's own reason.
        """
        ...

    def prune(self, path: str, names: Collection[str], *, also: Mapping[str, Collection[str]] = {}) -> Pruned:
        """A test module without the named definitions, and without what existed only for them in it.

        Helpers, fixtures, constants, parametrize data and imports go along when nothing that stays in any file uses
        them; a class whose last test goes, goes. Of ``conftest.py`` goes only what the removed tests used and nobody
        else does.

        Args:
            names: qualified names (``TestA.test_x``); all definitions of a name go. Unknown ones are an error.
            also: other files' removals made at the same time, path -> names. Their bytes are not returned: call once
                a file.

        Raises:
            SkippedFile: when the file cannot be edited with certainty.
        """
        ...

    def top_level_imports(self, path: str) -> frozenset[str]:
        """Keys of the units that importing this (test) module needs at once, through helper modules and the
        ``conftest.py`` files above it, too. Imports guarded by ``except ImportError`` are not needed."""
        ...


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

    def stub(self, source: bytes, symbols: Sequence[Symbol], *, keep_docstrings: bool = True) -> bytes:
        """``source`` with the body of each symbol raising "not implemented"; all else is the same, byte for byte.

        Args:
            keep_docstrings: whether the docstring stays above the stub.

        Raises:
            SkippedFile: when a symbol has no body to replace, or the result would not parse.
        """
        ...

    def project(self, files: Mapping[str, bytes], *, is_product: Callable[[str], bool]) -> Project:
        """Read a snapshot.

        Args:
            files: path -> bytes of every regular file: sources, stubs, metadata and documentation; others are ignored.
            is_product: whether a path is the project's own code, which may be edited, and not its tests.
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
