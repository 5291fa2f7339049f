"""Stage 9: prove a candidate. The tests that enter the feature run first, then the whole suite, and what ships has been
through the production grader: empty submission failed, reference resolved every time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from taskforge.corpus.bundle import Bundle
from taskforge.errors import SandboxFault, TaskRejected
from taskforge.generate.validate_collection import broken_collection, import_only, removed_names
from taskforge.generate.validate_imports import Imports, prove_imports
from taskforge.grade import Grader, Submission
from taskforge.grade.grading import reference_of
from taskforge.model import Candidate, Policy, TestMap, Tree
from taskforge.sandbox import Environment, Limits, PytestJob, RunResult, SandboxSpec
from taskforge.sandbox.pool import Pool

__all__ = ["Effect", "prove", "prove_effect"]

#: Tighter than when grading: here a timeout only costs a candidate. Seconds, and times the baseline.
QUICK_LIMIT, QUICK_FACTOR = 4.0, 4.0
#: Two tests that hang end the attempt.
QUICK_TIMEOUTS = 2


@dataclass(frozen=True, kw_only=True)
class Effect:
    """What the removal does to the suite, seen in a full run."""

    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    left_out: tuple[str, ...]
    """Stable tests that are in neither list: they timed out, or failed only because their process had died."""
    causes: dict[str, str]
    """FAIL_TO_PASS id -> class of the exception it fails with, or ``collection`` where its module is not collected."""
    import_only: tuple[str, ...] = ()
    """FAIL_TO_PASS that fail only for want of a name that is gone: at import, or where it is first used."""
    cpu_seconds: float


def _job(test_map: TestMap, ids: Sequence[str], *, timeouts: int | None) -> PytestJob:
    records = {record.id: record for record in test_map.tests}
    total = sum(records[name].seconds for name in ids)
    return PytestJob(
        files=tuple(dict.fromkeys(records[name].file for name in ids)),
        ids=frozenset(ids),
        limits={name: max(QUICK_LIMIT, QUICK_FACTOR * records[name].seconds) for name in ids},
        default_limit=QUICK_LIMIT,
        wall_seconds=120.0 + QUICK_FACTOR * total,
        max_timeouts=timeouts,
        max_restarts=QUICK_TIMEOUTS + 1,
    )


def _run(pool: Pool, spec: SandboxSpec, job: PytestJob) -> RunResult:
    with pool.take(spec) as sandbox:
        result = sandbox.run(job)
    if result.ended == "lost":
        raise SandboxFault("the sandbox was lost while a candidate was tried", kind="sandbox_lost")
    if result.ended in ("oom", "disk_full", "crashed"):
        raise TaskRejected(f"stub_{result.ended}", f"without the feature its tests end with {result.ended}")
    hanging = [one.id for one in result.reports if one.outcome == "timeout"]
    if result.ended == "timeout" or len(hanging) >= QUICK_TIMEOUTS:
        raise TaskRejected(
            "hangs_without_feature",
            f"{len(hanging)} tests hang without the feature, {', '.join(hanging[:2])} among them",
        )
    return result


def prove_effect(
    candidate: Candidate,
    removed: Tree,
    test_map: TestMap,
    *,
    environment: Environment,
    pool: Pool,
    protected: tuple[str, ...],
    limits: Limits,
    imports: Imports | None = None,
    stage: Callable[[str, float], None] = lambda _name, _cpu: None,
) -> Effect:
    """Run the tests that enter the feature, then every stable test, on the tree without it.

    Args:
        imports: modules that could be imported before; each that is still there has to be importable.

    Raises:
        TaskRejected: ``import_breaks``, ``tests_do_not_notice``, ``hangs_without_feature``, ``collection_breaks``,
            ``stub_oom``, …
        SandboxFault: when a sandbox broke.
    """
    spec = SandboxSpec(environment=environment, tree=removed, protected=protected, limits=limits)
    if imports is not None:
        seconds = prove_imports(removed, imports, environment, pool=pool, protected=protected, limits=limits)
        stage("imports", seconds)
    first = _run(pool, spec, _job(test_map, candidate.tests, timeouts=QUICK_TIMEOUTS))
    stage("entering tests", first.cpu_seconds)
    broken_first = broken_collection(test_map, candidate.tests, candidate.tests, first)
    if not broken_first and not any(one.outcome in ("failed", "error") for one in first.reports):
        raise TaskRejected(
            "tests_do_not_notice", f"all {len(candidate.tests)} tests that enter {candidate.name} pass without it"
        )
    stable = test_map.stable_ids
    whole = _run(pool, spec, _job(test_map, stable, timeouts=QUICK_TIMEOUTS))
    stage("full suite", whole.cpu_seconds)
    broken = broken_collection(test_map, stable, candidate.tests, whole)
    failed_first = {one.id for one in first.reports if one.outcome in ("failed", "error")} | broken_first.keys()
    outcomes = {one.id: one for one in whole.reports}
    told = {name: "error" if name in broken else outcomes[name].outcome if name in outcomes else "" for name in stable}
    fail, keep, out = _parted(told, set(candidate.tests), failed_first)
    if not fail:
        raise TaskRejected("order_dependent", "no test fails both alone and in the full suite")
    return Effect(
        fail_to_pass=tuple(fail),
        pass_to_pass=tuple(keep),
        left_out=tuple(out),
        causes={name: "collection" if name in broken else outcomes[name].cause for name in fail},
        import_only=import_only(fail, broken, outcomes, removed_names(candidate)),
        cpu_seconds=first.cpu_seconds + whole.cpu_seconds,
    )


def _parted(
    outcomes: Mapping[str, str], entering: Collection[str], failed_first: Collection[str]
) -> tuple[list[str], list[str], list[str]]:
    """``(FAIL_TO_PASS, PASS_TO_PASS, neither)`` of id -> outcome in the full run."""
    fail: list[str] = []
    keep: list[str] = []
    out: list[str] = []
    for name, outcome in outcomes.items():
        if outcome == "passed":
            # Seen to fail alone but not in company: it depends on what ran before it.
            (out if name in failed_first else keep).append(name)
        elif outcome in ("failed", "error") and (name not in entering or name in failed_first):
            fail.append(name)
        else:
            out.append(name)
    return fail, keep, out


def prove(
    bundle: Bundle,
    *,
    environment: Environment,
    pool: Pool,
    limits: Limits,
    runs: int = 2,
    full: bool = False,
) -> dict[str, object]:
    """Law 1: the production grader must refuse the empty submission and resolve the reference ``runs`` times.

    Returns what was seen, for the bundle's report.

    Raises:
        TaskRejected: ``empty_passes``, ``empty_breaks_others`` or ``reference_fails``.
        Fault: when there was no verdict.
    """
    grader = Grader(bundle, environment, pool, limits=limits)
    grader.expect(1)
    empty = grader.grade(Submission.empty(), Policy(full=full))
    passed = [one.id for one in empty.tests if one.group == "FAIL_TO_PASS" and one.outcome == "passed"]
    if passed or empty.resolved:
        raise TaskRejected("empty_passes", f"the empty submission passes {len(passed)} tests, {passed[0]} among them")
    broken = [one for one in empty.tests if one.group == "PASS_TO_PASS" and one.outcome != "passed"]
    if broken:
        raise TaskRejected(
            "empty_breaks_others", f"{broken[0].id} has to pass without the feature, and is {broken[0].outcome}"
        )
    reference = reference_of(bundle)
    cpu = empty.phases.get("cpu", 0.0)
    for number in range(runs):
        if number + 1 < runs:
            grader.expect(1)
        verdict = grader.grade(reference, Policy(full=full))
        if not verdict.resolved:
            bad = next((one for one in verdict.tests if one.outcome != "passed"), None)
            what = f"{bad.id} is {bad.outcome}: {bad.reason.strip()[-200:]}" if bad else "; ".join(verdict.evidence)
            raise TaskRejected("reference_fails", f"run {number + 1} of the reference is {verdict.outcome}: {what}")
        cpu += verdict.phases.get("cpu", 0.0)
    return {"empty": empty.outcome, "reference_runs": runs, "cpu_seconds": cpu / 1000}
