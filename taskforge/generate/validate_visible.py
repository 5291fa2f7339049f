"""Proof that what a solver is left with runs: without the hidden tests, their helpers and data."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from taskforge.errors import SandboxFault, TaskRejected
from taskforge.generate.definitions import imported_names
from taskforge.generate.hide import Hiding, hide
from taskforge.generate.protect import is_protected
from taskforge.generate.seal import Sealed, seal
from taskforge.generate.validate import Effect
from taskforge.languages import Language, Project
from taskforge.model import Changes, TestMap, TestRecord, Tree
from taskforge.sandbox import Environment, Limits, PytestJob, SandboxSpec
from taskforge.sandbox.pool import Pool

__all__ = ["Visible", "seal_proven"]

#: Tighter than when grading: here a timeout only costs a candidate. Seconds, and times the baseline.
_LIMIT, _FACTOR = 10.0, 10.0


@dataclass(frozen=True, kw_only=True)
class Visible:
    """A solver's view, and how it was proven."""

    hiding: Hiding
    sealed: Sealed
    ran: int
    """Tests that ran in it with the reference."""
    stays: int
    """Stable tests that it holds."""
    cpu_seconds: float

    def report(self) -> dict[str, object]:
        """JSON data for the task's sealed reports."""
        return {**self.hiding.report(), "visible_tests": self.stays, "visible_tests_run": self.ran}


def seal_proven(
    removed: Tree,
    reference: Changes,
    test_map: TestMap,
    effect: Effect,
    *,
    language: Language,
    project: Project | None,
    environment: Environment,
    pool: Pool,
    protected: tuple[str, ...],
    limits: Limits,
    seconds: float = 20.0,
) -> Visible:
    """Hide the tests that judge, and run what remains: with the reference all of it passes, without it what has to.

    As little as possible goes. Where a cut turns out to have taken what remains needs, helpers and data stay; where
    that does not help, the files that do not run go whole.

    Args:
        removed: the tree without the feature, all tests in it.
        reference: what puts the feature back.
        seconds: baseline duration of the tests that are run of those that no cut is near; those near are all run.

    Raises:
        TaskRejected: ``tests_inseparable``, or ``visible_breaks`` when what remains cannot be made to run.
        SandboxFault: when a sandbox broke.
    """

    def spec_of(tree: Tree) -> SandboxSpec:
        return SandboxSpec(environment=environment, tree=tree, protected=protected, limits=limits)

    reference = {path: entry for path, entry in reference.items() if not is_protected(path, protected)}
    whole: set[str] = set()
    only_tests = False
    cpu = 0.0
    faults: Mapping[str, str] = {}
    for _attempt in range(4):
        hiding = hide(
            removed, test_map, effect.fail_to_pass,
            language=language, project=project, whole=whole, only_tests=only_tests,
        )  # fmt: skip
        sealed = seal(removed, hiding.files, pruned=hiding.pruned)
        trial = _Trial(sealed, hiding, test_map, effect, reference, seconds, language)
        faults, took = trial.faults(spec_of, pool)
        cpu += took
        if not faults:
            return Visible(
                hiding=hiding, sealed=sealed, ran=len(trial.chosen), stays=len(trial.staying), cpu_seconds=cpu
            )
        if not only_tests and (hiding.data or hiding.along):
            only_tests = True
        else:
            whole |= (faults.keys() & hiding.pruned.keys()) or (faults.keys() & removed.keys())
    path, why = next(iter(faults.items()))
    raise TaskRejected("visible_breaks", f"without the hidden tests {path} does not run: {why}")


class _Trial:
    """One way to hide, tried."""

    def __init__(
        self,
        sealed: Sealed,
        hiding: Hiding,
        test_map: TestMap,
        effect: Effect,
        reference: Changes,
        seconds: float,
        language: Language,
    ) -> None:
        hidden = set(hiding.tests)
        self.sealed, self.reference, self.test_map = sealed, reference, test_map
        self.keep = set(effect.pass_to_pass)
        self.staying = [it for it in test_map.tests if it.stable and it.id not in hidden]
        near = _near(sealed.workspace, hiding, language)
        self.chosen = _chosen(self.staying, near, seconds)

    def faults(self, spec: Callable[[Tree], SandboxSpec], pool: Pool) -> tuple[dict[str, str], float]:
        """Test file -> why it does not run as it has to; and CPU seconds."""
        if not self.staying:
            return {}, 0.0
        solved = self.sealed.workspace.with_changes(
            {path: entry for path, entry in self.reference.items() if path not in self.sealed.hidden}
        )
        found, cpu = self._run(spec(solved), self.chosen, pool)
        if found:
            return found, cpu
        found, more = self._run(spec(self.sealed.workspace), [it for it in self.chosen if it.id in self.keep], pool)
        return found, cpu + more

    def _run(
        self, spec: SandboxSpec, wanted: Sequence[TestRecord], pool: Pool
    ) -> tuple[dict[str, str], float]:
        limits = {record.id: max(_LIMIT, _FACTOR * record.seconds) for record in wanted}
        job = PytestJob(
            # All that is left is collected, and not only what runs.
            files=tuple(dict.fromkeys(record.file for record in self.staying)),
            ids=frozenset(limits),
            limits=limits,
            default_limit=_LIMIT,
            wall_seconds=120.0 + sum(limits.values()),
            max_timeouts=2,
            max_restarts=3,
        )
        with pool.take(spec) as sandbox:
            result = sandbox.run(job)
        if result.ended == "lost":
            raise SandboxFault("the sandbox was lost while a solver's view was tried", kind="sandbox_lost")
        found: dict[str, str] = {}
        for name, reason in result.collection_errors.items():
            if name not in self.test_map.collection_errors:
                found[name.partition("::")[0]] = f"it is not collected: {_last(reason)}"
        collected = set(result.collected)
        for record in self.staying:
            if record.id not in collected:
                found.setdefault(record.file, f"{record.id} is not collected")
        passed = {one.id: one for one in result.reports}
        for record in wanted:
            report = passed.get(record.id)
            if report is None or report.outcome != "passed":
                why = f"{report.outcome}: {_last(report.reason)}" if report else f"missing ({result.ended})"
                found.setdefault(record.file, f"{record.id} is {why}")
        return found, result.cpu_seconds


def _last(reason: str) -> str:
    return (reason.strip().splitlines() or [""])[-1][:200]


def _near(workspace: Tree, hiding: Hiding, language: Language) -> set[str]:
    """Files of tests that a cut may have hurt: cut themselves, below a cut ``conftest.py``, importing what was cut."""
    changed = {*hiding.pruned, *hiding.whole}
    folders = tuple(path.removesuffix("conftest.py") for path in changed if path.endswith("conftest.py"))
    stems = {path.rpartition("/")[2].rpartition(".")[0] for path in changed}
    near = set(hiding.pruned)
    for path, entry in workspace.items():
        if entry.kind == "link" or not language.is_source(path) or not language.is_test_path(path):
            continue
        if path.startswith(folders) or not stems.isdisjoint(imported_names(entry.data)):
            near.add(path)
    return near


def _chosen(staying: Sequence[TestRecord], near: Collection[str], seconds: float) -> list[TestRecord]:
    """All tests of the files in ``near``, and of the others, from the quickest on, as many as ``seconds`` allow."""
    left = seconds
    chosen = {record.id for record in staying if record.file in near}
    for record in sorted(staying, key=lambda it: it.seconds):
        if record.id not in chosen and (left := left - record.seconds) >= 0:
            chosen.add(record.id)
    return [record for record in staying if record.id in chosen]
