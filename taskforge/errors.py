"""Every error that taskforge raises on purpose, in one tree; each kind owns its exit code.

.. code-block:: text

    TaskforgeError               1
    ├── UsageError               2   the caller asked for something that cannot be
    │   └── CorpusError          2   a corpus or task folder is damaged, or of a newer schema
    ├── SourceError              5   the repository cannot be had
    ├── EnvironmentBuildError    6   its tests cannot be made to run, or are red at baseline
    ├── TaskRejected             7   a candidate is no task; carries the machine-readable reason
    ├── BadSubmission            3   a submission cannot be applied; a verdict, not a fault
    └── Fault                    4   the machinery broke: never a score
        ├── SandboxFault         4
        ├── StoreFault           4
        └── QueueFault           4

A message says what failed, on what, and what to do next. ``hint`` holds the last of these, so that the command line
can set it apart.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "BadSubmission",
    "CorpusError",
    "EnvironmentBuildError",
    "Fault",
    "QueueFault",
    "SandboxFault",
    "SourceError",
    "StoreFault",
    "TaskRejected",
    "TaskforgeError",
    "UsageError",
]


class TaskforgeError(Exception):
    """Root of the tree. ``exit_code`` is what the command line ends with."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(TaskforgeError):
    """The request itself is wrong: an unknown task, a bad option, a missing file."""

    exit_code = 2


class CorpusError(UsageError):
    """A corpus or task folder is damaged, incomplete, or written by a newer taskforge."""


class SourceError(TaskforgeError):
    """A repository cannot be had: unknown project, wrong commit, corrupt archive, no network."""

    exit_code = 5


class EnvironmentBuildError(TaskforgeError):
    """A repository's tests cannot be made to run here, or too few of them pass untouched."""

    exit_code = 6


class TaskRejected(TaskforgeError):  # noqa: N818 - DESIGN's word; it is an outcome rather than a mistake
    """A candidate does not make a task. ``reason`` is a stable snake_case word that reports count by."""

    exit_code = 7

    def __init__(self, reason: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reason = reason


class BadSubmission(TaskforgeError):  # noqa: N818
    """A submission cannot be applied. Scored 0 with outcome ``patch_rejected``."""

    exit_code = 3


class Fault(TaskforgeError):  # noqa: N818
    """The machinery broke. There is no verdict, ``reward`` is null, and a retry may help.

    ``kind`` is a stable snake_case word for metrics. ``retryable`` says whether a fresh sandbox may do better.
    """

    exit_code = 4

    def __init__(self, message: str, *, kind: str = "fault", hint: str = "", retryable: bool = True) -> None:
        super().__init__(message, hint=hint)
        self.kind = kind
        self.retryable = retryable


class SandboxFault(Fault):
    """A sandbox could not be started, or was lost through no fault of a submission."""


class StoreFault(Fault):
    """The disk or the database failed: full, read-only, locked, gone."""


class QueueFault(Fault):
    """The job queue cannot be reached or lost a job."""
