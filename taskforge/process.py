"""The one door to subprocesses on the host.

Everything that taskforge starts outside a sandbox (git, uv) comes through :func:`run`: argv lists only, stdin closed, a
deadline for the whole process group, output capped while it streams, and one debug line per command in the log.
Sandboxes are long-lived and own their pipes; they use :func:`spawn`.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

__all__ = ["Completed", "ProcessTimeoutError", "kill_group", "run", "spawn"]

log = logging.getLogger("taskforge.process")

DEFAULT_CAP = 4 * 1024 * 1024


class ProcessTimeoutError(TimeoutError):
    """The deadline passed; the whole process group has been killed and waited for."""

    def __init__(self, argv: Sequence[str], seconds: float, output: bytes) -> None:
        super().__init__(f"`{argv[0]}` did not end within {seconds:g} s")
        self.argv = list(argv)
        self.seconds = seconds
        self.output = output


@dataclass(frozen=True, kw_only=True)
class Completed:
    """What a command left behind. ``stdout`` and ``stderr`` hold at most ``cap`` bytes each, from their start."""

    argv: tuple[str, ...]
    returncode: int
    stdout: bytes
    stderr: bytes
    seconds: float

    @property
    def text(self) -> str:
        """Both streams, decoded for people only."""
        return (self.stdout + self.stderr).decode("utf-8", "replace").strip()


def spawn(
    argv: Sequence[str], *, stdin: int, stdout: int, stderr: int | IO[bytes], env: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start a long-lived command in a session of its own. The caller owns its pipes and its end.

    Raises:
        OSError: if the program cannot be started.
    """
    log.debug("spawn %s", argv[0])
    return subprocess.Popen(
        list(argv), stdin=stdin, stdout=stdout, stderr=stderr, env=dict(env), start_new_session=True, close_fds=True
    )


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL the process's whole group and wait for its leader, so that no zombie stays."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        log.debug("process group %d had already ended", process.pid)
    process.wait()


def run(
    argv: Sequence[str],
    *,
    timeout: float,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    cap: int = DEFAULT_CAP,
) -> Completed:
    """Run a command to its end.

    Args:
        argv: program and arguments; never a shell line.
        timeout: seconds for the whole process group.
        env: the complete environment; this process's own when None.
        stdin: bytes to feed; an empty one is an immediate end of file.
        cap: bytes kept of each stream; the rest is read and dropped.

    Raises:
        ProcessTimeoutError: when the deadline passes.
        OSError: if the program cannot be started.
    """
    started = time.monotonic()
    process = subprocess.Popen(
        list(argv),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env=None if env is None else dict(env),
        start_new_session=True,
    )
    chunks: dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
    threads = _pump(process, chunks, stdin, cap)
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        kill_group(process)
        raise ProcessTimeoutError(argv, timeout, bytes(chunks["stdout"] + chunks["stderr"])) from None
    except BaseException:
        kill_group(process)
        raise
    # A grandchild may hold the pipes past the parent's end: it does not outlive the command.
    for thread in threads:
        thread.join(max(0.1, started + timeout - time.monotonic()) if thread.is_alive() else 0)
    if any(thread.is_alive() for thread in threads):
        kill_group(process)
    seconds = time.monotonic() - started
    log.debug("%s -> %d in %.2f s", " ".join(argv), process.returncode, seconds)
    return Completed(
        argv=tuple(argv),
        returncode=process.returncode,
        stdout=bytes(chunks["stdout"]),
        stderr=bytes(chunks["stderr"]),
        seconds=seconds,
    )


def _pump(
    process: subprocess.Popen[bytes], chunks: dict[str, bytearray], stdin: bytes, cap: int
) -> list[threading.Thread]:
    """Threads that feed the process and keep at most ``cap`` bytes of each of its streams."""

    def drain(name: str, stream: IO[bytes]) -> None:
        with stream:
            for block in iter(lambda: stream.read1(65536), b""):  # type: ignore[attr-defined]
                kept = chunks[name]
                kept += block[: max(0, cap - len(kept))]

    def feed(stream: IO[bytes]) -> None:
        try:
            with stream:
                stream.write(stdin)
        except BrokenPipeError:
            log.debug("process %d closed its input early", process.pid)

    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    threads = [
        threading.Thread(target=drain, args=("stdout", process.stdout), daemon=True),
        threading.Thread(target=drain, args=("stderr", process.stderr), daemon=True),
        threading.Thread(target=feed, args=(process.stdin,), daemon=True),
    ]
    for thread in threads:
        thread.start()
    return threads
