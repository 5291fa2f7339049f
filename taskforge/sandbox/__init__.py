"""Where submitted code runs: one protocol, an explicit table of backends.

Starting and stopping (:class:`Backend`) is apart from running (:class:`Sandbox`). A sandbox takes a tree, warms up,
takes a submission's changes, runs, and is killed: one submission each, never reused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol, Self

from taskforge.errors import UsageError
from taskforge.model import Changes, Image, Outcome, Tree

__all__ = [
    "BACKENDS",
    "Backend",
    "Ended",
    "Environment",
    "ExecResult",
    "Limits",
    "Probe",
    "PytestJob",
    "RunResult",
    "Sandbox",
    "SandboxSpec",
    "TestReport",
    "backend",
]

#: Where the workspace lies in every sandbox, and where the environment does.
WORKSPACE = "/workspace"
ENV = "/env"

#: Why a run ended. ``done``: the runner finished by itself. ``oom``, ``disk_full`` and ``timeout``: a limit of the
#: sandbox was hit and everything in it was killed. ``crashed``: the process running the tests died too often to go on.
#: ``lost``: the supervisor itself went away after submitted code had started; the grader decides what that means.
Ended = Literal["done", "timeout", "oom", "disk_full", "crashed", "lost"]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one sandbox may use. Sizes in MiB, times in seconds."""

    memory_mb: int = 2048
    disk_mb: int = 512
    pids: int = 256
    output_kb: int = 256
    """Kept of each stream of the tests' process; the rest is read and dropped."""
    wall_seconds: float = 1800.0
    """For one job, inside the sandbox."""


@dataclass(frozen=True, kw_only=True)
class Environment:
    """An environment as it lies on this host, ready to be bound into a sandbox."""

    digest: str
    root: Path
    """Folder that becomes ``/env``: ``bin/``, ``lib/python3.X/site-packages``, ``pyvenv.cfg``."""
    interpreter: Path
    """The real base interpreter, symlinks resolved, on the host. Bound with its prefix at the same path."""
    base_prefix: Path
    python: str
    """Full version, ``3.12.1``."""
    overlay: Tree
    """Laid over every workspace."""
    variables: Mapping[str, str] = field(default_factory=dict)
    pytest_args: tuple[str, ...] = ()
    tools: Path | None = None
    """Extra site folder for recording runs only, bound at ``/tools`` (coverage.py for interpreters below 3.12)."""
    image: Image | None = None
    """What a sandbox with images has to start from: no other passes for it. None: whatever is made of the rest."""


@dataclass(frozen=True, kw_only=True)
class SandboxSpec:
    """What a sandbox is started with. Two specs that are equal by ``key`` give interchangeable sandboxes."""

    environment: Environment
    tree: Tree
    """The workspace at start, overlay not included: the backend lays it."""
    protected: tuple[str, ...] = ()
    """Paths, and folders with a trailing slash, that nothing inside may change or replace."""
    limits: Limits = field(default_factory=Limits)
    profile: Literal["grade", "build", "solve"] = "grade"
    tools: bool = False
    """Bind the environment's ``tools`` folder, for recording runs."""

    @property
    def key(self) -> tuple[object, ...]:
        image = self.environment.image.digest if self.environment.image is not None else ""
        return (self.environment.digest, image, self.tree.digest, self.protected, self.limits, self.profile, self.tools)


@dataclass(frozen=True, kw_only=True)
class PytestJob:
    """One run of pytest. ``files`` are what pytest is given; ``ids`` what is kept of the collected."""

    files: tuple[str, ...] = ()
    """Workspace paths; empty means the suite's own default."""
    ids: frozenset[str] | None = None
    """Exact ids to run; None runs all that is collected."""
    limits: Mapping[str, float] = field(default_factory=dict)
    """Seconds by id; setup, call and teardown together."""
    default_limit: float = 60.0
    collect_limit: float = 120.0
    """Seconds from the start of a process to its first test, and after its last."""
    wall_seconds: float = 1800.0
    record: Literal["", "monitoring", "coverage"] = ""
    shuffle: int | None = None
    """Seed for shuffling files, classes and tests; None keeps the suite's order."""
    max_timeouts: int | None = None
    """End the run after this many tests have timed out."""
    max_restarts: int = 20
    """New processes after one that died or was killed for a test's timeout."""
    max_failures: int | None = None
    """End the run after this many tests have failed: for questions that one failure settles, never for a grade."""
    collect_only: bool = False


