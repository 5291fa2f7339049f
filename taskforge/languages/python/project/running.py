"""What runs while modules are imported, as far as can be told without running anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from taskforge.languages.python.project.graph import Graph
from taskforge.languages.python.project.parts import Node, Ref
from taskforge.languages.python.project.policy import is_dunder

__all__ = ["MAKING", "Nowhere", "running"]

#: Run while classes are made or subscripted.
MAKING = frozenset({"__init_subclass__", "__class_getitem__", "__set_name__", "__prepare__", "__mro_entries__"})


class _Spans(Protocol):
    def holds(self, ref: Ref) -> bool: ...


class Nowhere:
    """No span."""

    def holds(self, _ref: Ref) -> bool:
        return False


def running(graph: Graph, gone: _Spans, known: Iterable[Node]) -> dict[Node, Ref | None]:
    """Functions that code which remains calls while modules are imported, through other functions too.

    Of a class that is called at import, what makes and compares its instances runs too. Errs on the side of too many.

    Args:
        known: those of which it is known that they run.

    Returns:
        Each with the use that runs it; of known ones None.
    """
    found: dict[Node, Ref | None] = dict.fromkeys(known)
    work: list[Node] = list(found)
    for ref in graph.import_calls:
        if not gone.holds(ref):
            _start(graph, ref, _called(graph, ref, at_import=True), found, work)
    while work:
        node = work.pop()
        if not node.is_function:
            continue
        for symbol in node.symbols:
            for ref in graph.refs_within(node.module, symbol.body.start, symbol.body.end):
                if not ref.nested and ref.when == "call":
                    _start(graph, ref, _called(graph, ref, at_import=False), found, work)
    return found


def _start(
    graph: Graph, ref: Ref, nodes: Iterable[Node], found: dict[Node, Ref | None], work: list[Node]
) -> None:
    for node in nodes:
        for part in _parts(graph, node, ref):
            if part not in found:
                found[part] = ref
                work.append(part)


def _parts(graph: Graph, node: Node, ref: Ref) -> Iterator[Node]:
    """What runs when ``node`` is called, or when a class derives from it."""
    if not node.is_class:
        yield node
        return
    for owner in graph.bases(node):
        for member in owner.members.values():
            if member.is_function and (member.name in MAKING or (ref.role != "base" and is_dunder(member.name))):
                yield member
    if any(it and (it[-1] == "type" or it[-1].endswith("Meta")) for it in node.bases):
        yield from (it for it in node.members.values() if it.is_function)


def _called(graph: Graph, ref: Ref, *, at_import: bool) -> Iterable[Node]:
    targets = graph.targets.get(ref, ())
    if ref.doubtful:
        if ref.role == "call" and not targets:
            named = graph.members.get(ref.names[0], [])
            # At import little is called that is unknown; elsewhere a common name may be anybody's.
            return named if at_import or len(named) == 1 else ()
        return [it for it in targets if ref.role == "call" or _is_property(it)]
    if ref in graph.partial:
        last = [it for it in targets if not it.is_import][-1:]
        return [member for name in ref.names[-1:] for member in graph.members.get(name, [])] if at_import else last[:0]
    if ref.role in {"call", "decorator", "base"}:
        return targets[-1:]
    return [it for it in targets if _is_property(it)]


def _is_property(node: Node) -> bool:
    names = {it.rpartition(".")[2] for binding in node.bindings for it in binding.decorators}
    return not names.isdisjoint({"property", "cached_property"})
