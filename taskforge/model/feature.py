"""Symbols of a repository, and the features made of them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from taskforge.model.base import Value

__all__ = ["Candidate", "Span", "Symbol"]


class Span(Value):
    """Bytes ``start`` (inclusive) to ``end`` (exclusive) of a file."""

    start: int = Field(ge=0)
    end: int = Field(ge=0)


class Symbol(Value):
    """One definition in one file, as its language's index found it."""

    path: str
    qualname: str
    """As ``code.co_qualname`` has it, without ``<locals>``: ``Class.method``."""
    kind: Literal["function", "method"]
    flavour: Literal["plain", "generator", "coroutine", "async_generator"] = "plain"
    line: int = Field(ge=1)
    """First line of the definition, decorators included, as ``code.co_firstlineno`` has it."""
    span: Span
    """The whole definition, decorators included."""
    body: Span
    """What a stub replaces: the statements after the docstring, to the end of the last one."""
    signature: str
    """From ``def`` to the colon, on as many lines as in the source."""
    docstring: str = ""
    decorators: tuple[str, ...] = ()
    body_lines: int = Field(ge=0)
    """Source lines of ``body`` that are neither blank nor comment."""
    statements: int = Field(ge=0)
    """Statements in ``body``, nested ones included."""
    complexity: int = Field(ge=1)
    """Cyclomatic complexity: branches plus one."""
    public: bool = True

    @property
    def key(self) -> str:
        return f"{self.path}::{self.qualname}:{self.line}"


class Candidate(Value):
    """A feature chosen for removal, before anything has been proven about it."""

    mode: Literal["stub", "remove", "module", "cluster"] = "stub"
    symbols: tuple[Symbol, ...] = Field(min_length=1)
    tests: tuple[str, ...] = ()
    """Ids of the tests that enter it, by the test map."""

    @property
    def name(self) -> str:
        return self.symbols[0].qualname
