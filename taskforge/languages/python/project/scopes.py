"""Where a name is looked up while a module is read."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from taskforge.languages.python.project.parts import Node, Origin

__all__ = ["Found", "Scope", "Scopes"]


@dataclass(slots=True)
class Scope:
    """One scope within a module. ``node`` is its class, where that is known by name from outside."""

    names: AbstractSet[str]
    is_class: bool = False
    node: Node | None = None
    imports: dict[str, Origin] = field(default_factory=dict)
    is_function: bool = False
    """Of a function or lambda, not of a comprehension or of type parameters."""
    receiver: str = ""
    """Of a method: the name of its first parameter."""


@dataclass(frozen=True, slots=True)
class Found:
    """``module``: a name of the module. ``member``: of the class body it stands in. ``local``: of a function."""

    where: str
    scope: Node | None = None
    origin: Origin | None = None
    receiver: bool = False


class Scopes:
    """The scopes around a place, innermost last."""

    def __init__(self, names: Mapping[str, Node]) -> None:
        self._names = names
        self.stack: list[Scope] = []

    @property
    def in_function(self) -> bool:
        return any(not it.is_class for it in self.stack)

    @property
    def depth(self) -> int:
        """How many functions are around."""
        return sum(it.is_function for it in self.stack)

    @property
    def class_node(self) -> Node | None:
        """The innermost class around, known from outside."""
        return next((it.node for it in reversed(self.stack) if it.is_class), None)

    def look_up(self, name: str) -> Found:
        for depth, scope in enumerate(reversed(self.stack)):
            if scope.is_class:
                if depth == 0 and name in scope.names:
                    return Found("member", scope.node) if scope.node else Found("local")
            elif name in scope.names:
                if name in scope.imports:
                    return Found("import", origin=scope.imports[name])
                return Found("local", receiver=bool(name) and name == scope.receiver)
        return Found("module")

    def push_class(self, names: AbstractSet[str], name: str) -> None:
        """A class; nested in a function it cannot be named from outside."""
        outer = self.stack[-1] if self.stack else None
        node: Node | None = None
        if outer is None:
            node = self._names.get(name)
        elif outer.is_class and outer.node is not None:
            node = outer.node.members.get(name)
        self.stack.append(Scope(names, is_class=True, node=node))
