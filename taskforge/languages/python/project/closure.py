"""What goes: the wanted definitions, what existed only for them, and the imports of all these."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

from taskforge.languages.python.project.graph import Graph
from taskforge.languages.python.project.parts import Module, Node, Ref
from taskforge.languages.python.project.policy import is_private
from taskforge.languages.python.project.running import Running
from taskforge.model import Symbol

__all__ = ["Closure", "Regions"]


class Regions:
    """Spans of bytes, by module."""

    def __init__(self) -> None:
        self._spans: dict[Module, list[tuple[int, int]]] = defaultdict(list)

    def add(self, module: Module, spans: Iterable[tuple[int, int]]) -> None:
        self._spans[module] += spans

    def holds(self, ref: Ref) -> bool:
        return any(start <= ref.at < end for start, end in self._spans.get(ref.module, ()))

    def spans(self) -> Iterator[tuple[Module, int, int]]:
        for module, spans in self._spans.items():
            for start, end in spans:
                yield module, start, end


class Closure:
    """See the module's docstring. Made in steps, since what stays as a stub decides what may join."""

    def __init__(
        self,
        graph: Graph,
        wanted: Iterable[Node],
        files: Iterable[Module],
        *,
        editable: Callable[[Module], bool],
        may_join: Callable[[Graph, Node], bool],
        fixtures: bool = False,
        runner: Running | None = None,
        running: Iterable[Node] = (),
    ) -> None:
        self._graph = graph
        self._editable = editable
        self._may_join = may_join
        self._fixtures = fixtures
        self._runner = runner
        self._known_running = tuple(running)
        self._runs: dict[Node, Ref | None] = {}
        self._run_refs: set[Ref] = set()
        self.wanted = dict.fromkeys(wanted)
        self.files = dict.fromkeys(files)
        self.stubbed: dict[Node, str] = {}
        self.joined: dict[Node, None] = {}
        self.emptied: list[tuple[Module, int, int]] = []
        self.doubts: list[str] = []

    # What has to stay

    def import_uses(self, node: Node, gone: Regions) -> Iterator[Ref]:
        """The places in code that remains which evaluate ``node`` while modules are imported."""
        for ref in self._graph.uses.get(node, ()):
            if not self.is_at_import(ref) or not self._editable(ref.module) or gone.holds(ref):
                continue
            if not any(_has_fallback(it) for it in self._graph.targets[ref] if it is not node):
                yield ref

    def is_at_import(self, ref: Ref) -> bool:
        """Whether a use is evaluated while modules are imported; import statements of modules are edited instead."""
        return (ref.when == "import" and ref.role != "import") or ref in self._run_refs

    def find_running(self) -> dict[Node, str]:
        """Wanted functions that would be run into while modules are imported, and why that is thought."""
        if self._runner is None:
            return {}
        gone = self.gone()
        self._runs = self._runner.without(gone, self._known_running)
        self._run_refs = {it for node in self._runs for it in self._runner.refs(node) if not gone.holds(it)}
        return {
            node: why_needed(node, use) if (use := self._runs[node]) else f"{node.name} was seen to run at import"
            for node in self.wanted
            if node in self._runs and not node.is_class
        }

    def settle(self, pinned: Mapping[Node, str]) -> None:
        """Find what has to stay as a stub: a stub keeps its decorators, and they may keep others."""
        self.stubbed.update({node: why for node, why in pinned.items() if node in self.wanted})
        while True:
            gone = self.gone()
            found = {}
            for node in self.wanted:
                use = next(self.import_uses(node, gone), None) if node not in self.stubbed else None
                if use is not None:
                    found[node] = why_needed(node, use)
            if not found:
                return
            self.stubbed.update(found)

    def stubs(self, node: Node) -> list[Symbol]:
        """The functions of a node that stays whose bodies go."""
        if not node.is_class:
            return [it for part in (node, *node.guests) for it in part.symbols if it.body.start < it.body.end]
        found = []
        for member in node.within():
            if member not in self._runs and not member.is_class:
                found += self.stubs(member)
        return found

    # What is gone

    def gone(self, *, joined: bool = True) -> Regions:
        """All bytes that go, as far as is known."""
        regions = Regions()
        for module in self.files:
            regions.add(module, [(0, len(module.source) + 1)])
        for node in self.wanted:
            if node in self.stubbed:
                regions.add(node.module, [(it.body.start, it.body.end) for it in self.stubs(node)])
            else:
                regions.add(node.module, node.spans())
        for node in self.joined if joined else ():
            regions.add(node.module, node.spans())
        for module, start, end in self.emptied:
            regions.add(module, [(start, end)])
        for module, places in self.aliases().items():
            regions.add(module, [(at, at + 1) for at in places])
        return regions

    def is_gone(self, node: Node | None) -> bool:
        while node is not None:
            if node.module in self.files or node in self.joined or (node in self.wanted and node not in self.stubbed):
                return True
            node = node.scope
        return False

    def aliases(self) -> dict[Module, set[int]]:
        """Names in import statements, outside functions, that lead to what is gone, and star imports of gone files."""
        found: dict[Module, set[int]] = defaultdict(set)
        of_files = [node for module in self.files for node in module.nodes.values()]
        for node in (*self.wanted, *self.joined, *of_files):
            if not self.is_gone(node) or node.scope is not None:
                continue
            for ref in self._graph.uses.get(node, ()):
                # An import that may fail says what to do then.
                if ref.role == "import" and ref.when != "call" and self._editable(ref.module):
                    found[ref.module].add(ref.at)
        if self.files:
            self._add_of_files(found)
        return {module: places - module.guarded for module, places in found.items()}

    def _add_of_files(self, found: dict[Module, set[int]]) -> None:
        for module in self._graph.modules.values():
            if module in self.files or not self._editable(module):
                continue
            for at, origin, when, _guarded in module.imported:
                source = self._graph.names.find(origin.level, origin.module, module)
                inner = self._graph.names.inside(source, origin.name) if source is not None and origin.name else None
                if when != "call" and (inner in self.files or (source in self.files and inner is None)):
                    found[module].add(at)

    # What goes along

    def join(self) -> None:
        """Add what was used by what is gone, and is by nothing else. Mutual users go together."""
        candidates = self._reached()
        while candidates:
            gone = self.gone()
            for node in candidates:
                gone.add(node.module, node.spans())
            staying = [node for node in candidates if self._is_used(node, gone)]
            if not staying:
                break
            for node in staying:
                del candidates[node]
        self.joined.update(candidates)

    def _reached(self) -> dict[Node, None]:
        found: dict[Node, None] = {}
        work = list(self.gone().spans())
        while work:
            module, start, end = work.pop()
            for ref in self._graph.refs_within(module, start, end):
                for node in self._nodes_of(ref):
                    if node in found or self.is_gone(node) or node in self.wanted or not self._editable(node.module):
                        continue
                    if self._may_join(self._graph, node):
                        found[node] = None
                        work += [(node.module, *span) for span in node.spans()]
        return found

    def _nodes_of(self, ref: Ref) -> Iterable[Node]:
        if not ref.doubtful:
            return self._graph.targets.get(ref, ())
        if ref.role == "parameter" and self._fixtures:
            return self.fixtures_of(ref)
        name = ref.names[0]
        if ref.role == "string":
            if not self._fixtures:
                return ()
            return [it for word in name.split(",") for it in self._module_names(word.strip())]
        return [*self._graph.targets.get(ref, ()), *(self._graph.members.get(name, ()) if is_private(name) else ())]

    def fixtures_of(self, ref: Ref) -> list[Node]:
        """What a parameter of a test asks for: a fixture of its module, or of a conftest above it."""
        return [
            it
            for it in [*self._module_names(ref.names[0]), *self._graph.members.get(ref.names[0], ())]
            if it.module is ref.module or it.module.path.endswith("conftest.py")
        ]

    def _module_names(self, name: str) -> list[Node]:
        return [it for module in self._graph.modules.values() if (it := module.nodes.get(name)) is not None]

    def _is_used(self, node: Node, gone: Regions) -> bool:
        if any(not gone.holds(ref) for ref in self._graph.uses.get(node, ())):
            return True
        strings = [it for it in self._graph.strings.get(node.name, ()) if not gone.holds(it)]
        if node.is_import:
            return any(_means_import(node, it) for it in strings)
        if strings:
            self.doubts.append(f"{node.key} stays: {strings[0].module.path} holds its name in a string")
            return True
        return any(self._may_mean(node, it) and not gone.holds(it) for it in self._graph.by_name.get(node.name, ()))

    def _may_mean(self, node: Node, ref: Ref) -> bool:
        """Whether an attribute of something unknown may be ``node``."""
        if ref.role == "parameter":
            return self._fixtures and node in self.fixtures_of(ref)
        known = self._graph.targets.get(ref, ())
        if not ref.doubtful or not known:
            return True
        if node.scope is None:
            return False
        # ``self.x`` of a class may be that of its bases and of classes that derive from it.
        return any(
            node.scope in self._graph.bases(it.scope) or it.scope in self._graph.bases(node.scope)
            for it in known
            if it.scope is not None
        )


def why_needed(node: Node, use: Ref) -> str:
    """For the report: who evaluates it at import, and how."""
    how = {"decorator": "as a decorator", "base": "as a base class", "annotation": "in an annotation"}
    line = len(use.module.source[: use.at].splitlines()) or 1
    return f"{use.module.path}:{line} uses {node.name} {how.get(use.role, 'as a value')} while it is imported"


def _has_fallback(node: Node) -> bool:
    """Whether a name is imported where that may fail, and is given a value otherwise, too."""
    guarded = node.module.guarded
    tried = [it for it in node.bindings if it.kind == "import" and it.alias in guarded]
    return bool(tried) and len(tried) < len(node.bindings)


def _means_import(node: Node, ref: Ref) -> bool:
    """``pkg.mod.json`` names the json that ``mod`` imports; ``json`` alone may be anything."""
    return f"{node.module.stem}.{node.name}" in ref.names[0]
