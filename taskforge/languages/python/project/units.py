"""What can be removed as one, as a value for everybody else."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping

from taskforge.languages.python.project.graph import Graph
from taskforge.languages.python.project.parts import Module, Node, Ref
from taskforge.languages.python.project.policy import is_dunder, is_private
from taskforge.languages.python.project.running import Nowhere, Running
from taskforge.model import Span, Symbol, Unit
from taskforge.model.feature import UnitKind

__all__ = ["all_symbols", "make_units", "unit_nodes"]

_PROPERTY = frozenset({"property", "cached_property", "setter", "getter", "deleter", "abstractproperty"})
_DISPATCH = frozenset({"singledispatch", "singledispatchmethod"})


def unit_nodes(graph: Graph) -> dict[str, Node]:
    """Key -> node, of product code, in order of path and appearance."""
    found: list[Node] = []
    for path in sorted(graph.modules):
        module = graph.modules[path]
        if module.product:
            found += sorted((it for it in module.every() if _is_unit(it)), key=lambda it: it.bindings[0].start)
    return {it.key: it for it in found}


def _is_unit(node: Node) -> bool:
    if any(it.kind == "other" for it in node.bindings):
        return False
    if node.is_defined:
        return True
    return node.scope is None and not node.is_import and not is_dunder(node.name)


def all_symbols(node: Node) -> Iterator[Symbol]:
    """The functions of a unit, in order; of a class its methods, those of classes in it included."""
    found = list(node.symbols)
    for part in (*node.guests, *node.members.values()):
        found += all_symbols(part)
    yield from sorted(found, key=lambda it: it.span.start)


class _Owners:
    """The innermost unit around a place."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._spans: dict[Module, list[tuple[int, int, Node]]] = {}
        for node in nodes.values():
            self._spans.setdefault(node.module, []).extend((*span, node) for span in node.spans())
        for spans in self._spans.values():
            spans.sort(key=lambda it: (it[0], -it[1]))
        self._starts = {module: [it[0] for it in spans] for module, spans in self._spans.items()}

    def of(self, ref: Ref) -> Node | None:
        spans = self._spans.get(ref.module, [])
        position = bisect_right(self._starts.get(ref.module, []), ref.at) - 1
        while position >= 0:
            start, end, node = spans[position]
            if start <= ref.at < end:
                return node
            # Spans are nested or apart: the enclosing one began earlier.
            position -= 1
            if node.scope is None and end <= ref.at:
                return None
        return None


def make_units(graph: Graph, nodes: Mapping[str, Node], runner: Running) -> dict[str, Unit]:
    """All units, with what they use and who uses them."""
    owners = _Owners(nodes)
    uses: dict[Node, dict[Node, int]] = {node: {} for node in nodes.values()}
    used_by: dict[Node, dict[Node, int]] = {node: {} for node in nodes.values()}
    loose: dict[Node, int] = {}
    at_import: set[Node] = set()
    for module in graph.modules.values():
        for ref in module.refs if module.product else ():
            if ref.role in {"import", "parameter", "string"}:
                continue
            owner = owners.of(ref)
            for target in _targets(graph, ref):
                if target not in used_by or target is owner or _is_within(owner, target):
                    continue
                if ref.when == "import":
                    at_import.add(target)
                if owner is None:
                    loose[target] = loose.get(target, 0) + 1
                else:
                    uses[owner][target] = uses[owner].get(target, 0) + 1
                    used_by[target][owner] = used_by[target].get(owner, 0) + 1
    runs = runner.without(Nowhere(), ())
    at_import |= runs.keys()
    at_import |= {it for node in runs for ref in runner.refs(node) for it in graph.targets.get(ref, ())}
    return {
        key: _unit(
            node,
            uses=uses[node],
            used_by=used_by[node],
            loose=loose.get(node, 0),
            at_import=node in at_import,
        )
        for key, node in nodes.items()
    }


def _targets(graph: Graph, ref: Ref) -> Iterator[Node]:
    found = graph.targets.get(ref, ())
    yield from (it for it in found if not it.is_import)
    if ref.doubtful and not found:
        # A method whose name only one class has is most likely the one that is meant.
        named = [it for it in graph.members.get(ref.names[0], ()) if it.module.product]
        if len(named) == 1:
            yield named[0]


def _is_within(inner: Node | None, outer: Node) -> bool:
    while inner is not None:
        if inner is outer:
            return True
        inner = inner.scope
    return False


def _unit(
    node: Node, *, uses: Mapping[Node, int], used_by: Mapping[Node, int], loose: int, at_import: bool
) -> Unit:
    symbols = tuple(all_symbols(node))
    lines = sum(it.body_lines for it in symbols)
    if not node.is_function:
        code = [it for it in node.bindings if it.kind in {"assign", "class"}]
        text = b"\n".join(node.module.source[it.start : it.end] for it in code)
        lines = sum(bool(it.strip()) and not it.lstrip().startswith(b"#") for it in text.splitlines())
    names = node.qualname.split(".")
    return Unit(
        path=node.module.path,
        qualname=node.qualname,
        kind=_kind(node),
        symbols=symbols,
        spans=tuple(Span(start=start, end=end) for start, end in sorted(set(node.spans()))),
        public=not any(is_private(it) or not it.strip("_") for it in names),
        signature=_signature(node),
        docstring=node.docstring or next((it.docstring for it in symbols if it.docstring and node.is_function), ""),
        line=node.bindings[0].line,
        lines=lines,
        complexity=max(1, sum(it.complexity for it in symbols)),
        uses=tuple(it.key for it in uses),
        used_by=tuple(it.key for it in used_by),
        fan_in=sum(used_by.values()) + loose,
        fan_out=sum(uses.values()),
        at_import=at_import,
    )


def _kind(node: Node) -> UnitKind:
    if node.is_class:
        return "class"
    if not node.is_function:
        return "constant"
    last = {it.rpartition(".")[2] for binding in node.bindings for it in binding.decorators}
    if node.guests or last & _DISPATCH:
        return "dispatch"
    if last & _PROPERTY:
        return "property"
    if "overload" in last:
        return "overloads"
    if sum(it.kind != "attach" for it in node.bindings) > 1:
        return "conditional"
    return "method" if node.scope is not None else "function"


def _signature(node: Node) -> str:
    if node.is_class:
        return node.head
    if not node.is_function:
        first = node.bindings[0]
        return node.module.source[first.start : first.end].decode("utf-8", "replace").splitlines()[0]
    symbols = sorted((it for part in (node, *node.guests) for it in part.symbols), key=lambda it: it.span.start)
    return "\n".join("\n".join([*it.decorators, it.signature]) for it in symbols)
