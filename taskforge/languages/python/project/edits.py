"""From what goes to the edit of each file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet

from taskforge.languages import SkippedFile
from taskforge.languages.python.project.closure import Closure
from taskforge.languages.python.project.edit import Edit, edit_module
from taskforge.languages.python.project.graph import Graph
from taskforge.languages.python.project.parts import Binding, Module, Node
from taskforge.languages.python.project.read import layout_of

__all__ = ["edited_modules", "removed_bytes"]

_ROUNDS = 4


def edited_modules(
    graph: Graph, closure: Closure, *, editable: Callable[[Module], bool], keep_docstrings: bool = True
) -> dict[Module, bytes]:
    """The new bytes of each module that changes. ``closure`` learns which blocks were emptied, and what that frees.

    Raises:
        SkippedFile: when a file cannot be edited with certainty.
    """
    result: dict[Module, bytes] = {}
    for _ in range(_ROUNDS):
        closure.join()
        result = {}
        emptied: list[tuple[Module, int, int]] = []
        for module, edit in _edits(graph, closure, editable).items():
            edit.keep_docstrings = keep_docstrings
            try:
                done = edit_module(module.path, layout_of(module.source), edit)
            except SkippedFile as problem:
                raise SkippedFile(problem.reason, f"{module.path}: {problem.message}") from problem
            result[module] = done.data
            emptied += [(module, *span) for span in done.emptied]
        if set(emptied) <= set(closure.emptied):
            break
        closure.emptied += emptied
    return result


def _edits(graph: Graph, closure: Closure, editable: Callable[[Module], bool]) -> Mapping[Module, Edit]:
    edits: dict[Module, Edit] = defaultdict(Edit)
    for node in (*closure.wanted, *closure.joined):
        if node.module in closure.files:
            continue
        edit = edits[node.module]
        if node in closure.stubbed:
            edit.stubs += closure.stubs(node)
            continue
        for binding in _bindings(node):
            (edit.statements if binding.alias is None else edit.aliases).add(
                binding.start if binding.alias is None else binding.alias
            )
    aliases = closure.aliases()
    for module, places in aliases.items():
        stars = {start for start, _end, _origin in module.stars}
        edits[module].statements |= places & stars
        edits[module].aliases |= places - stars
    for module in graph.modules.values():
        if module.exports and editable(module) and module not in closure.files:
            for at, name, statement in module.exports:
                if _leads_nowhere(graph, closure, module, name, aliases.get(module, frozenset())):
                    edits[module].strings.add(at) if statement < 0 else edits[module].statements.add(statement)
    return {module: edit for module, edit in edits.items() if edit}


def _bindings(node: Node) -> Iterable[Binding]:
    yield from node.bindings
    for guest in node.guests:
        yield from _bindings(guest)


def _leads_nowhere(
    graph: Graph, closure: Closure, module: Module, name: str, aliases: AbstractSet[int]
) -> bool:
    """Whether a listed name has no value any more; ``aliases`` are the imports that go from the module."""
    node = graph.lookup(module, name, None)
    if node is None:
        inner = graph.names.inside(module, name)
        return isinstance(inner, Module) and inner in closure.files
    if closure.is_gone(node) or (node.module is module and all(it.alias in aliases for it in node.bindings)):
        return True
    final = graph.final(node, None)
    return final in closure.files if isinstance(final, Module) else isinstance(final, Node) and closure.is_gone(final)


def removed_bytes(closure: Closure) -> dict[str, bytes]:
    """What is gone and would tell the answer; see :class:`taskforge.languages.Plan`."""
    removed: dict[str, bytes] = {}
    wanted = [*closure.wanted, *(node for module in closure.files for node in module.nodes.values())]
    for node in wanted:
        source = node.module.source
        if node in closure.stubbed:
            removed.update({it.key: source[it.body.start : it.body.end] for it in closure.stubs(node)})
        elif not node.is_import:
            removed.update(_of_wanted(node))
    for node in closure.joined:
        if not node.is_import:
            whole = b"\n".join(node.module.source[start:end] for start, end in sorted(set(node.spans())))
            removed[f"{node.key}:{node.bindings[0].line}"] = whole
    return removed


def _of_wanted(node: Node) -> dict[str, bytes]:
    source = node.module.source
    found = {it.key: source[it.body.start : it.body.end] for it in node.symbols if it.body.start < it.body.end}
    rest = [it for it in node.bindings if it.kind in {"assign", "attach"}]
    if rest:
        found[f"{node.key}:{rest[0].line}"] = b"\n".join(source[it.start : it.end] for it in rest)
    for part in (*node.guests, *node.members.values()):
        found.update(_of_wanted(part))
    return found
