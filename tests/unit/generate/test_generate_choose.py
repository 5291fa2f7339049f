"""PASS_TO_PASS within a budget, and what is protected."""

from __future__ import annotations

from taskforge.generate.choose import choose_pass_to_pass
from taskforge.generate.protect import is_protected, protected_paths
from taskforge.languages import language
from taskforge.model import Candidate, Span, Symbol, TestMap, TestRecord

FUNCTIONS = (("pkg/a.py", "f", 1), ("pkg/a.py", "g", 9), ("pkg/b.py", "h", 1), ("pkg/c.py", "k", 1))


def record(name: str, enters: tuple[int, ...], seconds: float = 1.0) -> TestRecord:
    return TestRecord(id=name, file="t.py", outcomes=("passed",), seconds=seconds, enters=enters)


TESTS = (
    record("far-1", (3,)),
    record("feature", (0, 2)),
    record("near", (1,)),
    record("caller", (2,)),
    record("far-2", ()),
    record("far-3", (3,)),
)
MAP = TestMap(snapshot="", environment="", functions=FUNCTIONS, tests=TESTS, recorder="monitoring")
SYMBOL = Symbol(
    path="pkg/a.py",
    qualname="f",
    kind="function",
    line=1,
    span=Span(start=0, end=9),
    body=Span(start=5, end=9),
    signature="def f()",
    body_lines=3,
    statements=3,
    complexity=1,
)
CANDIDATE = Candidate(symbols=(SYMBOL,), tests=("feature",))
PASSING = {"far-1", "near", "caller", "far-2", "far-3"}


def test_near_tests_come_first() -> None:
    assert choose_pass_to_pass(CANDIDATE, PASSING, MAP, seconds=1.5, seed=0) == ("near",)
    assert choose_pass_to_pass(CANDIDATE, PASSING, MAP, seconds=2.5, seed=0) == ("near", "caller")


def test_the_rest_is_a_seeded_sample_in_the_suites_order() -> None:
    chosen = {choose_pass_to_pass(CANDIDATE, PASSING, MAP, seconds=3.5, seed=seed) for seed in range(20)}
    assert chosen == {
        ("far-1", "near", "caller"),
        ("near", "caller", "far-2"),
        ("near", "caller", "far-3"),
    }
    assert choose_pass_to_pass(CANDIDATE, PASSING, MAP, seconds=3.5, seed=4) == choose_pass_to_pass(
        CANDIDATE, PASSING, MAP, seconds=3.5, seed=4
    )


def test_with_time_enough_all_are_chosen_and_with_none_nothing() -> None:
    assert set(choose_pass_to_pass(CANDIDATE, PASSING, MAP, seconds=60, seed=0)) == PASSING
    assert choose_pass_to_pass(CANDIDATE, PASSING, MAP, seconds=0, seed=0) == ()


def test_only_what_passes_without_the_feature() -> None:
    assert choose_pass_to_pass(CANDIDATE, {"near"}, MAP, seconds=60, seed=0) == ("near",)


def test_protected_paths() -> None:
    paths = [
        "pyproject.toml",
        "README.md",
        "src/pkg/__init__.py",
        "src/pkg/test_inline.py",
        "src/pkg/tests/data/x.bin",
        "src/pkg/tests/test_a.py",
        "tests/conftest.py",
        "tests/deep/test_b.py",
        "conftest.py",
        "contest/winner.py",
    ]
    found = protected_paths(paths, language("python"))
    assert found == ("conftest.py", "pyproject.toml", "src/pkg/test_inline.py", "src/pkg/tests/", "tests/")
    assert is_protected("tests/new/file.py", found)
    assert is_protected("src/pkg/tests/x", found)
    assert not is_protected("contest/winner.py", found)
    assert not is_protected("src/pkg/testsuite.py", found)
