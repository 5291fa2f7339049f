"""A task: the public card, and the sealed list of its tests."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from taskforge.model.base import Value
from taskforge.model.source import Provenance

__all__ = ["Metrics", "TaskCard", "TaskTests"]


class Metrics(Value):
    """What is known about how hard a task is."""

    lines: int = Field(ge=0)
    """Removed lines that were neither blank nor comment."""
    files: int = Field(ge=0)
    symbols: int = Field(ge=0)
    complexity: int = Field(ge=0)
    fan_in: int = Field(default=0, ge=0)
    """Places in the original code, outside of what was removed, that name it."""
    difficulty: float = Field(default=0.0, ge=0)
    """One score of all these; :mod:`taskforge.generate.difficulty` says how."""
    fail_to_pass: int = Field(ge=0)
    pass_to_pass: int = Field(ge=0)
    """All of them; a grade runs the chosen ones unless told to run all."""


class TaskCard(Value):
    """``task.json``: all that a solver is told besides the statement and the workspace."""

    schema_version: Literal[1] = 1
    id: str = Field(pattern=r"\A[A-Za-z0-9._-]+\z")
    """``<owner>__<name>-<commit8>.<mode>-<feature slug>-<hash6>``: a label. The digest is the identity."""
    digest: str
    """SHA-256 over the public and the sealed files of the bundle, this field apart."""
    language: Literal["python"] = "python"
    mode: Literal["stub", "remove", "module", "cluster"]
    feature: tuple[str, ...] = Field(min_length=1)
    """``path::qualname`` of every removed symbol."""
    environment: str
    """Digest of the recipe."""
    platform: str = ""
    """Of the host that proved it, such as ``linux/amd64``: its compiled parts run on no other. Empty: not known."""
    image: str = ""
    """Digest of the environment's image (see ``image.json``); empty when it was proven in a sandbox without images."""
    workspace: str
    """Digest of the workspace's tree."""
    tests_visible: bool = False
    sibling: tuple[str, ...] = ()
    """``path::qualname`` of near-copies of the removed code that the workspace still has."""
    twin_of: str = ""
    """Id of an earlier task of the corpus that asks for nearly the same code."""
    provenance: Provenance
    metrics: Metrics
    generator: str
    """Version of taskforge that made it."""


class TaskTests(Value):
    """``tests.json`` on the sealed side. Ids verbatim. Each list is sorted as the suite orders them."""

    schema_version: Literal[1] = 1
    fail_to_pass: tuple[str, ...] = Field(min_length=1)
    pass_to_pass: tuple[str, ...] = ()
    graded: tuple[str, ...] = ()
    """The PASS_TO_PASS that a grade runs by default, chosen at generation within ``--p2p-seconds``."""
    must_fail: tuple[str, ...] = ()
    files: dict[str, str] = Field(default_factory=dict)
    """Test id -> the file that is collected for it, for every id above."""
    seconds: dict[str, float] = Field(default_factory=dict)
    """Test id -> baseline duration."""
    protected: tuple[str, ...] = ()
    """Paths and, with a trailing slash, folders that a submission may not touch: tests and their configuration."""
    allowed: tuple[str, ...] = ()
    """When not empty, the only paths and folders that a submission may touch."""
