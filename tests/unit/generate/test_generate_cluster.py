"""Clusters are features over files that call one another and share tests."""

from __future__ import annotations

from taskforge.generate.cluster import Sizes, clusters
from taskforge.model import Unit
from taskforge.model.feature import Span


def unit(key: str, *, lines: int = 20, uses: tuple[str, ...] = (), public: bool = True, kind: str = "function") -> Unit:
    path, _, qualname = key.partition("::")
    return Unit.model_validate({
        "path": path, "qualname": qualname, "kind": kind, "spans": (Span(start=0, end=1),), "lines": lines,
        "uses": uses, "public": public,
    })  # fmt: skip


def project(*made: Unit) -> dict[str, Unit]:
    return {one.key: one for one in made}


#: Two features of two files each, and a helper that everything uses.
PROJECT = project(
    unit("read.py::read", uses=("read.py::_split", "lex.py::lex", "log.py::log")),
    unit("read.py::_split", public=False),
    unit("lex.py::lex", uses=("log.py::log",)),
    unit("write.py::write", uses=("format.py::form", "log.py::log")),
    unit("format.py::form", uses=("log.py::log",)),
    unit("log.py::log"),
)
TESTS = {
    "read.py::read": ("r1", "r2", "all"),
    "read.py::_split": ("r1", "r2", "all"),
    "lex.py::lex": ("r1", "r2", "l1", "all"),
    "write.py::write": ("w1", "w2", "all"),
    "format.py::form": ("w1", "w2", "all"),
    "log.py::log": ("r1", "r2", "w1", "w2", "l1", "all"),
}


def test_two_features_are_two_clusters_each_over_two_files() -> None:
    found = list(clusters(PROJECT, TESTS, Sizes(min_lines=40, max_lines=60), seed=0))
    assert {"write.py::write", "format.py::form"} in [set(keys) for keys in found]
    readers = [set(keys) for keys in found if "lex.py::lex" in keys]
    assert readers
    assert all(not keys & {"write.py::write", "format.py::form"} for keys in readers)
    for keys in found:
        assert len({PROJECT[key].path for key in keys}) >= 2
        assert 40 <= sum(PROJECT[key].lines for key in keys) <= 60


def test_the_same_seed_gives_the_same_clusters() -> None:
    sizes = Sizes(min_lines=40, max_lines=80)
    first = list(clusters(PROJECT, TESTS, sizes, seed=3))
    backwards = dict(reversed(PROJECT.items()))
    assert list(clusters(backwards, dict(reversed(TESTS.items())), sizes, seed=3)) == first
    assert first


def test_one_file_is_enough_when_one_is_asked_for_and_the_public_name_comes_first() -> None:
    found = list(clusters(PROJECT, TESTS, Sizes(min_lines=40, max_lines=40, min_files=1), seed=0))
    assert ("read.py::read", "read.py::_split") in found


def test_what_cannot_be_large_enough_is_none() -> None:
    assert list(clusters(PROJECT, TESTS, Sizes(min_lines=1000, max_lines=2000), seed=0)) == []
    assert list(clusters(PROJECT, TESTS, Sizes(min_lines=10, max_lines=19), seed=0)) == []


def test_methods_come_with_their_class() -> None:
    made = project(
        unit("a.py::Box", kind="class", lines=30, uses=("b.py::pack",)),
        unit("a.py::Box.put", kind="method", lines=10, uses=("b.py::pack",)),
        unit("b.py::pack", lines=20),
        unit("c.py::other", lines=20),
    )
    tests = {"a.py::Box": ("t1", "t2"), "a.py::Box.put": ("t1",), "b.py::pack": ("t1", "t2"), "c.py::other": ("t3",)}
    assert list(clusters(made, tests, Sizes(min_lines=40), seed=0)) == [("a.py::Box", "b.py::pack")]


def test_units_that_may_not_go_are_in_none() -> None:
    tests = {key: found for key, found in TESTS.items() if key != "format.py::form"}
    for keys in clusters(PROJECT, tests, Sizes(min_lines=20, max_lines=80, min_files=1), seed=0):
        assert "format.py::form" not in keys


def test_clusters_hardly_overlap() -> None:
    found = [frozenset(keys) for keys in clusters(PROJECT, TESTS, Sizes(min_lines=40, max_lines=100), seed=1)]
    for place, one in enumerate(found):
        assert all(len(one & other) <= min(len(one), len(other)) / 2 for other in found[place + 1 :])
