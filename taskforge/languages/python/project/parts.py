"""What a read project is made of: modules, names with their definitions, and places that use them.

All positions are byte offsets into the module's source. Parsed trees are not kept: a repository has too many nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

from taskforge.model import Symbol

__all__ = ["Binding", "BindingKind", "Module", "Node", "Origin", "Ref", "Role", "Target", "When"]

BindingKind: TypeAlias = Literal["function", "class", "assign", "import", "attach", "other"]
#: ``import``: evaluated while modules are imported. ``call``: when somebody calls. ``never``: read by type checkers.
When: TypeAlias = Literal["import", "call", "never"]
Role: TypeAlias = Literal[
    "value", "call", "factory", "decorator", "base", "annotation", "import", "string", "parameter"
]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an import takes something from: ``from ..a import b`` is level 2, module ``a``, name ``b``."""

    level: int
    module: str
    name: str | None


@dataclass(eq=False, slots=True)
class Binding:
    """One statement, or one alias of an import, that gives a name its value. ``attach`` sets something on it."""

    kind: BindingKind
    start: int
    end: int
    line: int
    origin: Origin | None = None
    alias: int | None = None
    """Offset of the alias of a ``from`` or of an ``import`` with several."""
    alias_end: int = 0
    explicit: bool = False
    """``import a as a``: said to be a re-export."""
    decorators: tuple[str, ...] = ()
    autouse: bool = False
    """A fixture that runs unasked."""

    @property
    def span(self) -> tuple[int, int]:
        return (self.start, self.end) if self.alias is None else (self.alias, self.alias_end)


@dataclass(eq=False)
class Node:
    """One name of a module or class, with all that defines it there. What it is, is asked once it is read."""

    module: Module
    scope: Node | None
    name: str
    bindings: list[Binding] = field(default_factory=list)
    members: dict[str, Node] = field(default_factory=dict)
    """Of a class: its names."""
    bases: list[tuple[str, ...]] = field(default_factory=list)
    """Of a class: its bases as dotted names; empty where one is no name."""
    class_decorated: bool = False
    annotated: bool = False
    called_with: str = ""
    """Last name of what is called to make its value: ``TypeVar``."""
    head: str = ""
    docstring: str = ""
    symbols: list[Symbol] = field(default_factory=list)
    guests: list[Node] = field(default_factory=list)
    """Names of the same scope that are registered with this one, and go with it."""
    host: Node | None = None

    @cached_property
    def qualname(self) -> str:
        return f"{self.scope.qualname}.{self.name}" if self.scope else self.name

    @cached_property
    def key(self) -> str:
        return f"{self.module.path}::{self.qualname}"

    @cached_property
    def is_class(self) -> bool:
        return any(it.kind == "class" for it in self.bindings)

    @cached_property
    def is_function(self) -> bool:
        return not self.is_class and any(it.kind == "function" for it in self.bindings)

    @cached_property
    def is_import(self) -> bool:
        return bool(self.bindings) and all(it.kind == "import" for it in self.bindings)

    @cached_property
    def is_defined(self) -> bool:
        return self.is_class or self.is_function

    def spans(self) -> Iterator[tuple[int, int]]:
        """Of all its bindings and those of its guests."""
        for binding in self.bindings:
            yield binding.span
        for guest in self.guests:
            yield from guest.spans()

    def within(self) -> Iterator[Node]:
        """All names in it, at any depth."""
        for member in self.members.values():
            yield member
            yield from member.within()


@dataclass(eq=False, slots=True)
class Ref:
    """A place that may use a name."""

    module: Module
    at: int
    names: tuple[str, ...]
    """The dotted name as written; the first is looked up in ``scope``. Of a string: its text alone."""
    when: When
    role: Role
    scope: Node | None = None
    """The class in whose body the first name is looked up before the module."""
    origin: Origin | None = None
    """When the first name is imported within a function."""
    depth: int = 0
    """How many functions are around it. What an inner function does, need not run when the outer one is called."""
    doubtful: bool = False
    """An attribute of something unknown, or a string: ``names`` is one name, looked up nowhere."""


#: What a name leads to.
Target: TypeAlias = "Node | Module"


@dataclass(eq=False)
class Module:
    """One file of Python."""

    path: str
    source: bytes
    product: bool
    nodes: dict[str, Node] = field(default_factory=dict)
    """Names of the module's own scope."""
    refs: list[Ref] = field(default_factory=list)
    """In order of their places."""
    stars: list[tuple[int, int, Origin]] = field(default_factory=list)
    """Star imports of the module's own scope: start and end of the statement."""
    exports: list[tuple[int, str, int]] = field(default_factory=list)
    """Names that ``__all__`` lists: offset of the string, its text, and the start of the statement that is about this
    name alone (``__all__.append("a")``), or -1."""
    has_all: bool = False
    imported: list[tuple[int, Origin, When, bool]] = field(default_factory=list)
    """Every import statement at any depth: offset, what, when, and whether a handler awaits its failure."""

    local_calls: list[tuple[int, int]] = field(default_factory=list)
    """Where a function calls a local name, perhaps an inner function of its own: offset and depth."""

    @cached_property
    def guarded(self) -> frozenset[int]:
        """Offsets of imports that may fail."""
        return frozenset(at for at, _origin, _when, guarded in self.imported if guarded)

    @property
    def is_package(self) -> bool:
        return self.path.rpartition("/")[2].startswith("__init__.")

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]

    @property
    def stem(self) -> str:
        return (self.folder if self.is_package else self.path.rpartition(".")[0]).rpartition("/")[2]

    def every(self) -> Iterator[Node]:
        for node in self.nodes.values():
            yield node
            yield from node.within()
