"""Verdicts of a run that may be interrupted: a line each, written as soon as it is known."""

from __future__ import annotations

import json
import logging
import os
import threading
from pathlib import Path

from pydantic import ValidationError

from taskforge.errors import StoreFault
from taskforge.grade.submission import Submission
from taskforge.model import Policy, TaskCard, Verdict
from taskforge.version import GRADER_VERSION

__all__ = ["Journal"]

log = logging.getLogger("taskforge.grade")


class Journal:
    """Finds a verdict again by task digest, submission digest, policy and grader version.

    Args:
        path: the file, read if it is there; None for a journal that keeps nothing.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._mutex = threading.Lock()
        self._known: dict[tuple[str, str, str, str], Verdict] = {}
        if path is not None and path.exists():
            for line in path.read_bytes().split(b"\n"):
                self._read(line, path)

    def _read(self, line: bytes, path: Path) -> None:
        if not line.strip():
            return
        try:
            verdict = Verdict.model_validate(json.loads(line))
        except (ValueError, ValidationError):
            # The line that was being written when its writer was killed.
            log.info("%s has a line that is no verdict: that one is graded again", path)
            return
        self._known[_key(verdict)] = verdict

    def verdict(self, card: TaskCard, submission: Submission, policy: Policy) -> Verdict | None:
        """What was made of the same thing before."""
        return self._known.get((card.digest, submission.digest, policy.model_dump_json(), GRADER_VERSION))

    def keep(self, verdict: Verdict) -> None:
        """Write one down.

        Raises:
            StoreFault: when the disk does not take it.
        """
        if self._path is None:
            return
        line = json.dumps(verdict.model_dump(), ensure_ascii=True).encode() + b"\n"
        try:
            with self._mutex, self._path.open("ab", buffering=0) as stream:
                if stream.tell() and not self._ends_whole():
                    stream.write(b"\n")
                stream.write(line)
                os.fsync(stream.fileno())
        except OSError as error:
            raise StoreFault(
                f"cannot write {self._path}: {error.strerror or error}", kind="disk", hint="make room there"
            ) from error

    def _ends_whole(self) -> bool:
        assert self._path is not None
        with self._path.open("rb") as stream:
            stream.seek(-1, os.SEEK_END)
            return stream.read(1) == b"\n"

    def remove(self) -> None:
        """All of it is in the report."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def _key(verdict: Verdict) -> tuple[str, str, str, str]:
    return verdict.task_digest, verdict.submission_digest, verdict.policy.model_dump_json(), verdict.grader_version
