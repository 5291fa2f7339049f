"""The host's end of the supervisor protocol, the same for every backend.

A backend starts a supervisor and hands over the two pipes to it, and a way to end it. This class speaks the frames.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from taskforge.errors import SandboxFault
from taskforge.model import Changes, Entry, Tree
from taskforge.sandbox import WORKSPACE, Ended, ExecResult, PytestJob, RunResult, SandboxSpec, TestReport
from taskforge.sandbox.channel import Broken, Channel
from taskforge.sandbox.heard import Heard
from taskforge.sandbox.payload import sources, variables_of

__all__ = ["WireSandbox"]

#: Seconds beyond a job's own limit before a silent supervisor counts as lost.
GRACE = 20.0
#: Seconds that one which has nothing to do may take to answer.
LOOK = 5.0


class WireSandbox:
    """A sandbox behind two pipes, which are its own from here on, whatever happens.

    ``stop`` ends the supervisor and all below it, once; ``memory_kills`` asks whoever holds the memory limit (a cgroup)
    how often it killed; ``tree`` is laid at start; ``config`` is what else this backend tells its supervisor.
    """

    def __init__(
        self,
        *,
        backend: str,
        spec: SandboxSpec,
        to: int,
        back: int,
        stop: Callable[[], str],
        poll_memory: bool,
        memory_kills: Callable[[], int] = lambda: 0,
        tree: Changes | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.backend = backend
        self.spec = spec
        self._channel = Channel(to, back)
        self._stop = stop
        self._asked_kills = memory_kills
        self._told_kills = 0
        self._closed = False
        self._warm = False
        self._lost = ""
        self._when_closed: list[Callable[[], None]] = []
        try:
            self._greet(poll_memory, config or {})
            self.lay(tree or {})
        except BaseException:
            self.close()
            raise

    def _memory_kills(self) -> int:
        """By whoever knows of more: the backend, or the supervisor where it sees the control group."""
        return max(self._told_kills, self._asked_kills())

    def _greet(self, poll_memory: bool, config: Mapping[str, Any]) -> None:
        limits = self.spec.limits
        blob = sources()
        try:
            self._channel.write(len(blob).to_bytes(8, "big") + blob, time.monotonic() + GRACE)
        except Broken as broken:
            raise self._gone(str(broken)) from None
        mib = 1024 * 1024
        self._send(
            {
                "variables": variables_of(self.spec),
                "poll_memory": poll_memory,
                **config,
                "limits": {
                    "memory": limits.memory_mb * mib,
                    "disk": limits.disk_mb * mib,
                    "pids": limits.pids,
                    "output": limits.output_kb * 1024,
                },
            }
        )
        self._expect("ready", GRACE)

    # -- frames ---------------------------------------------------------------------------------------------------

    def _send(self, header: Mapping[str, Any], parts: Sequence[bytes] = ()) -> None:
        if self._closed:
            raise SandboxFault("the sandbox has been closed", kind="sandbox_closed")
        try:
            self._channel.send(header, parts, time.monotonic() + 120)
        except Broken as broken:
            raise self._gone(str(broken)) from None

    def _frame(self, deadline: float) -> tuple[dict[str, Any], bytes]:
        try:
            header, blob = self._channel.receive(deadline)
        except Broken as broken:
            raise self._gone(str(broken)) from None
        self._told_kills = header.get("memory_kills", self._told_kills)
        return header, blob

    def _expect(self, event: str, timeout: float) -> tuple[dict[str, Any], bytes]:
        header, blob = self._frame(time.monotonic() + timeout)
        if header["event"] == event:
            return header, blob
        if header["event"] == "refused":
            full = header.get("errno") == 28
            raise SandboxFault(
                f"the sandbox refused: {header['reason']}",
                kind="sandbox_disk" if full else "sandbox_refused",
                hint="raise TASKFORGE_DISK_MB" if full else "",
                retryable=not full,
            )
        raise self._gone(f"answered {header['event']!r} for {event!r}: {header.get('reason', '')}")

    def _gone(self, how: str) -> SandboxFault:
        said = self._stop()
        self._lost = self._lost or how
        memory = " (its memory limit was hit)" if self._memory_kills() else ""
        return SandboxFault(
            f"the {self.backend} sandbox {how}{memory}" + (f": {said}" if said else ""), kind="sandbox_lost"
        )

    # -- the protocol ---------------------------------------------------------------------------------------------

    def warm(self) -> None:
        """Start and warm the interpreter that forks workers."""
        if self._warm:
            return
        self._send({"op": "warm", "timeout": 60.0})
        header, _blob = self._frame(time.monotonic() + 60 + GRACE)
        if header["event"] != "warm" and not header.get("reason", "").strip():
            # An interpreter that cannot import something says so. This one was killed.
            raise self._gone("has lost the interpreter that it was warming")
        if header["event"] != "warm":
            self.close()
            raise SandboxFault(
                f"pytest cannot be imported in environment {self.spec.environment.digest[:12]}: {header.get('reason')}",
                kind="environment_broken",
                hint="delete the environment from the cache folder; it is rebuilt on demand",
                retryable=False,
            )
        if header["strangers"]:
            self.close()
            raise SandboxFault(
                f"importing pytest imports the workspace's own {', '.join(header['strangers'][:3])}",
                kind="runner_dependency",
                retryable=False,
            )
        self._warm = True

    def look(self, timeout: float = LOOK) -> int:
        """Have it answer now; see :class:`taskforge.sandbox.Sandbox`."""
        self._send({"op": "look"})
        header, _blob = self._expect("looked", timeout)
        if self._warm and not header["warm"]:
            raise self._gone("has lost its warm interpreter")
        return int(header["memory"])

    def become(self, spec: SandboxSpec, changes: Changes) -> None:
        """Lay what ``spec`` has over the present one, and be its sandbox from here on: nothing may have run yet."""
        if changes:
            self.lay(changes)
        self.spec = spec

    def lay(self, changes: Changes) -> None:
        """Write and delete workspace files."""
        entries: list[tuple[str, str, int]] = []
        parts: list[bytes] = []
        for path, entry in changes.items():
            entries.append((path, "absent" if entry is None else entry.kind, 0 if entry is None else len(entry.data)))
            parts.append(b"" if entry is None else entry.data)
        self._send({"op": "lay", "entries": entries}, parts)
        self._expect("laid", 120 + GRACE)

    def read(self, path: str) -> Tree:
        """The tree below an absolute path."""
        self._send({"op": "read", "path": path, "limit": self.spec.limits.disk_mb * 1024 * 1024})
        header, blob = self._expect("tree", 120)
        out: dict[str, Entry] = {}
        offset = 0
        for name, kind, size in header["entries"]:
            out[name] = Entry(data=blob[offset : offset + size], kind=kind)
            offset += size
        try:
            return Tree(out)
        except ValueError as error:
            raise SandboxFault(f"{path} is no tree: {error}", kind="sandbox_refused", retryable=False) from None

    def exec(
        self, argv: Iterable[str], *, timeout: float, cwd: str = WORKSPACE, env: Mapping[str, str] | None = None
    ) -> ExecResult:
        """Run a command inside."""
        started, kills = time.monotonic(), self._memory_kills()
        timeout = min(timeout, self.spec.limits.wall_seconds)
        cap = self.spec.limits.output_kb * 1024
        self._send(
            {"op": "exec", "argv": list(argv), "cwd": cwd, "env": dict(env or {}), "timeout": timeout, "output": cap}
        )
        try:
            header, blob = self._expect("exec", timeout + GRACE)
        except SandboxFault:
            if self._memory_kills() == kills:
                raise
            return ExecResult(ended="oom", returncode=None, output=b"", seconds=time.monotonic() - started)
        ended, returncode = header["ended"], header["returncode"]
        if ended == "done" and returncode != 0 and self._memory_kills() > kills:
            ended, returncode = "oom", None
        return ExecResult(ended=ended, returncode=returncode, output=blob, seconds=header["seconds"])

    def run(self, job: PytestJob, on_report: Callable[[TestReport], None] | None = None) -> RunResult:
        """Run tests; see :class:`taskforge.sandbox.Sandbox`."""
        self.warm()
        kills = self._memory_kills()
        wall = min(job.wall_seconds, self.spec.limits.wall_seconds)
        self._send(
            {
                "op": "run",
                "files": list(job.files),
                "ids": None if job.ids is None else sorted(job.ids),
                "limits": dict(job.limits),
                "default": job.default_limit,
                "collect": job.collect_limit,
                "wall": wall,
                "record": job.record,
                "shuffle": job.shuffle,
                "max_timeouts": job.max_timeouts,
                "max_restarts": job.max_restarts,
                "max_failures": job.max_failures,
                "collect_only": job.collect_only,
                "args": list(self.spec.environment.pytest_args),
            }
        )
        heard = Heard(on_report)
        started = time.monotonic()
        try:
            for header, blob in self._events(started + wall + GRACE):
                if heard.take(header, blob):
                    return heard.result(killed_for_memory=self._memory_kills() > kills)
        except SandboxFault:
            # Law 3: lost after submitted code had started. What it means is for the grader to decide.
            ended: Ended = "oom" if self._memory_kills() > kills else "lost"
            return heard.result(ended=ended, seconds=time.monotonic() - started)
        raise AssertionError("unreachable")

    def _events(self, deadline: float) -> Iterator[tuple[dict[str, Any], bytes]]:
        while True:
            header, blob = self._frame(deadline)
            if header["event"] == "broken":
                raise self._gone(f"broke: {header['reason']}")
            yield header, blob

    # -- life -----------------------------------------------------------------------------------------------------

    @property
    def alive(self) -> bool:
        if self._closed or self._lost:
            return False
        return not self._channel.readable()

    def kill(self) -> None:
        """End it from another thread. The pipes stay open: they are their reader's."""
        self._stop()

    def close(self) -> None:
        """End it. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._stop()
        self._channel.close()
        for call in self._when_closed:
            call()

    def when_closed(self, call: Callable[[], None]) -> None:
        """Have ``call`` called, once, by whoever closes it."""
        self._when_closed.append(call)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
