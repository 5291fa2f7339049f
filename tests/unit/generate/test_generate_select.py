from __future__ import annotations

from taskforge.generate.select import select
from taskforge.languages import language
from taskforge.model import Symbol, TestMap, TestRecord

BODY = b"    x = a\n    return x\n"
FILES = {
    "a.py": b"def one(a):\n" + BODY + b"def two(a):\n" + BODY + b"def tiny(a): return a\ndef early(a):\n" + BODY,
    "b.py": b"@t.overload\ndef over(a):\n" + BODY + b"class C:\n    def m(self, a):\n        x = a\n        return x\n",
    "c.py": b"def lonely(a):\n" + BODY + b"def flaky(a):\n" + BODY + b"\ndef flaky(a):\n" + BODY,
}


def index() -> dict[str, list[Symbol]]:
    return {path: language("python").index(path, source) for path, source in FILES.items()}


def a_map() -> TestMap:
    functions = (
        ("a.py", "one", 1),
        ("a.py", "two", 4),
        ("a.py", "tiny", 7),
        ("a.py", "early", 8),
        ("b.py", "over", 1),
        ("b.py", "C.m", 6),
        ("c.py", "flaky", 8),
        ("c.py", "flaky", 99),
    )
    good = ("passed",) * 3
    records = (
        TestRecord(id="t::z", file="t", outcomes=good, seconds=0, enters=(0, 1, 2, 3, 4, 5, 7)),
        TestRecord(id="t::a", file="t", outcomes=good, seconds=0, enters=(1, 5)),
        TestRecord(id="t::f", file="t", outcomes=("passed", "failed"), seconds=0, enters=(0, 6)),
    )
    return TestMap(
        snapshot="s", environment="e", functions=functions, tests=records, unattributed=(3,), recorder="monitoring"
    )


def test_symbols_are_chosen_with_their_stable_tests_in_map_order() -> None:
    selection = select(index(), a_map(), seed=1)
    found = {candidate.symbols[0].key: candidate.tests for candidate in selection.candidates}
    assert found == {"a.py::one:1": ("t::z",), "a.py::two:4": ("t::z", "t::a"), "b.py::C.m:6": ("t::z", "t::a")}
    assert selection.considered == 9


def test_every_other_symbol_is_counted_by_its_reason() -> None:
    selection = select(index(), a_map(), seed=1)
    assert sum(selection.passed_over.values()) + len(selection.candidates) == selection.considered
    assert selection.passed_over == {"no_test_enters": 3, "overload": 1, "runs_at_import": 1, "too_small": 1}
    assert select(index(), a_map(), min_lines=3, seed=1).candidates == ()


def test_the_order_is_spread_over_files_and_prefers_two_tests() -> None:
    names = [candidate.name for candidate in select(index(), a_map(), seed=1).candidates]
    assert sorted(names[:2]) == ["C.m", "two"]
    assert names[2:] == ["one"]


def test_the_order_depends_on_the_seed_alone() -> None:
    many = {f"{n}.py": language("python").index(f"{n}.py", b"def f(a):\n" + BODY) for n in range(12)}
    functions = tuple((f"{n}.py", "f", 1) for n in range(12))
    record = TestRecord(id="t", file="t", outcomes=("passed",), seconds=0, enters=tuple(range(12)))
    tests = TestMap(snapshot="s", environment="e", functions=functions, tests=(record,), recorder="monitoring")

    def order(files: dict[str, list[Symbol]], seed: int) -> list[str]:
        return [it.symbols[0].path for it in select(files, tests, seed=seed).candidates]

    assert order(many, 1) == order(dict(reversed(many.items())), 1)
    assert order(many, 1) != order(many, 2)
    assert sorted(order(many, 1)) == sorted(order(many, 2)) == sorted(many)


def test_an_empty_index_has_no_candidates() -> None:
    assert select({}, a_map(), seed=0).candidates == ()
