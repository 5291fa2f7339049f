"""Methods without which a class can no longer be made or instantiated."""

from __future__ import annotations

from typing import Final

from taskforge.languages.python.project.graph import Graph
from taskforge.languages.python.project.parts import Node

__all__ = ["why_required"]

_ABSTRACT: Final = frozenset(
    {"abstractmethod", "abstractproperty", "abstractclassmethod", "abstractstaticmethod"}
)
#: Abstract classes of the standard library, and the methods that they may ask for.
_LIBRARY: Final = frozenset(
    {"Mapping", "MutableMapping", "Sequence", "MutableSequence", "Set", "MutableSet", "AbstractSet", "Collection"}
    | {"Container", "Sized", "Iterable", "Iterator", "Reversible", "Hashable", "Callable", "Generator", "Coroutine"}
    | {"Awaitable", "AsyncIterable", "AsyncIterator", "AsyncGenerator", "Buffer", "Number", "Real", "Rational"}
)
_ASKED: Final = frozenset(
    {"__getitem__", "__setitem__", "__delitem__", "__len__", "__iter__", "__contains__", "__next__", "__reversed__"}
    | {"__hash__", "__call__", "__await__", "__aiter__", "__anext__", "__buffer__", "insert", "add", "discard", "send"}
    | {"throw", "asend", "athrow"}
)
_ORDER: Final = frozenset({"__lt__", "__le__", "__gt__", "__ge__"})


def why_required(graph: Graph, node: Node) -> str:
    """Why a method cannot go from a class that stays, or an empty string. A stub of it will do."""
    owner = node.scope
    if owner is None or not node.is_function or _decorated(node) & _ABSTRACT:
        return ""
    if node.name in _ORDER and "total_ordering" in _decorated(owner):
        return f"total_ordering asks for an order of {owner.qualname}"
    for base in graph.bases(owner):
        asked = base.members.get(node.name)
        if base is not owner and asked is not None and _decorated(asked) & _ABSTRACT:
            return f"{base.qualname} asks for it: without it {owner.qualname} could not be instantiated"
        if node.name in _ASKED and any(it and it[-1] in _LIBRARY and graph.base(base, it) is None for it in base.bases):
            return f"an abstract base asks for it: without it {owner.qualname} could not be instantiated"
    return ""


def _decorated(node: Node) -> frozenset[str]:
    return frozenset(it.rpartition(".")[2] for binding in node.bindings for it in binding.decorators)
