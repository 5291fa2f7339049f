"""One grading, from bytes to verdict."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from taskforge.corpus.bundle import Bundle
from taskforge.errors import BadSubmission, Fault, SandboxFault
from taskforge.grade.algebra import judge_tests, outcome_of, reward_of
from taskforge.grade.submission import Submission, admit, apply
from taskforge.model import Changes, Policy, Verdict
from taskforge.sandbox import Environment, Limits, PytestJob, RunResult, Sandbox, SandboxSpec, TestReport
from taskforge.sandbox.pool import Pool
from taskforge.version import GRADER_VERSION

__all__ = ["Grader", "reference_of"]

log = logging.getLogger("taskforge.grade")

#: A run is ended after this many tests have hit their limit: the outcome is settled, and each one costs its limit.
MAX_TIMEOUTS = 2
#: How much slower than the machine of the baseline a grading host may be before a timeout is our fault, not the
#: submission's.
MAX_HOST_FACTOR = 8.0


def reference_of(bundle: Bundle) -> Submission:
    """The reference patch as a submission like any other."""
    return Submission.patch(bundle.reference_patch)


class Phases:
    """Milliseconds by phase, in the order they began."""

    def __init__(self) -> None:
        self.ms: dict[str, float] = {}
        self._began = time.monotonic()

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.ms[name] = round(self.ms.get(name, 0.0) + 1000 * (time.monotonic() - began), 3)

    def finished(self, result: RunResult | None) -> dict[str, float]:
        total = round(1000 * (time.monotonic() - self._began), 3)
        inside = {}
        if result is not None:
            inside["in_tests"] = round(1000 * sum(one.seconds for one in result.reports), 3)
            inside["cpu"] = round(1000 * result.cpu_seconds, 3)
        return {**self.ms, **inside, "total": total}


class Grader:
    """Grades submissions to one task."""

    def __init__(self, bundle: Bundle, environment: Environment, pool: Pool, *, limits: Limits | None = None) -> None:
        self.bundle = bundle
        self.environment = environment
        self.pool = pool
        self.spec = SandboxSpec(
            environment=environment,
            tree=bundle.graded_tree,
            protected=bundle.tests.protected,
            limits=limits or Limits(),
        )
        self.card = bundle.sealed_card()

    def expect(self, count: int) -> None:
        """Have sandboxes for ``count`` gradings started ahead."""
        self.pool.expect(self.spec, count)

    def required(self, policy: Policy) -> dict[str, str]:
        """Id -> group of what a grade under ``policy`` runs."""
        tests = self.bundle.tests
        kept = tests.pass_to_pass if policy.full else tests.graded
        return {
            **dict.fromkeys(tests.fail_to_pass, "FAIL_TO_PASS"),
            **dict.fromkeys((name for name in kept if name not in set(tests.fail_to_pass)), "PASS_TO_PASS"),
        }

    def grade(
        self,
        submission: Submission,
        policy: Policy | None = None,
        *,
        on_report: Callable[[TestReport], None] | None = None,
    ) -> Verdict:
        """Grade one submission.

        Raises:
            Fault: when there is no verdict: the machinery broke, or a control failed that had to pass.
        """
        policy = policy or Policy()
        phases = Phases()
        try:
            with phases("prepare"):
                changes = apply(submission, self.bundle.workspace)
                admitted = admit(
                    changes, self.bundle.tests, strict=policy.strict, workspace=self.bundle.workspace
                )
        except BadSubmission as error:
            return self._verdict(submission, policy, "patch_rejected", (), (), _told(error), phases, None)
        required = self.required(policy)
        result, said = self._settled(admitted.changes, required, phases, on_report)
        verdicts, evidence = judge_tests(required, result, self.bundle.tests.files)
        outcome, why = outcome_of(verdicts, result)
        evidence = (*said, *why, *evidence)
        return self._verdict(submission, policy, outcome, verdicts, admitted.restored, evidence, phases, result)

    def _settled(
        self,
        changes: Changes,
        required: dict[str, str],
        phases: Phases,
        on_report: Callable[[TestReport], None] | None,
    ) -> tuple[RunResult, tuple[str, ...]]:
        """A result that is the submission's own doing: what looks like a fault is checked against the reference."""
        result = self._run(changes, required, 1.0, phases, on_report)
        said: tuple[str, ...] = ()
        if died := _died(result):
            # Law 3: a crash never pays and a fault is never a score. Whether somebody outside killed it, the kernel for
            # want of memory above all, or it killed itself, only another run can tell.
            log.info("%s in a grade of %s: repeating it", died, self.card.id)
            result = self._run(changes, required, 1.0, phases, on_report)
            said = (f"{died} once and the run was repeated",)
        timed_out = [one.id for one in result.reports if one.outcome == "timeout"]
        if result.ended == "done" and not timed_out:
            return result, said
        with phases("control"):
            factor = self._control(timed_out or list(required), result)
        if timed_out and factor > 2.0:
            result = self._run(changes, required, factor, phases, on_report)
            said = (*said, f"this host is {factor:.1f} times slower than the baseline: limits were raised")
        return result, (*said, "confirmed by a control: the reference passes here")

    def _control(self, ids: list[str], seen: RunResult) -> float:
        """Run the reference over ``ids`` in a fresh sandbox. Returns how much slower this host is than the baseline.

        Raises:
            Fault: when the reference does not pass either.
        """
        workspace = self.bundle.workspace
        reference = apply(reference_of(self.bundle), workspace)
        changes = admit(reference, self.bundle.tests, strict=False, workspace=workspace).changes
        required = dict.fromkeys(ids, "")
        control = self._run(changes, required, MAX_HOST_FACTOR, Phases(), None)
        passed = [one for one in control.reports if one.outcome == "passed"]
        if control.ended != "done" or len(passed) != len(required):
            raise Fault(
                f"grading {self.card.id} ended with {seen.ended!r}, and so did the control: the reference itself does"
                f" not pass on this host ({control.ended}, {len(passed)} of {len(required)} tests)",
                kind="control_failed",
                hint="check memory, disk and load with `taskforge doctor`, then grade again",
            )
        known = self.bundle.tests.seconds
        return max((one.seconds / max(known.get(one.id, 0.0), 1.0) for one in passed), default=1.0)

    def _run(
        self,
        changes: Changes,
        required: Iterable[str],
        factor: float,
        phases: Phases,
        on_report: Callable[[TestReport], None] | None,
    ) -> RunResult:
        tests = self.bundle.tests
        ids = frozenset(required)
        known = tests.seconds
        baseline = sum(known.get(name, 0.0) for name in ids)
        job = PytestJob(
            files=tuple(dict.fromkeys(tests.files[name] for name in required)),
            ids=ids,
            limits={name: factor * max(10.0, 10.0 * known.get(name, 0.0)) for name in ids},
            default_limit=10.0 * factor,
            wall_seconds=factor * (120.0 + 10.0 * baseline),
            max_timeouts=MAX_TIMEOUTS,
            max_restarts=10,
        )
        with phases("start"):
            sandbox = self._sandbox()
        with sandbox:
            with phases("lay"):
                try:
                    sandbox.lay(changes)
                except SandboxFault as fault:
                    if fault.kind != "sandbox_disk":
                        raise
                    # The submission alone is larger than what it may write: its doing, and nothing of it has run.
                    return _full()
            with phases("run"):
                return sandbox.run(job, on_report)

    def _sandbox(self) -> Sandbox:
        """One that waits, or a new one; tried twice, since nothing of the submission has run yet."""
        try:
            return self.pool.take(self.spec)
        except SandboxFault as fault:
            if not fault.retryable or self.pool.closed:
                raise
            log.info("no sandbox for a grade of %s, trying once more: %s", self.card.id, fault.message)
            return self.pool.take(self.spec)

    def _verdict(
        self,
        submission: Submission,
        policy: Policy,
        outcome: str,
        tests: tuple[object, ...],
        restored: tuple[str, ...],
        evidence: tuple[str, ...],
        phases: Phases,
        result: RunResult | None,
    ) -> Verdict:
        verdict = Verdict.model_validate(
            {
                "task": self.card.id,
                "task_digest": self.card.digest,
                "submission_digest": submission.digest,
                "grader_version": GRADER_VERSION,
                "policy": policy,
                "sandbox": self.pool.backend.name,
                "outcome": outcome,
                "reward": 0.0,
                "tests": tests,
                "pass_to_pass_total": len(self.bundle.tests.pass_to_pass),
                "restored": restored,
                "evidence": evidence,
                "phases": phases.finished(result),
            }
        )
        return verdict.model_copy(update={"reward": reward_of(policy, verdict.outcome, verdict.tests)})


def _told(error: BadSubmission) -> tuple[str, ...]:
    return (error.message, error.hint) if error.hint else (error.message,)


def _died(result: RunResult) -> str:
    """What died that should not have; nothing when all ended by itself or at a limit."""
    if result.ended == "lost":
        return "the sandbox was lost"
    if result.ended == "crashed" or any(one.outcome == "ended_early" for one in result.reports):
        return "the tests' process died"
    return ""


def _full() -> RunResult:
    return RunResult(
        ended="disk_full", reports=(), collected=(), collection_errors={}, exit_code=None,
        output="", evidence=("the submission's files do not fit on the sandbox's disk",),
    )  # fmt: skip
