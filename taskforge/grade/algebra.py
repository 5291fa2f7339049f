"""From what a run reported to what counts: each required id exactly once, all three phases passed, nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from taskforge.model import Outcome, Policy, TestVerdict, VerdictOutcome
from taskforge.sandbox import RunResult, TestReport

__all__ = ["judge_tests", "outcome_of", "reward_of"]


def judge_tests(
    required: Mapping[str, str], result: RunResult, files: Mapping[str, str]
) -> tuple[tuple[TestVerdict, ...], tuple[str, ...]]:
    """``(verdicts, evidence)`` for ``required``, id -> group. What is not heard exactly once has not passed."""
    heard: dict[str, list[TestReport]] = {}
    for report in result.reports:
        heard.setdefault(report.id, []).append(report)
    out: list[TestVerdict] = []
    for name, group in required.items():
        reports = heard.get(name, [])
        outcome: Outcome
        if not reports:
            outcome, seconds, reason = "missing", 0.0, _why_missing(name, files.get(name, ""), result)
        elif len(reports) > 1:
            outcome, seconds = "duplicated", reports[0].seconds
            reason = f"reported {len(reports)} times: {', '.join(report.outcome for report in reports)}"
        else:
            outcome, seconds, reason = reports[0].outcome, reports[0].seconds, reports[0].reason
        out.append(
            TestVerdict.model_validate(
                {"id": name, "group": group, "outcome": outcome, "seconds": seconds, "reason": reason}
            )
        )
    strangers = sorted(set(heard) - set(required))
    evidence = [f"{len(strangers)} tests were reported that nobody asked for"] if strangers else []
    return tuple(out), (*result.evidence, *evidence)


def _why_missing(name: str, file: str, result: RunResult) -> str:
    for collector, reason in result.collection_errors.items():
        if collector == file or (collector and name.startswith(collector)):
            return f"{collector} could not be collected:\n{reason}"
    if result.ended != "done":
        return f"not run: the run ended early ({result.ended})"
    if name not in result.collected:
        return "not collected: the test is not there any more"
    return "collected, but nothing was reported for it"


def outcome_of(verdicts: Sequence[TestVerdict], result: RunResult) -> tuple[VerdictOutcome, tuple[str, ...]]:
    """``(outcome, evidence)``. Everything that is not a clean, complete success is told apart by its cause."""
    bad = [one for one in verdicts if one.outcome != "passed"]
    if not bad and result.ended == "done":
        if result.exit_code == 0:
            return "resolved", ()
        return "failed", (f"every required test passed, but the runner's own status is {result.exit_code}",)
    if result.ended == "oom":
        return "oom", ("the sandbox's memory limit was hit",)
    if result.ended == "disk_full":
        return "disk_full", ("the sandbox's disk limit was hit",)
    if result.ended in ("crashed", "lost"):
        return "crashed", ("the tests' process died and could not be started again",)
    if any(one.outcome == "ended_early" for one in bad):
        return "crashed", ("the tests' process ended in the middle of a test",)
    if result.ended == "timeout" or any(one.outcome == "timeout" for one in bad):
        return "timeout", ()
    return "failed", ()


def reward_of(policy: Policy, outcome: VerdictOutcome, verdicts: Iterable[TestVerdict]) -> float:
    """What ``policy`` makes of it, 0 to 1."""
    if outcome == "resolved":
        return 1.0
    if policy.reward == "binary" or outcome in ("tampered", "patch_rejected"):
        return 0.0
    tests = list(verdicts)
    if any(one.outcome != "passed" for one in tests if one.group == "PASS_TO_PASS"):
        return 0.0
    wanted = [one for one in tests if one.group == "FAIL_TO_PASS"]
    # Not resolved is never the whole reward, whatever else was wrong with it.
    share = sum(one.outcome == "passed" for one in wanted) / len(wanted) if wanted else 0.0
    return min(share, 0.99)
