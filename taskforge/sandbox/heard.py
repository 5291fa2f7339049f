"""Events of one run, put together to its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from taskforge.model import Outcome
from taskforge.sandbox import Ended, RunResult, TestReport

__all__ = ["Heard"]


class Heard:
    """Events of one run, put together."""

    def __init__(self, on_report: Callable[[TestReport], None] | None) -> None:
        self.on_report = on_report
        self.reports: list[TestReport] = []
        self.files: dict[str, str] = {}
        self.collected: list[str] = []
        self.errors: dict[str, str] = {}
        self.places: dict[str, tuple[tuple[str, int, str], ...]] = {}
        self.functions: dict[tuple[str, str, int], int] = {}
        self.numbers: dict[tuple[int, int], int] = {}
        self.unattributed: set[int] = set()
        self.entered: dict[str, tuple[int, ...]] = {}
        self.evidence: list[str] = []
        self.end: dict[str, Any] = {}
        self.output = b""

    def take(self, event: dict[str, Any], blob: bytes) -> bool:
        """Whether this was the last."""
        kind = event["event"]
        if kind == "report":
            self._report(event)
        elif kind == "collected":
            self.collected = [str(one) for one, _path in event["items"]]
            self.files = {str(one): str(path) for one, path in event["items"]}
        elif kind == "defined":
            for name, told in event["items"]:
                places = tuple((str(path), int(line), str(qualname)) for path, line, qualname in told)
                self.places.setdefault(str(name), places)
        elif kind == "collection_error":
            self.errors[str(event["id"])] = str(event["reason"])
        elif kind == "internal_error":
            self.evidence.append(f"pytest: internal error: {str(event['reason'])[-500:]}")
        elif kind == "function":
            # Each worker numbers for itself; here one number is one function over all of them.
            path, qualname, line = event["function"]
            key = (str(path), str(qualname), int(line))
            number = self.functions.setdefault(key, len(self.functions))
            self.numbers[int(event["generation"]), int(event["number"])] = number
        elif kind == "unattributed":
            self.unattributed.update(self._numbered(event, "functions"))
        elif kind == "entered":
            self.entered[str(event["id"])] = self._numbered(event, "enters")
        elif kind == "ended":
            self.end, self.output = event, blob
            return True
        return False

    def _numbered(self, event: dict[str, Any], field: str) -> tuple[int, ...]:
        generation = int(event.get("generation", 0))
        found = (self.numbers.get((generation, int(number))) for number in event[field])
        return tuple(sorted(number for number in found if number is not None))

    def _report(self, event: dict[str, Any]) -> None:
        name = str(event["id"])
        report = TestReport(
            id=name,
            file=self.files.get(name, name.split("::", maxsplit=1)[0]),
            outcome=cast("Outcome", str(event["outcome"])),
            seconds=float(event["seconds"]),
            reason=str(event["reason"])[-4200:],
            cause=str(event["cause"])[:200],
            enters=self._numbered(event, "enters"),
        )
        self.reports.append(report)
        if self.on_report is not None:
            self.on_report(report)

    def result(
        self, *, ended: Ended | None = None, seconds: float = 0.0, killed_for_memory: bool = False
    ) -> RunResult:
        end = self.end
        how: Ended = ended or end["ended"]
        # A limit that was hit and hurt nothing is no end: a test may fill a disk or a child's memory and expect that.
        unhurt = {"passed", "skipped", "xfailed"}
        hurt = how == "crashed" or (how == "done" and any(one.outcome not in unhurt for one in self.reports))
        if hurt and killed_for_memory:
            how = "oom"
        elif hurt and end.get("disk_full"):
            how = "disk_full"
        reports = [
            report
            if report.id not in self.entered
            else TestReport(**{**report.__dict__, "enters": self.entered[report.id]})
            for report in self.reports
        ]
        functions = tuple(self.functions)
        return RunResult(
            ended=how,
            reports=tuple(reports),
            collected=tuple(self.collected),
            collection_errors=self.errors,
            exit_code=end.get("exit_code"),
            output=self.output.decode("utf-8", "replace"),
            functions=functions,
            unattributed=tuple(sorted(self.unattributed)),
            places=self.places,
            seconds=end.get("seconds", seconds),
            cpu_seconds=end.get("cpu", 0.0),
            evidence=(*self.evidence, *end.get("evidence", ())),
        )
