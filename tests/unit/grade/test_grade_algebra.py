"""The result algebra, without a sandbox: ran nothing is not passed."""

from __future__ import annotations

from typing import Any

import pytest

from taskforge.grade.algebra import judge_tests, outcome_of, reward_of
from taskforge.model import Outcome, Policy
from taskforge.sandbox import Ended, RunResult, TestReport

REQUIRED = {"t::a": "FAIL_TO_PASS", "t::b": "FAIL_TO_PASS", "t::c": "PASS_TO_PASS"}


def run(*reports: tuple[str, Outcome], ended: Ended = "done", exit_code: int | None = 0, **more: Any) -> RunResult:
    return RunResult(
        ended=ended,
        reports=tuple(TestReport(id=name, file="t", outcome=outcome, seconds=0.1) for name, outcome in reports),
        collected=more.pop("collected", tuple(REQUIRED)),
        collection_errors=more.pop("collection_errors", {}),
        exit_code=exit_code,
        output="",
        **more,
    )


GOOD: tuple[tuple[str, Outcome], ...] = (("t::a", "passed"), ("t::b", "passed"), ("t::c", "passed"))


def judged(result: RunResult) -> tuple[str, dict[str, str]]:
    verdicts, _evidence = judge_tests(REQUIRED, result, dict.fromkeys(REQUIRED, "t"))
    return outcome_of(verdicts, result)[0], {one.id: one.outcome for one in verdicts}


def test_all_heard_once_and_passed_is_resolved() -> None:
    assert judged(run(*GOOD)) == ("resolved", dict.fromkeys(REQUIRED, "passed"))


@pytest.mark.parametrize(
    "outcome", ["failed", "error", "skipped", "xfailed", "xpassed", "timeout", "ended_early", "duplicated"]
)
def test_anything_else_is_not(outcome: Outcome) -> None:
    found, tests = judged(run(("t::a", outcome), *GOOD[1:], exit_code=1))
    assert found in {"failed", "timeout", "crashed"}
    assert tests["t::a"] == outcome


def test_a_test_that_nobody_heard_of_is_missing() -> None:
    found, tests = judged(run(*GOOD[1:]))
    assert (found, tests["t::a"]) == ("failed", "missing")


def test_nothing_at_all_is_not_passed() -> None:
    assert judged(run())[0] == "failed"


def test_a_test_reported_twice_is_duplicated() -> None:
    found, tests = judged(run(*GOOD, ("t::a", "passed")))
    assert (found, tests["t::a"]) == ("failed", "duplicated")


@pytest.mark.parametrize("exit_code", [1, 2, 3, 4, 5, None])
def test_the_runners_own_status_must_agree(exit_code: int | None) -> None:
    assert judged(run(*GOOD, exit_code=exit_code))[0] == "failed"


@pytest.mark.parametrize(
    ("ended", "outcome"),
    [("oom", "oom"), ("disk_full", "disk_full"), ("crashed", "crashed"), ("lost", "crashed"), ("timeout", "timeout")],
)
def test_a_run_that_hit_a_limit_is_named_after_it(ended: Ended, outcome: str) -> None:
    assert judged(run(*GOOD[:1], ended=ended, exit_code=None))[0] == outcome
    # Even when all that was required had passed before.
    assert judged(run(*GOOD, ended=ended, exit_code=None))[0] == outcome


def test_why_a_test_is_missing_is_told() -> None:
    errors = {"t": "ImportError: no evaluate"}
    verdicts, _evidence = judge_tests({"t::a": "FAIL_TO_PASS"}, run(collection_errors=errors), {"t::a": "t"})
    assert "ImportError: no evaluate" in verdicts[0].reason
    verdicts, _evidence = judge_tests({"t::a": "FAIL_TO_PASS"}, run(collected=()), {"t::a": "t"})
    assert "not there any more" in verdicts[0].reason


def test_strangers_are_evidence() -> None:
    _verdicts, evidence = judge_tests(REQUIRED, run(*GOOD, ("t::forged", "passed")), {})
    assert evidence == ("1 tests were reported that nobody asked for",)


@pytest.mark.parametrize(
    ("reports", "reward"),
    [
        (GOOD, 1.0),
        ((("t::a", "failed"), *GOOD[1:]), 0.5),
        ((("t::a", "failed"), ("t::b", "failed"), GOOD[2]), 0.0),
        ((*GOOD[:2], ("t::c", "failed")), 0.0),
    ],
)
def test_fraction_pays_for_parts_unless_something_else_broke(
    reports: tuple[tuple[str, Outcome], ...], reward: float
) -> None:
    result = run(*reports, exit_code=0 if reward == 1.0 else 1)
    verdicts, _evidence = judge_tests(REQUIRED, result, {})
    outcome = outcome_of(verdicts, result)[0]
    assert reward_of(Policy(reward="fraction"), outcome, verdicts) == reward
    assert reward_of(Policy(), outcome, verdicts) == (1.0 if reward == 1.0 else 0.0)


def test_fraction_never_pays_in_full_for_what_is_not_resolved() -> None:
    result = run(*GOOD, exit_code=1)
    verdicts, _evidence = judge_tests(REQUIRED, result, {})
    assert reward_of(Policy(reward="fraction"), outcome_of(verdicts, result)[0], verdicts) == 0.99
