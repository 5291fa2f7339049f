"""What is known already: decisions about candidates and results of stages, on disk, so that a second run resumes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taskforge.corpus.atomic import write_bytes
from taskforge.corpus.bundle import Bundle, json_bytes
from taskforge.corpus.corpus import Corpus
from taskforge.generate.candidate import Forge, task_id
from taskforge.generate.options import Options
from taskforge.model import Candidate, digest_of
from taskforge.version import GRADER_VERSION, __version__

__all__ = ["Decision", "Record"]

#: Parts of a bundle that hold what a model wrote.
_WORDED = frozenset({"statement.md", "reports.json"})


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What became of one candidate. ``reason`` is empty for a task."""

    candidate: Candidate
    bundle: Bundle | None = None
    """The new task; None when it was rejected, or read from the record of an earlier run."""
    task: str = ""
    reason: str = ""
    message: str = ""
    stages: Mapping[str, Mapping[str, float]]
    known: bool = False


class Record:
    """The part of ``.work`` that belongs to one snapshot. All that could change a decision is in its file's name."""

    def __init__(self, corpus: Corpus, folder: Path, options: Options) -> None:
        self.corpus, self.folder, self.options = corpus, folder, options

    def keep(self, name: str, data: bytes) -> None:
        """Write a file of this record, atomically.

        Raises:
            StoreFault: when the disk does not take it.
        """
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(file, data)

    def kept(self, name: str) -> bytes | None:
        file = self.folder / name
        return file.read_bytes() if file.exists() else None

    def known(self, forge: Forge, candidate: Candidate) -> Decision | None:
        """The decision of an earlier run, unless its task has gone or is to be replaced."""
        data = self.kept(self._name(forge, candidate))
        if data is None:
            return None
        kept: dict[str, Any] = json.loads(data)
        task = kept["task"]
        if task and (self.options.replace or not (self.corpus.public / "tasks" / task).is_dir()):
            return None
        return Decision(
            candidate=candidate,
            task=task,
            reason=kept["reason"],
            message=kept["message"],
            stages=kept["stages"],
            known=True,
        )

    def decide(self, forge: Forge, decision: Decision) -> None:
        """Write a decision, the task first: killed in between, the candidate is tried again and found unchanged."""
        if decision.known:
            return
        if decision.bundle is not None and not self._has(decision.bundle):
            self.corpus.write(decision.bundle, replace=self.options.replace)
        content = {
            "candidate": task_id(forge.snapshot, decision.candidate),
            "feature": list(decision.candidate.units or (it.key for it in decision.candidate.symbols)),
            "task": decision.task,
            "reason": decision.reason,
            "message": decision.message,
            "stages": decision.stages,
        }
        self.keep(self._name(forge, decision.candidate), json_bytes(content))

    def _has(self, bundle: Bundle) -> bool:
        """Whether a run that was interrupted just then wrote this task, in other words: a model never says it twice."""
        task = bundle.card.id
        if self.options.statement != "llm" or self.options.replace or task not in self.corpus.task_ids():
            return False
        found = self.corpus.bundle(task).parts
        return all(found[name] == part for name, part in bundle.parts.items() if name not in _WORDED)

    def _name(self, forge: Forge, candidate: Candidate) -> str:
        options, limits = self.options, forge.limits
        settings = [
            *options.deciding, limits.memory_mb, limits.disk_mb, limits.pids, forge.environment.digest, GRADER_VERSION,
            __version__,
        ]  # fmt: skip
        keys = [symbol.key for symbol in candidate.symbols]
        return f"candidates/{digest_of([candidate.mode, keys, settings])[:32]}.json"
