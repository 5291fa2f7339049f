from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from taskforge.generate.asserts import asserting
from taskforge.generate.cluster import Sizes
from taskforge.generate.select import Selection, Wanted, select
from taskforge.languages import language
from taskforge.model import Candidate, Entry, TestMap, TestRecord, Tree, Unit

BODY = b"    x = a\n    return x\n"
LONG = b"    x = a\n    if x > 2:\n        x += 1\n    while x < 9:\n        x += 2\n    return x\n"
FILES = {
    "a.py": b"def one(a):\n" + BODY + b"def two(a):\n" + BODY + b"def tiny(a): return a\ndef early(a):\n" + BODY,
    "b.py": b"class C:\n    def m(self, a):\n        x = a\n        return x\n    def n(self, a):\n        b = go(a)\n        return b\n",
    "c.py": b"def lonely(a):\n" + BODY + b"def flaky(a):\n" + BODY + b"LIMIT = 3\n",
    "d.py": b"from functools import wraps\ndef deco(f):\n    @wraps(f)\n    def inner(a):\n        return f(a)\n    return inner\n\n@deco\ndef held(a):\n" + LONG,
}
GOOD = ("passed",) * 3


def units(files: Mapping[str, bytes] = FILES) -> Mapping[str, Unit]:
    return language("python").project(files, is_product=lambda _path: True).units


def a_map(found: Mapping[str, Unit], tests: Mapping[str, tuple[str, ...]], at_import: tuple[str, ...] = ()) -> TestMap:
    """Tests by id, each with the qualified names that it enters; one that begins with ``?`` is flaky."""
    symbols = {symbol.qualname: symbol for unit in found.values() for symbol in unit.symbols}
    names = sorted(symbols)
    functions = tuple((symbols[name].path, name, symbols[name].line) for name in names)
    records = tuple(
        TestRecord(
            id=test, file="t.py", outcomes=("passed", "failed") if test.startswith("?") else GOOD, seconds=0,
            enters=tuple(sorted(names.index(name) for name in entered)), defined=f"t.py::{test}",
        )
        for test, entered in tests.items()
    )  # fmt: skip
    return TestMap(
        snapshot="s", environment="e", functions=functions, tests=records,
        unattributed=tuple(names.index(name) for name in at_import), recorder="monitoring",
    )  # fmt: skip


TESTS = {"z": ("one", "two", "tiny", "early", "C.m", "C.n", "held"), "a": ("two", "C.m"), "?f": ("one", "flaky"), "other": ()}


def chosen(**wanted: object) -> Selection:
    found = units()
    return select(found, a_map(found, TESTS, ("early", "deco")), Wanted(**wanted))  # type: ignore[arg-type]


def test_units_are_chosen_with_their_stable_tests_in_map_order() -> None:
    selection = chosen(seed=1)
    found = {candidate.units[0]: candidate.tests for candidate in selection.candidates}
    assert found == {
        "a.py::one": ("z",), "a.py::two": ("z", "a"), "b.py::C.m": ("z", "a"), "d.py::held": ("z",),
    }  # fmt: skip
    assert selection.considered == 11
    assert selection.entered == 8


def test_every_other_unit_is_counted_by_its_reason() -> None:
    selection = chosen(seed=1)
    assert selection.passed_over == {"no_test_enters": 2, "passes_on": 1, "runs_at_import": 2, "too_small": 1}
    assert chosen(min_lines=20).candidates == ()
    assert chosen(max_lines=3).passed_over["too_large"] == 2


def test_removal_takes_classes_and_leaves_what_others_need_at_import() -> None:
    selection = chosen(modes=("remove",))
    keys = {candidate.units[0] for candidate in selection.candidates}
    assert keys == {"a.py::one", "a.py::two", "b.py::C.m", "b.py::C", "d.py::held"}
    whole = next(it for it in selection.candidates if it.units == ("b.py::C",))
    assert [symbol.qualname for symbol in whole.symbols] == ["C.m", "C.n"]
    source = {"a.py": FILES["a.py"] + b"class B:\n    def m(self, a):\n" + BODY.replace(b"    ", b"        ") + b"class D(B): pass\n"}
    found = units(source)
    selection = select(found, a_map(found, {"z": ("B.m",), "x": ()}), Wanted(modes=("remove",)))
    assert {candidate.units[0] for candidate in selection.candidates} == {"a.py::B.m"}
    assert selection.passed_over["needed_at_import"] == 1


