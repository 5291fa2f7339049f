"""Symbols of a repository, and the features made of them."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from taskforge.model.base import Value

__all__ = ["Candidate", "Span", "Symbol", "Unit", "UnitKind"]


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
    docstring_span: Span | None = None
    """Of the literal; what a stub replaces, too, when it is to lose its docstring."""
    decorators: tuple[str, ...] = ()
    body_lines: int = Field(ge=0)
    """Source lines of ``body`` that are neither blank nor comment."""
    statements: int = Field(ge=0)
    """Statements in ``body``, nested ones included."""
    complexity: int = Field(ge=1)
    """Cyclomatic complexity: branches plus one."""
    public: bool = True
    forwards: bool = False
    """Its statements only hand arguments on to one call."""

    @property
    def key(self) -> str:
        return f"{self.path}::{self.qualname}:{self.line}"


UnitKind: TypeAlias = Literal[
    "function", "method", "class", "property", "overloads", "dispatch", "conditional", "constant"
]


class Unit(Value):
    """What is removed as one: every definition of one name in one module or class, and what is registered with it."""

    path: str
    qualname: str
    """``Class.method``; unique in its file."""
    kind: UnitKind
    symbols: tuple[Symbol, ...] = ()
    """The functions in it, in order of appearance; of a class its methods, those of classes in it included."""
    spans: tuple[Span, ...]
    """Bytes of the whole statements, decorators included, in order. They never overlap."""
    public: bool = True
    signature: str = ""
    """As a solver may see it, decorators included: the heads of its functions, or the head of its class."""
    docstring: str = ""
    line: int = Field(default=1, ge=1)
    lines: int = Field(default=0, ge=0)
    """Source lines of the bodies that are neither blank nor comment; of a constant those of its statements."""
    complexity: int = Field(default=1, ge=1)
    uses: tuple[str, ...] = ()
    """Keys of the units it names, in product code only; ``self.x`` counts, a doubtful ``other.x`` does not."""
    used_by: tuple[str, ...] = ()
    """Keys of the units that name it, in product code only."""
    fan_in: int = Field(default=0, ge=0)
    """Places that name it, in product code, itself and imports left out."""
    fan_out: int = Field(default=0, ge=0)
    """Places in it that name other units."""
    at_import: bool = False
    """Something else evaluates it while modules are imported: as decorator, base, default, live annotation or value."""

    @property
    def key(self) -> str:
        return f"{self.path}::{self.qualname}"


class Candidate(Value):
    """A feature chosen for removal, before anything has been proven about it."""

    mode: Literal["stub", "remove", "module", "cluster"] = "stub"
    symbols: tuple[Symbol, ...] = Field(min_length=1)
    tests: tuple[str, ...] = ()
    """Ids of the tests that enter it, by the test map."""
    units: tuple[str, ...] = ()
    """Keys of the units to take out, for every mode but ``stub`` by symbols."""
    files: tuple[str, ...] = ()
    """Paths that go whole, for ``module``."""

    @property
    def name(self) -> str:
        return self.symbols[0].qualname
