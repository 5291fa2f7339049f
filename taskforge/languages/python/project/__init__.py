"""A Python project as a graph of definitions and uses, and the edits that take definitions out of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType

from taskforge.languages import Mode, Plan, Project, Pruned
from taskforge.languages.python.project.graph import Graph
from taskforge.languages.python.project.planner import Planner
from taskforge.languages.python.project.prune import Pruner
from taskforge.languages.python.project.read import read_modules
from taskforge.languages.python.project.running import Running
from taskforge.languages.python.project.units import make_units, unit_nodes
from taskforge.model import Unit

__all__ = ["PythonProject", "read_project"]

_NOTHING: Mapping[str, str] = MappingProxyType({})


def read_project(files: Mapping[str, bytes], *, is_product: Callable[[str], bool]) -> Project:
    """See :meth:`taskforge.languages.Language.project`."""
    return PythonProject(files, is_product)


class PythonProject:
    """See :class:`taskforge.languages.Project`."""

    def __init__(self, files: Mapping[str, bytes], is_product: Callable[[str], bool]) -> None:
        modules, skipped = read_modules(files, is_product)
        graph = Graph(modules)
        nodes = unit_nodes(graph)
        runner = Running(graph)
        self.units: Mapping[str, Unit] = MappingProxyType(make_units(graph, nodes, runner))
        self.skipped: Mapping[str, str] = MappingProxyType(skipped)
        self._planner = Planner(files, graph, nodes, runner)
        self._needed: dict[str, frozenset[str]] = {}
        self._pruner = Pruner(graph, nodes, skipped)

    def plan(
        self,
        mode: Mode,
        units: Sequence[str],
        files: Sequence[str] = (),
        *,
        pinned: Mapping[str, str] = _NOTHING,
        running: Collection[str] = (),
        keep_docstrings: bool = True,
    ) -> Plan:
        return self._planner.plan(mode, units, files, pinned, running, keep_docstrings=keep_docstrings)

    def prune(
        self, path: str, names: Collection[str], *, also: Mapping[str, Collection[str]] = MappingProxyType({})
    ) -> Pruned:
        return self._pruner.prune(path, names, also)

    def top_level_imports(self, path: str) -> frozenset[str]:
        # Asked of every test file for every candidate.
        if path not in self._needed:
            self._needed[path] = self._pruner.top_level_imports(path)
        return self._needed[path]