@dataclass(frozen=True, kw_only=True)
class TestReport:
    """One test as the supervisor heard of it."""

    __test__ = False

    id: str
    file: str
    outcome: Outcome
    seconds: float
    reason: str = ""
    """Why it has not passed: the tail of the failure, capped at 4 KiB."""
    cause: str = ""
    """Class name of the exception, where there was one."""
    enters: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """All that one run told. A test reported twice is twice in ``reports``."""

    ended: Ended
    reports: tuple[TestReport, ...]
    collected: tuple[str, ...]
    """Ids in the suite's order, before ``ids`` chose among them (the first process's collection)."""
    collection_errors: Mapping[str, str]
    exit_code: int | None
    """pytest's own, of the last process; None when it was killed."""
    output: str
    """Head and tail of what the tests' process printed, decoded for people."""
    functions: tuple[tuple[str, str, int], ...] = ()
    unattributed: tuple[int, ...] = ()
    places: Mapping[str, tuple[tuple[str, int, str], ...]] = field(default_factory=dict)
    """Id -> ``(path, first line or 0, qualname)`` where it may be written down, the best first. Recording runs only; a
    claim, to be held against the file."""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ExecResult:
    """A plain command run inside. ``returncode`` is None when it was killed at a limit, which ``ended`` names."""

    ended: Ended
    returncode: int | None
    output: bytes
    seconds: float


class Sandbox(Protocol):
    """A started sandbox. Every method raises :class:`~taskforge.errors.SandboxFault` when the machinery breaks."""

    backend: str
    spec: SandboxSpec

    def warm(self) -> None:
        """Start the interpreter that will fork the tests' process, with pytest imported. Idempotent."""

    def look(self, timeout: float = 5.0) -> int:
        """Have it answer now. Returns the bytes of memory that it takes, files included.

        Raises:
            SandboxFault: when it does not, or its warm interpreter has gone; it is ended then.
        """

    def become(self, spec: SandboxSpec, changes: Changes) -> None:
        """Lay ``changes``, which make its workspace that of ``spec``, and be its sandbox; before anything has run."""

    def lay(self, changes: Changes) -> None:
        """Write entries into, and delete paths from, the workspace."""

    def run(self, job: PytestJob, on_report: Callable[[TestReport], None] | None = None) -> RunResult:
        """Run tests. Warms first if nobody has."""

    def exec(
        self, argv: Iterable[str], *, timeout: float, cwd: str = WORKSPACE, env: Mapping[str, str] | None = None
    ) -> ExecResult:
        """Run a command, unprivileged, stdin closed, the whole process tree killed at the deadline."""

    def read(self, path: str) -> Tree:
        """The tree below an absolute path inside."""

    @property
    def alive(self) -> bool: ...

    def kill(self) -> None:
        """End it from another thread; whoever waits for its answer sees it lost. Idempotent."""

    def close(self) -> None:
        """Kill it, wait, and remove all that it left on the host. Idempotent, never raises."""

    def when_closed(self, call: Callable[[], None]) -> None:
        """Have ``call`` called, once, by whoever closes it; it must not raise."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Probe:
    """Whether a backend works here, found by trying it."""

    ok: bool
    detail: str
    remedy: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


class Backend(Protocol):
    """Starts sandboxes."""

    name: str

    def probe(self) -> Probe: ...

    def start(self, spec: SandboxSpec) -> Sandbox:
        """Start one and lay its tree; it answers when this returns.

        Raises:
            SandboxFault: when it cannot be started.
        """

    def image(self, environment: Environment) -> Image | None:
        """The image that sandboxes of an environment start from, made now if need be; None where there are none.

        Raises:
            SandboxFault: when it cannot be had, or is not the one that ``environment.image`` pins.
        """


#: Name -> module that has a ``create()``; imported when first asked for.
BACKENDS: Mapping[str, str] = {
    "bubblewrap": "taskforge.sandbox.bubblewrap",
    "docker": "taskforge.sandbox.docker",
}


def backend(name: str) -> Backend:
    """The backend called ``name``, or with ``auto`` the first whose probe passes here.

    Raises:
        UsageError: for an unknown name, or when none works; the hint says what to install.
    """
    from importlib import import_module

    if name != "auto":
        if name not in BACKENDS:
            raise UsageError(f"there is no sandbox {name!r}", hint=f"choose one of auto, {', '.join(BACKENDS)}")
        made: Backend = import_module(BACKENDS[name]).create()
        found = made.probe()
        if not found.ok:
            raise UsageError(f"the sandbox {name!r} does not work here: {found.detail}", hint=found.remedy)
        return made
    refusals: list[str] = []
    remedies: list[str] = []
    for module in BACKENDS.values():
        candidate: Backend = import_module(module).create()
        found = candidate.probe()
        if found.ok:
            return candidate
        refusals.append(f"{candidate.name}: {found.detail}")
        remedies.append(found.remedy)
    raise UsageError(
        "no sandbox works on this machine: " + "; ".join(refusals), hint=" or ".join(filter(None, remedies))
    )