def test_a_module_goes_whole() -> None:
    selection = chosen(modes=("module",))
    by_file = {candidate.files: candidate for candidate in selection.candidates}
    assert set(by_file) == {("a.py",), ("b.py",), ("d.py",)}
    assert by_file["b.py",].units == ("b.py::C",)
    assert by_file["a.py",].tests == ("z", "a")


def test_clusters_are_over_files() -> None:
    files = {
        "p.py": b"from q import lex\ndef parse(a):\n    t = lex(a)\n" + LONG,
        "q.py": b"def lex(a):\n" + LONG,
        "r.py": b"def other(a):\n" + LONG,
    }
    found = units(files)
    tests = a_map(found, {"t1": ("parse", "lex"), "t2": ("parse", "lex"), "t3": ("other",)})
    selection = select(found, tests, Wanted(modes=("cluster",), cluster=Sizes(min_lines=10)))
    assert [candidate.units for candidate in selection.candidates] == [("p.py::parse", "q.py::lex")]
    assert selection.candidates[0].tests == ("t1", "t2")


def test_what_nearly_all_tests_enter_is_too_central() -> None:
    found = units()
    tests = {f"t{number}": ("one",) if number else ("one", "two") for number in range(20)}
    selection = select(found, a_map(found, tests), Wanted())
    assert [candidate.units for candidate in selection.candidates] == [("a.py::two",)]
    assert selection.passed_over["too_central"] == 1


