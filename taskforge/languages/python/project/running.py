"""What runs while modules are imported, as far as can be told without running anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from taskforge.languages.python.project.graph import Graph
from taskforge.languages.python.project.parts import Node, Ref
from taskforge.languages.python.project.policy import is_dunder

__all__ = ["Nowhere", "Running"]

#: Run while classes are made or subscripted.
MAKING = frozenset({"__init_subclass__", "__class_getitem__", "__set_name__", "__prepare__", "__mro_entries__"})

_CALLS = frozenset({"call", "factory"})


class _Spans(Protocol):
    def holds(self, ref: Ref) -> bool: ...


class Nowhere:
    """No span."""

    def holds(self, _ref: Ref) -> bool:
        return False


class Running:
    """Functions that are called while modules are imported, through other functions too.

    Of a class that is called at import, what makes and compares its instances runs too. Errs on the side of too many.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._starts = [
            (ref, tuple(part for node in self._called(ref, at_import=True) for part in _parts(graph, node, ref)))
            for ref in graph.import_calls
        ]
        #: Functions that make decorators: what these do runs at import, too.
        self._factories = {part for ref, parts in self._starts if ref.role == "factory" for part in parts}
        self._next: dict[Node, tuple[tuple[Ref, Node], ...]] = {}

    def without(self, gone: _Spans, known: Iterable[Node]) -> dict[Node, Ref | None]:
        """What runs when the code in ``gone`` does not.

        Args:
            known: those of which it is known that they run.

        Returns:
            Each with the use that runs it; of known ones None.
        """
        found: dict[Node, Ref | None] = dict.fromkeys(known)
        work = list(found)
        for ref, parts in self._starts:
            if parts and not gone.holds(ref):
                work += [it for it in parts if it not in found]
                found.update({it: ref for it in parts if it not in found})
        while work:
            for ref, part in self._after(work.pop()):
                if part not in found and not gone.holds(ref):
                    found[part] = ref
                    work.append(part)
        return found

    def refs(self, node: Node) -> Iterator[Ref]:
        """What a function uses when it runs. What its inner functions use counts where it may call them itself."""
        for symbol in node.symbols if node.is_function else ():
            start, end = symbol.body.start, symbol.body.end
            calls = node in self._factories or any(start <= at < end and it < 2 for at, it in node.module.local_calls)
            for ref in self._graph.refs_within(node.module, start, end):
                if ref.when == "call" and (ref.depth < 2 or (calls and ref.depth < 3)):
                    yield ref

    def _after(self, node: Node) -> tuple[tuple[Ref, Node], ...]:
        if node not in self._next:
            self._next[node] = tuple(
                (ref, part)
                for ref in self.refs(node)
                for called in self._called(ref, at_import=False)
                for part in _parts(self._graph, called, ref)
            )
        return self._next[node]

    def _called(self, ref: Ref, *, at_import: bool) -> Iterable[Node]:
        targets = self._graph.targets.get(ref, ())
        if ref.doubtful:
            if ref.role in _CALLS and not targets:
                named = self._graph.members.get(ref.names[0], [])
                # At import little is called that is unknown; elsewhere a common name may be anybody's.
                return named if at_import or len(named) == 1 else ()
            return [it for it in targets if ref.role in _CALLS or _is_property(it)]
        if ref in self._graph.partial:
            return self._graph.members.get(ref.names[-1], ()) if at_import else ()
        if ref.role in _CALLS | {"decorator", "base"}:
            return targets[-1:]
        if not at_import and targets and targets[-1].is_function:
            # Handed on within a function that runs, it is most likely called there.
            return targets[-1:]
        return [it for it in targets if _is_property(it)]


def _parts(graph: Graph, node: Node, ref: Ref) -> Iterator[Node]:
    """What runs when ``node`` is called, or when a class derives from it."""
    if not node.is_class:
        yield node
        return
    for owner in graph.bases(node):
        for member in owner.members.values():
            called = ref.role != "base" and (is_dunder(member.name) or ref.when == "call")
            if member.is_function and (member.name in MAKING or called):
                # An instance made within a function is called there by names that tell nothing.
                yield member
    if any(it and (it[-1] == "type" or it[-1].endswith("Meta")) for it in node.bases):
        yield from (it for it in node.members.values() if it.is_function)


def _is_property(node: Node) -> bool:
    names = {it.rpartition(".")[2] for binding in node.bindings for it in binding.decorators}
    return not names.isdisjoint({"property", "cached_property"})
