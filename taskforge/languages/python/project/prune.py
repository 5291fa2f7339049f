"""Test modules without some of their tests, and what they need of the product when they are imported."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from taskforge.languages import Pruned, SkippedFile
from taskforge.languages.python.project.closure import Closure
from taskforge.languages.python.project.edits import edited_modules
from taskforge.languages.python.project.graph import Graph
from taskforge.languages.python.project.parts import Module, Node, Ref
from taskforge.languages.python.project.policy import may_join_in_tests

__all__ = ["Pruner"]

_TEST = re.compile(r"test|Test|.*Tests?$")


def _is_test_code(module: Module) -> bool:
    return not module.product


class Pruner:
    """See :meth:`taskforge.languages.Project.prune` and ``top_level_imports``."""

    def __init__(self, graph: Graph, nodes: Mapping[str, Node], skipped: Mapping[str, str]) -> None:
        self._graph = graph
        self._keys = {node: key for key, node in nodes.items()}
        self._skipped = skipped

    def prune(self, path: str, names: Collection[str], also: Mapping[str, Collection[str]]) -> Pruned:
        module = self._module(path)
        wanted: list[Node] = []
        for where, qualnames in {**also, path: names}.items():
            if where in self._skipped and where != path:
                continue
            of = self._module(where)
            wanted += [self._named(of, it) for it in qualnames]
        closure = self._closure(wanted)
        edited = edited_modules(self._graph, closure, editable=_is_test_code)
        while more := self._without_tests(closure):
            wanted += more
            closure = self._closure(wanted)
            edited = edited_modules(self._graph, closure, editable=_is_test_code)
        asked = {it for it in wanted if it.module is module and it.qualname in names}
        gone = [it for it in (*closure.wanted, *closure.joined) if it.module is module and it not in asked]
        data = edited.get(module, module.source)
        if self._is_useless(module, closure):
            return Pruned(data=None, gone=tuple(it.qualname for it in module.nodes.values() if not it.is_import))
        return Pruned(data=data, gone=tuple(it.qualname for it in gone if not it.is_import))

    def _closure(self, wanted: Iterable[Node]) -> Closure:
        return Closure(
            self._graph, wanted, (), editable=_is_test_code, may_join=may_join_in_tests, fixtures=True
        )

    def _module(self, path: str) -> Module:
        if path in self._skipped:
            raise SkippedFile(self._skipped[path], f"{path} cannot be read with certainty")
        if path not in self._graph.modules:
            raise SkippedFile("file_unknown", f"{path} is not among the Python files of this project")
        return self._graph.modules[path]

    def _named(self, module: Module, qualname: str) -> Node:
        names = module.nodes
        node: Node | None = None
        for name in qualname.split("."):
            node = names.get(name)
            if node is None:
                raise SkippedFile("unit_unknown", f"{module.path} defines no {qualname}")
            names = node.members
        assert node is not None
        return node

    def _without_tests(self, closure: Closure) -> list[Node]:
        """Classes whose last test has gone, and that nobody derives from or names."""
        found = []
        gone = closure.gone()
        touched = {it.scope for it in closure.wanted if it.scope is not None}
        touched |= {
            derived
            for module in self._graph.modules.values()
            if _is_test_code(module)
            for derived in module.nodes.values()
            if derived.is_class and any(it in touched for it in self._graph.bases(derived))
        }
        for node in touched:
            if closure.is_gone(node) or self._has_tests(node, closure):
                continue
            if all(gone.holds(ref) or _holds(node, ref) for ref in self._graph.uses.get(node, ())):
                found.append(node)
        return found

    def _has_tests(self, node: Node, closure: Closure) -> bool:
        for owner in self._graph.bases(node):
            if any(self._is_test(it, closure) for it in owner.members.values()):
                return True
            # A base from elsewhere may bring tests of its own.
            foreign = [it for it in owner.bases if self._graph.base(owner, it) is None]
            if any(it and not it[-1].endswith(("TestCase", "Mixin", "object")) for it in foreign):
                return True
        return False

    def _is_test(self, node: Node, closure: Closure) -> bool:
        if not (_TEST.match(node.name) and node.is_defined) or closure.is_gone(node):
            return False
        return not node.is_class or self._has_tests(node, closure)

    def _is_useless(self, module: Module, closure: Closure) -> bool:
        """No test is left, and nobody else imports the module."""
        if not any(_TEST.match(it.name) and it.is_defined for it in module.nodes.values()):
            return False
        if any(self._is_test(it, closure) for it in module.nodes.values()):
            return False
        gone = closure.gone()
        uses = [ref for node in module.every() for ref in self._graph.uses.get(node, ())]
        uses += self._graph.module_uses.get(module, [])
        return all(ref.module is module or gone.holds(ref) for ref in uses)

    def top_level_imports(self, path: str) -> frozenset[str]:
        found: set[str] = set()
        seen: set[Module] = set()
        work = [it for it in self._conftests(path) if it in self._graph.modules]
        modules = [self._graph.modules[it] for it in (path, *work) if it in self._graph.modules]
        while modules:
            module = modules.pop()
            if module in seen:
                continue
            seen.add(module)
            guarded = {at for at, _origin, _when, guarded in module.imported if guarded}
            for ref in module.refs:
                if ref.when == "import" and not (ref.role == "import" and ref.at in guarded):
                    found |= {self._keys[it] for it in self._graph.targets.get(ref, ()) if it in self._keys}
            for _at, origin, when, is_guarded in module.imported:
                source = self._graph.names.find(origin.level, origin.module, module)
                if when == "import" and not is_guarded and isinstance(source, Module) and not source.product:
                    modules.append(source)
        return frozenset(found)

    def _conftests(self, path: str) -> Iterable[str]:
        folder = path.rpartition("/")[0]
        yield f"{folder}/conftest.py".lstrip("/")
        while folder:
            folder = folder.rpartition("/")[0]
            yield f"{folder}/conftest.py".lstrip("/")


def _holds(node: Node, ref: Ref) -> bool:
    return ref.module is node.module and any(start <= ref.at < end for start, end in node.spans())