def test_near_copies_join_where_they_are_few() -> None:
    found = units()
    tests = a_map(found, TESTS, ("early", "deco"))

    def of(near: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        selection = select(found, tests, Wanted(), near=near)
        return {candidate.units[0]: candidate.units for candidate in selection.candidates}

    assert of({"a.py::one": ("a.py::two",)})["a.py::one"] == ("a.py::one", "a.py::two")
    assert of({"a.py::one": ("a.py::early",)})["a.py::one"] == ("a.py::one",)
    many = ("a.py::two", "b.py::C.m", "c.py::lonely", "d.py::held")
    assert of({"a.py::one": many})["a.py::one"] == ("a.py::one",)


def test_near_copies_join_classes_modules_and_clusters() -> None:
    files = {
        "p.py": b"from q import lex\ndef parse(a):\n    t = lex(a)\n" + LONG,
        "q.py": b"def lex(a):\n" + LONG + b"class K:\n    def m(self, a):\n        x = a\n        return x\n",
        "r.py": b"def other(a):\n" + LONG + b"def third(a):\n" + LONG + b"def early(a):\n" + BODY,
    }
    found = units(files)
    tests = a_map(found, {"t1": ("parse", "lex"), "t2": ("parse", "lex"), "t3": ("other",), "t4": ("K.m",)}, ("early",))

    def of(near: dict[str, tuple[str, ...]], mode: str) -> dict[str, tuple[str, ...]]:
        wanted = Wanted(modes=(mode,), cluster=Sizes(min_lines=10))  # type: ignore[arg-type]
        chosen = select(found, tests, wanted, near=near).candidates
        return {candidate.units[0].partition("::")[2]: candidate.units[1:] for candidate in chosen}

    near = {"p.py::parse": ("r.py::other", "q.py::lex"), "q.py::lex": ("r.py::third",), "q.py::K.m": ("r.py::other",)}
    assert of(near, "cluster")["parse"] == ("q.py::lex", "r.py::other", "r.py::third")
    assert of(near, "module")["lex"] == ("q.py::K", "r.py::third", "r.py::other")
    assert of(near, "remove")["K"] == ("r.py::other",)
    # All or none: of a twin that cannot go the answer is left.
    near["q.py::lex"] = ("r.py::early",)
    assert of(near, "cluster")["parse"] == ("q.py::lex",)


def test_a_removal_that_would_all_stay_as_stubs_is_no_task_of_its_own() -> None:
    found = units()
    tests = a_map(found, TESTS, ("early", "deco"))

    def stays(candidate: Candidate) -> bool:
        return candidate.units == ("a.py::one",)

    for mode, expected in (("stub", {}), ("remove", {"needed_at_import": 1})):
        selection = select(found, tests, Wanted(modes=(mode,)), stays=stays)  # type: ignore[arg-type]
        assert selection.passed_over.get("needed_at_import", 0) == sum(expected.values())
        assert ("a.py::one" in {it.units[0] for it in selection.candidates}) is (mode == "stub")


def test_difficulty_and_a_cap_for_each_module() -> None:
    easy = chosen(difficulty=(0.0, 1.9))
    assert {candidate.units[0] for candidate in easy.candidates} == {"a.py::one", "a.py::two", "b.py::C.m"}
    assert easy.passed_over["not_so_hard"] == 1
    one = chosen(per_module=1)
    assert sorted(candidate.symbols[0].path for candidate in one.candidates) == ["a.py", "b.py", "d.py"]
    assert one.passed_over["enough_of_module"] == 1


def test_the_order_is_spread_over_modes_and_files_and_prefers_several_tests() -> None:
    candidates = chosen(modes=("stub", "remove"), seed=1).candidates
    assert [candidate.mode for candidate in candidates[:8]] == ["stub", "remove"] * 4
    stubs = [candidate for candidate in candidates if candidate.mode == "stub"]
    assert {candidate.units[0] for candidate in stubs[:2]} == {"a.py::two", "b.py::C.m"}
    assert stubs[3].units[0] == "a.py::one"


def test_tests_that_assert_something_come_first() -> None:
    source = {f"{name}.py": b"def %s(a):\n" % name.encode() + BODY for name in ("silent", "loud")}
    found = units(source)
    tests = a_map(found, {"test_s1": ("silent",), "test_s2": ("silent",), "test_l1": ("loud",), "test_l2": ("loud",)})
    suite = (
        b"def test_s1():\n    silent(1)\ndef test_s2():\n    silent(2)\n"
        b"def test_l1():\n    assert loud(1) == 1\ndef test_l2():\n    with pytest.raises(ValueError):\n        loud(None)\n"
    )
    told = asserting(Tree({"t.py": Entry(suite)}), tests)
    for seed in range(4):
        names = [it.name for it in select(found, tests, Wanted(seed=seed), asserting=told).candidates]
        assert names == ["loud", "silent"]


@pytest.mark.parametrize(
    ("body", "checks"),
    [
        (b"assert f()", True), (b"self.assertEqual(f(), 1)", True), (b"with pytest.raises(E): f()", True),
        (b"check_same(f())", True), (b"_assert(f())", True), (b"f()", False), (b"print('assert')", False),
    ],
)  # fmt: skip
def test_what_counts_as_asserting(body: bytes, checks: bool) -> None:
    found = units({"a.py": FILES["a.py"]})
    told = asserting(Tree({"t.py": Entry(b"def test_it():\n    " + body + b"\n")}), a_map(found, {"test_it": ()}))
    assert told("test_it") is checks
    unknown: Callable[[str], bool] = asserting(Tree({}), a_map(found, {"test_it": ()}))
    assert unknown("test_it")


def test_the_order_depends_on_the_seed_alone() -> None:
    found = units({f"m{n}.py": b"def f%d(a):\n" % n + BODY for n in range(12)})
    tests = a_map(found, {"t": tuple(f"f{n}" for n in range(8)), "u": tuple(f"f{n}" for n in range(8, 12))})

    def order(given: Mapping[str, Unit], seed: int) -> list[str]:
        return [it.symbols[0].path for it in select(given, tests, Wanted(seed=seed)).candidates]

    assert order(found, 1) == order(dict(reversed(found.items())), 1)
    assert order(found, 1) != order(found, 2)
    assert sorted(order(found, 1)) == sorted(order(found, 2)) == sorted(f"m{n}.py" for n in range(12))


def test_an_empty_project_has_no_candidates() -> None:
    found = units()
    assert select({}, a_map(found, TESTS), Wanted()).candidates == ()
