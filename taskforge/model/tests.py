"""What running a suite tells."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from taskforge.model.base import Value

__all__ = ["Outcome", "TestMap", "TestRecord"]

#: How one test ended. Only ``passed`` has passed. ``missing``: required, but nothing was reported. ``ended_early``: its
#: process died in it. ``duplicated``: reported more than once.
Outcome: TypeAlias = Literal[
    "passed", "failed", "error", "skipped", "xfailed", "xpassed", "timeout", "ended_early", "missing", "duplicated"
]


class TestRecord(Value):
    """One test over the baseline runs."""

    __test__ = False

    id: str
    """Verbatim from the runner's hooks."""
    file: str
    """Path of the file that was collected for it."""
    outcomes: tuple[Outcome, ...]
    """One per baseline run, in order."""
    seconds: float = Field(ge=0)
    """Longest duration over the runs, setup and teardown included."""
    enters: tuple[int, ...] = ()
    """Indices into :attr:`TestMap.functions`."""
    defined: str = ""
    """``path::qualname`` of the definition that yields it: for an inherited test its base class's. The qualname is
    empty where nothing smaller than the file is one (a doctest); all is empty for tests that no definition yields."""
    excluded: str = ""
    """Why it can never be required, whatever its outcomes: ``in_product``, since a submission may rewrite it."""

    @property
    def stable(self) -> bool:
        """Passed in every run, and may be required."""
        return not self.excluded and all(outcome == "passed" for outcome in self.outcomes)


class TestMap(Value):
    """Tests of a snapshot: their outcomes under grading conditions, and the functions each one enters.

    It orders the work and proves nothing: caches, session fixtures and import-time calls all hide calls from it.
    """

    __test__ = False

    snapshot: str
    environment: str
    functions: tuple[tuple[str, str, int], ...]
    """``(path, qualname, first line)`` of every function of the workspace that was entered."""
    tests: tuple[TestRecord, ...]
    unattributed: tuple[int, ...] = ()
    """Functions entered outside any test: at import, in collection, in threads that outlive their test."""
    recorder: Literal["monitoring", "coverage"]
    shuffle_seed: int = 0
    collection_errors: dict[str, str] = Field(default_factory=dict)
    """Collector id -> the last lines of why it failed."""

    @property
    def stable_ids(self) -> tuple[str, ...]:
        return tuple(record.id for record in self.tests if record.stable)
