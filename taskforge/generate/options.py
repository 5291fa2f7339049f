"""What generation is asked for, and what it tells at the end."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from taskforge.model import Value

__all__ = ["Options", "Report"]


class Options(Value):
    """What to make of a source."""

    mode: Literal["stub"] = "stub"
    max_tasks: int | None = Field(default=None, ge=1)
    seed: int = 0
    jobs: int = Field(default=1, ge=1)
    min_pass: float = Field(default=90.0, ge=0, le=100)
    min_lines: int = Field(default=2, ge=1)
    baseline_runs: int = Field(default=3, ge=1)
    reference_runs: int = Field(default=2, ge=1)
    p2p_seconds: float = Field(default=20.0, ge=0)
    tests_visible: bool = False
    python: str | None = None
    replace: bool = False


class Report(Value):
    """What one source gave, over all its runs so far."""

    source: str
    snapshot: str
    environment: str
    python: str
    tests: int
    stable_tests: int
    symbols: int
    passed_over: dict[str, int]
    skipped_files: dict[str, str]
    candidates: int
    """Eligible candidates; not all are tried when ``--max`` is reached before."""
    tried: int
    tasks: tuple[str, ...]
    rejections: dict[str, int]
    faults: int
    stages: dict[str, dict[str, float]]
    finished: bool
