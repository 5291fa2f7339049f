"""The facts of one grading, and the policies that make a reward of them."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from taskforge.model.base import Value, digest_of
from taskforge.model.tests import Outcome

__all__ = ["Policy", "TestVerdict", "Verdict", "VerdictOutcome"]

VerdictOutcome: TypeAlias = Literal[
    "resolved", "failed", "patch_rejected", "timeout", "oom", "disk_full", "crashed", "build_failed", "tampered"
]


class Policy(Value):
    """How to grade; part of a verdict's cache key."""

    full: bool = False
    """Run every PASS_TO_PASS, not only the chosen ones."""
    reward: Literal["binary", "fraction"] = "binary"
    """``binary``: 1 when resolved, else 0. ``fraction``: share of FAIL_TO_PASS passed, 0 if a PASS_TO_PASS broke."""
    strict: bool = False
    """Refuse a submission that touches protected paths, instead of putting them back."""

    @property
    def digest(self) -> str:
        return digest_of(self.model_dump(mode="json"))


class TestVerdict(Value):
    """One required test."""

    __test__ = False

    id: str
    group: Literal["FAIL_TO_PASS", "PASS_TO_PASS", "MUST_FAIL"]
    outcome: Outcome
    seconds: float = Field(ge=0, default=0.0)
    reason: str = ""
    """For a test that has not passed: a few lines of why."""


class Verdict(Value):
    """What one grading found. There is no verdict for a fault."""

    task: str
    task_digest: str
    submission_digest: str
    grader_version: str
    policy: Policy
    sandbox: str
    """Backend that ran it."""
    strength: Literal["airlock", "pinned", "command"] = "pinned"
    outcome: VerdictOutcome
    reward: float = Field(ge=0, le=1)
    tests: tuple[TestVerdict, ...] = ()
    pass_to_pass_total: int = Field(ge=0, default=0)
    """PASS_TO_PASS that the bundle has; ``tests`` holds those that were run."""
    restored: tuple[str, ...] = ()
    """Protected paths that the submission touched and that were put back."""
    evidence: tuple[str, ...] = ()
    """Facts behind the outcome, one sentence each."""
    phases: dict[str, float] = Field(default_factory=dict)
    """Milliseconds by phase; ``in_tests`` is the tests' own time, ``cpu`` the CPU time of their processes."""

    @property
    def resolved(self) -> bool:
        return self.outcome == "resolved"
