"""What generation is asked for, and what it tells at the end."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from taskforge.generate.cluster import Sizes
from taskforge.generate.select import Wanted
from taskforge.languages import Mode
from taskforge.model import Value

__all__ = ["Options", "Report"]


class Options(Value):
    """What to make of a source."""

    modes: tuple[Mode, ...] = Field(default=("stub",), min_length=1)
    max_tasks: int | None = Field(default=None, ge=1)
    per_module: int | None = Field(default=None, ge=1)
    """Candidates of one mode that a file may give."""
    difficulty: tuple[float, float] | None = None
    """Lowest and highest score of a candidate."""
    min_lines: int | None = Field(default=None, ge=1)
    """Of the removed code; 2, and 40 for a cluster, when left out."""
    max_lines: int = Field(default=400, ge=1)
    min_files: int = Field(default=2, ge=1)
    """Of a cluster."""
    seed: int = 0
    jobs: int = Field(default=1, ge=1)
    min_pass: float = Field(default=90.0, ge=0, le=100)
    baseline_runs: int = Field(default=3, ge=1)
    reference_runs: int = Field(default=2, ge=1)
    p2p_seconds: float = Field(default=20.0, ge=0)
    tests_visible: bool = False
    keep_docstrings: bool = True
    """Of stubs, in the workspace; else only the statement tells them."""
    keep_twins: bool = False
    """Mark tasks that ask for nearly the same code as an earlier one, instead of dropping them."""
    statement: Literal["template", "llm"] = "template"
    python: str | None = None
    replace: bool = False

    @model_validator(mode="after")
    def _orderly(self) -> Options:
        if self.min_lines is not None and self.min_lines > self.max_lines:
            raise ValueError(f"min_lines {self.min_lines} is more than max_lines {self.max_lines}")
        if self.difficulty is not None and self.difficulty[0] > self.difficulty[1]:
            raise ValueError("the lowest difficulty is above the highest")
        return self

    @property
    def wanted(self) -> Wanted:
        """What selection looks for."""
        return Wanted(
            modes=tuple(dict.fromkeys(self.modes)),
            min_lines=self.min_lines or 2,
            max_lines=self.max_lines,
            cluster=Sizes(min_lines=self.min_lines or 40, max_lines=self.max_lines, min_files=self.min_files),
            per_module=self.per_module,
            difficulty=self.difficulty,
            seed=self.seed,
        )

    @property
    def deciding(self) -> list[object]:
        """All that can change what becomes of a candidate, for the key of its record."""
        return [
            self.tests_visible, self.p2p_seconds, self.reference_runs, self.seed, self.min_pass, self.baseline_runs,
            self.keep_docstrings, self.keep_twins, self.statement,
        ]  # fmt: skip


class Report(Value):
    """What one source gave, over all its runs so far."""

    source: str
    snapshot: str
    environment: str
    python: str
    tests: int
    stable_tests: int
    symbols: int
    """Functions, classes and what else may go as one."""
    entered: int = 0
    """Of these, entered by a stable test."""
    passed_over: dict[str, int]
    """Reason -> how often, once for each mode."""
    skipped_files: dict[str, str]
    candidates: int
    """Eligible candidates; not all are tried when ``--max`` is reached before."""
    eligible: dict[str, int] = Field(default_factory=dict)
    """Candidates by mode."""
    tried: int
    tried_by_mode: dict[str, int] = Field(default_factory=dict)
    tasks: tuple[str, ...]
    tasks_by_mode: dict[str, int] = Field(default_factory=dict)
    rejections: dict[str, int]
    """Candidates by reason."""
    rejected: tuple[dict[str, str], ...]
    """``feature``, ``mode``, ``reason`` and ``message`` of each."""
    faults: int
    stages: dict[str, dict[str, float]]
    finished: bool
