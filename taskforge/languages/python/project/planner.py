"""Plans: which files change, and how."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from taskforge.languages import Mode, Plan, SkippedFile
from taskforge.languages.python.project.closure import Closure, why_needed
from taskforge.languages.python.project.documents import is_document, without_bodies
from taskforge.languages.python.project.edits import edited_modules, removed_bytes
from taskforge.languages.python.project.graph import Graph
from taskforge.languages.python.project.metadata import without_entry_points
from taskforge.languages.python.project.parts import Module, Node
from taskforge.languages.python.project.policy import may_join
from taskforge.languages.python.project.pyi import without_names
from taskforge.languages.python.project.required import why_required
from taskforge.languages.python.project.running import Running
from taskforge.languages.python.project.units import all_symbols
from taskforge.languages.python.stub import stub_module
from taskforge.model import Symbol

__all__ = ["Planner"]


def _is_product(module: Module) -> bool:
    return module.product


class Planner:
    """See :meth:`taskforge.languages.Project.plan`."""

    def __init__(self, files: Mapping[str, bytes], graph: Graph, nodes: Mapping[str, Node], runner: Running) -> None:
        self._files = files
        self._graph = graph
        self._nodes = nodes
        self._runner = runner

    def plan(
        self,
        mode: Mode,
        units: Sequence[str],
        files: Sequence[str],
        pinned: Mapping[str, str],
        running: Collection[str],
        *,
        keep_docstrings: bool,
    ) -> Plan:
        for key in (*units, *pinned):
            if key not in self._nodes:
                raise SkippedFile("unit_unknown", f"{key} is not among the units of this project")
        for path in files:
            if path not in self._files:
                raise SkippedFile("unit_unknown", f"{path} is not among the files of this project")
        wanted = [self._nodes[key] for key in units]
        if mode == "stub":
            return self._stub(wanted, keep_docstrings=keep_docstrings)
        pins = {self._nodes[key]: why for key, why in pinned.items()}
        # Keys of functions that are no units of their own are of no interest here.
        runs = [self._nodes[it] for it in running if it in self._nodes]
        return self._remove(wanted, files, pins, runs, keep_docstrings=keep_docstrings)

    def _stub(self, wanted: Iterable[Node], *, keep_docstrings: bool) -> Plan:
        by_path: dict[str, dict[str, Symbol]] = defaultdict(dict)
        removed: dict[str, bytes] = {}
        stubbed: dict[str, str] = {}
        for node in wanted:
            symbols = [it for it in all_symbols(node) if it.body.start < it.body.end]
            by_path[node.module.path].update({it.key: it for it in symbols})
            removed.update({it.key: node.module.source[it.body.start : it.body.end] for it in symbols})
            if symbols:
                stubbed[node.key] = "the mode is stub"
        changes = {
            path: stub_module(self._files[path], list(symbols.values()), keep_docstrings=keep_docstrings)
            for path, symbols in by_path.items()
            if symbols
        }
        if not changes:
            raise SkippedFile("nothing_removed", "none of the units has a body that a stub could replace")
        return Plan(changes=changes, removed=removed, stubbed=stubbed)

    def _remove(
        self,
        wanted: Iterable[Node],
        files: Sequence[str],
        pinned: Mapping[Node, str],
        running: Iterable[Node],
        *,
        keep_docstrings: bool,
    ) -> Plan:
        notes: list[str] = []
        whole = [self._graph.modules[it] for it in files if it in self._graph.modules]
        closure = Closure(
            self._graph, wanted, whole, editable=_is_product, may_join=may_join, runner=self._runner, running=running
        )
        self._keep_files(closure, pinned, notes)
        self._keep_units(closure, notes)
        required = {
            node: why
            for node in closure.wanted
            if not closure.is_gone(node.scope) and (why := why_required(self._graph, node))
        }
        closure.settle({**required, **pinned})
        self._keep_units(closure, notes)
        self._keep_idle(closure, notes)
        if not closure.wanted and not closure.files and len(files) == len(whole):
            raise SkippedFile("nothing_removed", "; ".join(notes) or "there is nothing to take out")
        kept = {it.path for it in whole if it not in closure.files}
        edited = edited_modules(self._graph, closure, editable=_is_product, keep_docstrings=keep_docstrings)
        changes: dict[str, bytes | None] = {it.path: data for it, data in edited.items()}
        changes.update(dict.fromkeys([it for it in files if it not in kept]))
        removed = removed_bytes(closure)
        removed.update({f"{it}::{it}:1": self._files[it] for it in files if it not in self._graph.modules})
        notes += [it for it in self._strings(closure) if it not in notes]
        notes += self._elsewhere(closure, changes, removed)
        return Plan(
            changes=changes,
            removed=removed,
            deleted=tuple(key for key, node in self._nodes.items() if self._is_deleted(closure, node)),
            joined=tuple(it.key for it in closure.joined if not it.is_import),
            stubbed={node.key: why for node, why in closure.stubbed.items() if node in closure.wanted},
            notes=tuple(dict.fromkeys(notes)),
        )

    def _is_deleted(self, closure: Closure, node: Node) -> bool:
        if node.module in closure.files:
            return True
        return node in closure.wanted and node not in closure.stubbed

    def _keep_files(self, closure: Closure, pinned: Mapping[Node, str], notes: list[str]) -> None:
        """A file of which something is needed at import stays, without its other definitions."""
        while closure.files:
            closure.find_running()
            gone = closure.gone()
            found: dict[Module, str] = {}
            for module in closure.files:
                for node in module.every():
                    use = next(closure.import_uses(node, gone), None)
                    if use is not None or node in pinned:
                        found[module] = why_needed(node, use) if use else pinned[node]
                        break
                else:
                    uses = [it for it in self._graph.module_uses.get(module, ()) if closure.is_at_import(it)]
                    if any(it.module.product and not gone.holds(it) for it in uses):
                        found[module] = "the module is used as a value while others are imported"
            if not found:
                return
            for module, why in found.items():
                del closure.files[module]
                closure.wanted.update(dict.fromkeys(it for it in module.nodes.values() if it.is_defined))
                notes.append(f"{module.path} stays, without its definitions: {why}")

    def _keep_units(self, closure: Closure, notes: list[str]) -> None:
        """What is called while modules are imported has to work; alone it cannot be taken out."""
        while found := closure.find_running():
            for node, why in found.items():
                del closure.wanted[node]
                notes.append(f"{node.key} is kept: {why}")
            if not closure.wanted and not closure.files:
                raise SkippedFile("runs_at_import", "; ".join(notes))

    def _keep_idle(self, closure: Closure, notes: list[str]) -> None:
        """What has to stay and holds no body that a stub could replace is kept as it is."""
        for node in [it for it in closure.stubbed if it in closure.wanted and not closure.stubs(it)]:
            del closure.wanted[node]
            notes.append(f"{node.key} is kept, since it has no body to take out: {closure.stubbed.pop(node)}")
        closure.settle({})

    def _strings(self, closure: Closure) -> Iterable[str]:
        """Uses by a string are not edited, and may fail when they are reached."""
        gone = closure.gone()
        for node in closure.wanted:
            if node in closure.stubbed:
                continue
            for ref in self._graph.strings.get(node.name, ()):
                listed = any(ref.at == at for at, _name, _statement in ref.module.exports)
                if ref.module.product and not listed and not gone.holds(ref):
                    line = len(ref.module.source[: ref.at].splitlines()) or 1
                    yield f"{ref.module.path}:{line} holds {node.name} in a string"
        yield from closure.doubts

    def _elsewhere(
        self, closure: Closure, changes: dict[str, bytes | None], removed: Mapping[str, bytes]
    ) -> Iterable[str]:
        """Stub files, metadata and documentation."""
        nodes = [it for it in (*closure.wanted, *closure.joined) if it not in closure.stubbed and not it.is_import]
        by_path: dict[str, list[str]] = defaultdict(list)
        for node in nodes:
            by_path[node.module.path].append(node.qualname)
        stubs, notes = without_names(self._files, by_path)
        changes.update(stubs)
        changes.update({f"{it.path}i": None for it in closure.files if f"{it.path}i" in self._files})
        yield from notes
        bodies = list(removed.values())
        for path, source in self._files.items():
            if path in changes:
                continue
            data = source
            if path.rpartition("/")[2] in {"pyproject.toml", "setup.cfg"}:
                data, notes = without_entry_points(path, source, lambda name, inner: self._leads(closure, name, inner))
                yield from notes
            elif is_document(path):
                data = without_bodies(source, bodies)
                if data != source:
                    yield f"{path}: a passage that shows the code is gone"
            if data != source:
                changes[path] = data

    def _leads(self, closure: Closure, dotted: str, inner: str) -> bool:
        """Whether an entry point leads to what is gone."""
        anywhere: Module = next(iter(self._graph.modules.values()))
        module = self._graph.names.find(0, dotted, anywhere)
        if not isinstance(module, Module):
            return False
        if module in closure.files:
            return True
        names: Collection[str] = inner.split(".") if inner else ()
        node: Node | None = None
        for position, name in enumerate(names):
            found = self._graph.lookup(module, name, None) if position == 0 else self._graph.member(node, name)
            final = self._graph.final(found, None) if found is not None else None
            node = final if isinstance(final, Node) else None
            if node is None:
                return False
        return closure.is_gone(node)
