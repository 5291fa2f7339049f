"""Features as a user would name them: units that call one another and that the same tests enter, over files."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Any, Final

from taskforge.model import Unit

if TYPE_CHECKING:
    from networkx import Graph

__all__ = ["Sizes", "clusters"]

#: Of two clusters' units in common, from which the second is the first once more.
_OVERLAP: Final = 0.5
#: What a call counts beside tests in common, whose weight is between 0 and 1.
_CALL: Final = 1.0
#: A test that enters more of the units than this says nothing about which belong together.
_BROAD: Final = 0.25
_MOST: Final = 60
#: Share of a cluster's ties that have to lie within it.
_COHESION: Final = 0.15


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What a cluster may be. Lines are of code, neither blank nor comment."""

    min_lines: int = 40
    max_lines: int = 400
    min_files: int = 2


def clusters(
    units: Mapping[str, Unit], tests: Mapping[str, Sequence[str]], sizes: Sizes, *, seed: int
) -> Iterator[tuple[str, ...]]:
    """Keys of the units of each cluster, the one that gives it its name first; the most cohesive cluster first.

    A graph of calls and shared tests is cut into communities (Louvain). Within each, a cluster grows from every unit
    in turn, by the neighbour with the closest ties, until it is large enough.

    Args:
        units: of the project.
        tests: key -> tests that enter it, of the units that may be taken out; the others only connect nothing.
        sizes: of a cluster.
        seed: of the cut.
    """
    graph = _graph(units, tests)
    grown: list[tuple[float, tuple[str, ...]]] = []
    for community in _communities(graph, seed):
        inner = graph.subgraph(community)
        for start in sorted(inner, key=lambda key: (not units[key].public, -units[key].fan_in, key)):
            found = _grow(inner, units, start, sizes)
            if found is not None:
                grown.append((_cohesion(graph, found), found))
    taken: list[frozenset[str]] = []
    for cohesion, found in sorted(grown, key=lambda it: (-it[0], it[1])):
        keys = frozenset(found)
        if cohesion < _COHESION or any(len(keys & other) > _OVERLAP * min(len(keys), len(other)) for other in taken):
            continue
        taken.append(keys)
        yield _named_first(found, units, tests)


def _graph(units: Mapping[str, Unit], tests: Mapping[str, Sequence[str]]) -> Graph[str]:
    import networkx as nx

    # A class and its methods are never apart: the class stands for them.
    inside = {key for key in tests if _class_of(key, tests)}
    keys = [key for key in tests if key not in inside]
    graph: Graph[str] = nx.Graph()
    graph.add_nodes_from(keys)
    entered = Counter(test for key in keys for test in set(tests[key]))
    broad = max(2, min(_MOST, _BROAD * len(keys)))
    weight = {test: log(len(keys) / count) for test, count in entered.items() if count <= broad}
    by_test: dict[str, list[str]] = {}
    for key in keys:
        for test in tests[key]:
            if test in weight:
                by_test.setdefault(test, []).append(key)
    shared: dict[tuple[str, str], float] = defaultdict(float)
    for test, found in by_test.items():
        ordered = sorted(found)
        for place, one in enumerate(ordered):
            for other in ordered[place + 1 :]:
                shared[one, other] += weight[test]
    total = {key: sum(weight.get(test, 0.0) for test in tests[key]) for key in keys}
    for (one, other), common in shared.items():
        union = total[one] + total[other] - common
        if union > 0:
            graph.add_edge(one, other, weight=common / union)
    for key in keys:
        for used in units[key].uses:
            target = used if used in graph else _class_of(used, tests)
            if target in graph and target != key:
                known: Any = graph.get_edge_data(key, target, {"weight": 0.0})
                graph.add_edge(key, target, weight=known["weight"] + _CALL)
    return graph


def _class_of(key: str, among: Mapping[str, object]) -> str:
    """Key of the outermost class in ``among`` that holds a unit, or nothing."""
    path, _, qualname = key.partition("::")
    parts = qualname.split(".")
    outer = (f"{path}::{'.'.join(parts[:count])}" for count in range(1, len(parts)))
    return next((name for name in outer if name in among), "")


def _communities(graph: Graph[str], seed: int) -> list[list[str]]:
    from networkx.algorithms.community import louvain_communities

    # The order of nodes decides ties: it must not depend on hashes.
    found = louvain_communities(graph, weight="weight", seed=seed)
    return sorted((sorted(one) for one in found), key=lambda one: (-len(one), one))


def _grow(graph: Graph[str], units: Mapping[str, Unit], start: str, sizes: Sizes) -> tuple[str, ...] | None:
    if units[start].lines > sizes.max_lines:
        return None
    taken = [start]
    lines = units[start].lines
    ties: Counter[str] = Counter()
    while True:
        for other, data in graph[taken[-1]].items():
            if other not in taken:
                ties[other] += data["weight"]
        complete = lines >= sizes.min_lines and len({units[key].path for key in taken}) >= sizes.min_files
        if complete:
            return tuple(taken)
        fitting = [
            (-weight, other)
            for other, weight in ties.items()
            if other not in taken and lines + units[other].lines <= sizes.max_lines
        ]
        if not fitting:
            return None
        if lines >= sizes.min_lines:
            # Large enough, but of too few files: only another file helps.
            paths = {units[key].path for key in taken}
            fitting = [it for it in fitting if units[it[1]].path not in paths]
            if not fitting:
                return None
        taken.append(min(fitting)[1])
        lines += units[taken[-1]].lines


def _cohesion(graph: Graph[str], keys: Sequence[str]) -> float:
    inner = set(keys)
    inside = outside = 0.0
    for key in keys:
        for other, data in graph[key].items():
            if other in inner:
                inside += data["weight"] / 2
            else:
                outside += data["weight"]
    return inside / (inside + outside) if inside else 0.0


def _named_first(
    found: Sequence[str], units: Mapping[str, Unit], tests: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """The unit that most others' tests enter, public before private, gives the name; the rest by place."""
    name = min(found, key=lambda key: (not units[key].public, -len(tests[key]), key))
    return (name, *sorted(key for key in found if key != name))
