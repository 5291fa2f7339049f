"""Stage 3: run the suite several times under grading conditions, and learn which functions each test enters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, TypeAlias

from taskforge.errors import EnvironmentBuildError, SandboxFault
from taskforge.generate.definitions import Definitions
from taskforge.generate.protect import is_protected
from taskforge.model import Outcome, TestMap, TestRecord, Tree
from taskforge.sandbox import Environment, Limits, PytestJob, RunResult, SandboxSpec, TestReport
from taskforge.sandbox.pool import Pool

__all__ = ["build_testmap", "suite_run"]

Recorder: TypeAlias = Literal["monitoring", "coverage"]

#: A test that is slower than this at baseline is left out, seconds.
BASELINE_LIMIT = 120.0


def suite_run(
    pool: Pool,
    spec: SandboxSpec,
    job: PytestJob,
    on_report: Callable[[TestReport], None] | None = None,
) -> RunResult:
    """One run in a sandbox of its own. Lost or out of memory at baseline is a fault: nothing submitted ran here."""
    with pool.take(spec) as sandbox:
        result = sandbox.run(job, on_report)
    if result.ended == "lost":
        raise SandboxFault("the sandbox was lost while it ran the untouched suite", kind="sandbox_lost")
    return result


def build_testmap(
    tree: Tree,
    environment: Environment,
    *,
    pool: Pool,
    protected: tuple[str, ...],
    limits: Limits,
    runs: int = 3,
    seed: int = 0,
    jobs: int = 1,
    min_pass: float = 90.0,
    on_report: Callable[[TestReport], None] | None = None,
    on_cpu: Callable[[float], None] = lambda _seconds: None,
) -> TestMap:
    """Run the suite ``runs`` times: the first one recorded, the last one shuffled when there are two or more.

    Raises:
        EnvironmentBuildError: no tests, the runner does not start, or fewer than ``min_pass`` percent pass every time.
    """
    minor = tuple(int(part) for part in environment.python.split(".")[:2])
    recorder: Recorder = "monitoring" if minor >= (3, 12) else "coverage"
    plans = [
        PytestJob(
            default_limit=BASELINE_LIMIT,
            collect_limit=300.0,
            wall_seconds=3600.0,
            record=recorder if number == 0 else "",
            shuffle=seed if number and number == runs - 1 else None,
        )
        for number in range(max(1, runs))
    ]
    spec = SandboxSpec(environment=environment, tree=tree, protected=protected, limits=limits)
    recording = SandboxSpec(environment=environment, tree=tree, protected=protected, limits=limits, tools=True)
    with ThreadPoolExecutor(max_workers=max(1, jobs)) as threads:
        futures = [
            threads.submit(suite_run, pool, recording if plan.record else spec, plan, on_report) for plan in plans
        ]
        results = [future.result() for future in futures]
    on_cpu(sum(result.cpu_seconds for result in results))
    _refuse_hopeless(results[0])
    return _joined(results, tree, environment, recorder, seed, min_pass, protected)


def _refuse_hopeless(first: RunResult) -> None:
    if first.reports:
        return
    said = first.output.strip()[-1500:]
    if first.ended in ("oom", "disk_full"):
        raise EnvironmentBuildError(
            f"the suite hit the sandbox's limit before its first test ended ({first.ended})",
            hint="raise TASKFORGE_MEMORY_MB or TASKFORGE_DISK_MB",
        )
    if first.exit_code in (3, 4):
        raise EnvironmentBuildError(
            f"pytest does not start in this repository (its exit code is {first.exit_code}):\n{said}",
            hint="its configuration may name a plugin that its test requirements do not install",
        )
    if first.collection_errors:
        name, reason = next(iter(first.collection_errors.items()))
        raise EnvironmentBuildError(
            f"no test could be collected; {name} fails with:\n{reason[-1500:]}",
            hint="a test requirement may be missing: add it to the project's test extra or group",
        )
    raise EnvironmentBuildError(
        f"no tests found:\n{said}",
        hint="taskforge needs a suite that pytest can collect; sdists often leave theirs out",
    )


def _outcome(reports: Sequence[TestReport]) -> Outcome:
    if not reports:
        return "missing"
    return reports[0].outcome if len(reports) == 1 else "duplicated"


def _joined(
    results: Sequence[RunResult],
    tree: Tree,
    environment: Environment,
    recorder: Recorder,
    seed: int,
    min_pass: float,
    protected: tuple[str, ...],
) -> TestMap:
    by_run: list[dict[str, list[TestReport]]] = []
    for result in results:
        found: dict[str, list[TestReport]] = {}
        for report in result.reports:
            found.setdefault(report.id, []).append(report)
        by_run.append(found)
    order = list(dict.fromkeys(name for result in results for name in result.collected))
    counts = Counter(results[0].collected)
    files = {report.id: report.file for result in results for report in result.reports}
    definitions = Definitions(tree)
    records: list[TestRecord] = []
    for name in order:
        outcomes = tuple(_outcome(found.get(name, [])) if counts[name] < 2 else "duplicated" for found in by_run)
        heard = [report for found in by_run for report in found.get(name, [])]
        file = files.get(name, name.split("::")[0])
        records.append(
            TestRecord(
                id=name,
                file=file,
                defined=definitions.of(results[0].places.get(name, ())),
                # A doctest lives in the docstring of what a submission writes: it would judge itself.
                excluded="" if is_protected(file, protected) else "in_product",
                outcomes=outcomes,
                seconds=max((report.seconds for report in heard), default=0.0),
                enters=by_run[0][name][0].enters if by_run[0].get(name) else (),
            )
        )
    counted = [record for record in records if not set(record.outcomes) <= {"skipped", "xfailed"}]
    stable = sum(set(record.outcomes) == {"passed"} for record in counted)
    share = 100.0 * stable / len(counted) if counted else 0.0
    if share < min_pass:
        raise EnvironmentBuildError(
            f"the suite is red untouched: {stable} of {len(counted)} tests pass in each of {len(results)} runs"
            f" ({share:.1f} %, needed {min_pass:g} %)" + _examples(records, results),
            hint="mend the environment, or accept less with --min-pass",
        )
    return TestMap(
        snapshot=tree.digest,
        environment=environment.digest,
        functions=results[0].functions,
        tests=tuple(records),
        unattributed=results[0].unattributed,
        recorder=recorder,
        shuffle_seed=seed,
        collection_errors=dict(results[0].collection_errors),
    )


def _examples(records: Sequence[TestRecord], results: Sequence[RunResult]) -> str:
    reasons = {report.id: report.reason for result in results for report in result.reports if report.reason}
    fine = ({"passed"}, {"skipped"}, {"xfailed"})
    bad = [record for record in records if set(record.outcomes) not in fine]
    lines = []
    for record in bad[:3]:
        last = reasons.get(record.id, "").strip().splitlines()
        lines.append(f"\n  {record.id}: {', '.join(record.outcomes)}" + (f": {last[-1][:200]}" if last else ""))
    errors = [f"\n  {name}: {text.strip()[-200:]}" for name, text in results[0].collection_errors.items()]
    return "".join(lines + errors[:3])
