"""Predictions as SWE-bench's harness takes them, and a report of grading many of them.

A prediction has ``instance_id`` (a task's id), ``model_patch`` (text, or null for nothing) and ``model_name_or_path``.
Files are JSON lines, a JSON list, or a JSON object by instance id.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from taskforge.errors import UsageError
from taskforge.grade.submission import Submission
from taskforge.model import Value, Verdict

__all__ = ["Prediction", "Report", "read_predictions", "report_of"]


class Prediction(Value):
    """One model's answer to one task."""

    task: str
    model: str = ""
    patch: str = ""

    @property
    def submission(self) -> Submission:
        """The patch as a submission. Nothing is a legal answer, and earns nothing."""
        data = self.patch.encode("utf-8", "surrogatepass")
        return Submission.patch(data) if data.strip() else Submission.empty()


class Report(Value):
    """What became of all predictions; the lists hold task ids, sorted."""

    total: int
    resolved: tuple[str, ...]
    unresolved: tuple[str, ...]
    empty: tuple[str, ...]
    """Predictions without a patch; among the unresolved, too."""
    rejected: tuple[str, ...]
    """Patches that cannot be applied; among the unresolved, too."""
    faults: dict[str, str]
    """Task id -> why there is no verdict. Neither resolved nor unresolved: grade these again."""
    missing: tuple[str, ...]
    """Tasks of the corpus that nothing was predicted for."""
    outcomes: dict[str, int]
    rewards: dict[str, float | None]
    """Task id -> reward; null for a fault."""


def read_predictions(path: Path) -> list[Prediction]:
    """Every prediction of a file, in its order.

    Raises:
        UsageError: when the file cannot be read, or an entry is none; says which. A task that is predicted twice is
            one, since only one of the two could be reported.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", hint="predictions are JSON lines or JSON") from None
    found = [_prediction(path, where, entry) for where, entry in _entries(path, text)]
    twice = [name for name, count in Counter(one.task for one in found).items() if count > 1]
    if twice:
        raise UsageError(f"{path} predicts {twice[0]} more than once", hint="keep one prediction a task")
    return found


def _entries(path: Path, text: str) -> Iterable[tuple[str, Any]]:
    try:
        data = json.loads(text)
    except json.JSONDecodeError:
        return _lines(path, text)
    if isinstance(data, list):
        return [(f"entry {number}", entry) for number, entry in enumerate(data, 1)]
    if isinstance(data, dict) and "instance_id" not in data:
        # By instance id; the entry may name it once more or not, and may be the bare patch.
        return [(name, {"instance_id": name, **_full(entry)}) for name, entry in data.items()]
    return [("entry 1", data)]


def _full(entry: Any) -> dict[str, Any]:
    if isinstance(entry, dict):
        return entry
    return {"model_patch": entry}


def _lines(path: Path, text: str) -> list[tuple[str, Any]]:
    out: list[tuple[str, Any]] = []
    # Not splitlines: a patch may hold U+2028 and its like unescaped.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            out.append((f"line {number}", json.loads(line)))
        except json.JSONDecodeError as error:
            raise UsageError(
                f"{path}, line {number} is no JSON: {error}", hint="one prediction a line, or one JSON list or object"
            ) from None
    return out


def _prediction(path: Path, where: str, entry: Any) -> Prediction:
    if not isinstance(entry, dict) or not isinstance(entry.get("instance_id"), str):
        raise UsageError(f"{path}, {where} has no instance_id", hint="a prediction names the task that it answers")
    patch = entry.get("model_patch", entry.get("patch"))
    if patch is not None and not isinstance(patch, str):
        raise UsageError(f"{path}, {where}: model_patch is no text", hint="give a diff as text, or null for nothing")
    model = entry.get("model_name_or_path")
    return Prediction(task=entry["instance_id"], model=str(model or ""), patch=patch or "")


def report_of(
    predictions: Iterable[Prediction],
    verdicts: Mapping[str, Verdict],
    faults: Mapping[str, str],
    tasks: Iterable[str],
) -> Report:
    """Put verdicts and faults, by task id, together."""
    given = list(predictions)
    names = sorted(one.task for one in given)
    resolved = tuple(name for name in names if name in verdicts and verdicts[name].resolved)
    return Report(
        total=len(given),
        resolved=resolved,
        unresolved=tuple(name for name in names if name in verdicts and not verdicts[name].resolved),
        empty=tuple(sorted(one.task for one in given if not one.patch.strip())),
        rejected=tuple(name for name in names if name in verdicts and verdicts[name].outcome == "patch_rejected"),
        faults={name: faults[name] for name in names if name in faults},
        missing=tuple(sorted(set(tasks) - set(names))),
        outcomes=dict(sorted(Counter(verdicts[name].outcome for name in names if name in verdicts).items())),
        rewards={name: verdicts[name].reward if name in verdicts else None for name in names},
    )
