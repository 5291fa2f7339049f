"""The warm interpreter as the supervisor holds it: a process and the pipes to and from it."""
# ruff: noqa: B905, PLW1509
# mypy: disallow-any-generics=False, warn-unreachable=False, warn-return-any=False

import errno
import os
import selectors
import signal
import subprocess
import sys
import time
from typing import Any  # noqa: F401 - in type comments, for Python 3.8

from . import frames, processes

BOOT = (
    "import sys, types, json, os\n"
    "n = int.from_bytes(os.read(3, 8), 'big')\n"
    "b = b''\n"
    "while len(b) < n: b += os.read(3, n - len(b))\n"
    "s = json.loads(b)\n"
    "exec(compile(s['bootstrap'], '<bootstrap>', 'exec'), {'SOURCES': s, 'MAIN': 'zygote', 'BLOB': b})\n"
)


class Zygote:
    """The warm interpreter and the three pipes to it."""

    def __init__(self, sources, variables):
        # type: (bytes, dict) -> None
        command_r, self.commands = os.pipe()
        self.answers, answer_w = os.pipe()
        self.events, event_w = os.pipe()
        self.output, output_w = os.pipe()
        for fd in (self.answers, self.events, self.output):
            os.set_blocking(fd, False)

        def place():
            # type: () -> None
            high = [os.dup(fd) for fd in (command_r, answer_w, event_w)]
            for target, fd in zip((3, 4, 5), high):
                os.dup2(fd, target, inheritable=True)
                os.close(fd)

        # The supervisor has one thread, so that preexec_fn is safe here.
        self.process = subprocess.Popen(
            [sys.executable, "-s", "-B", "-c", BOOT],
            stdin=subprocess.DEVNULL, stdout=output_w, stderr=output_w, cwd="/", env=variables,
            preexec_fn=place, close_fds=False,
        )  # fmt: skip
        for fd in (command_r, answer_w, event_w, output_w):
            os.close(fd)
        # Whoever reaps, reaps all: Popen shall not wait for it as well.
        self.process.returncode = 0
        self.pid = self.process.pid
        self.is_warm = False
        self.buffer = frames.Buffer()
        try:
            view = memoryview(len(sources).to_bytes(8, "big") + sources)
            while view:
                view = view[os.write(self.commands, view) :]
        except BrokenPipeError:
            return  # It has ended already; wait_warm() finds its last words.

    def command(self, job):
        # type: (dict) -> None
        """Have it fork a worker. One that has ended is found by whoever watches, one that was stopped goes on."""
        try:
            os.kill(self.pid, signal.SIGCONT)
            frames.write(self.commands, job)
        except (BrokenPipeError, ProcessLookupError):
            return

    def close(self):
        # type: () -> None
        """Forget it; it has been killed."""
        for fd in (self.commands, self.answers, self.events, self.output):
            os.close(fd)

    def wait_warm(self, timeout):
        # type: (float) -> dict
        if self.is_warm:
            return {"event": "warm", "strangers": []}
        deadline = time.monotonic() + timeout
        said = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self.answers, selectors.EVENT_READ)
            while time.monotonic() < deadline:
                said = (said + (read_some(self.output) or b""))[-8192:]
                if not selector.select(0.1):
                    continue
                block = os.read(self.answers, 65536)
                if not block:
                    break
                for raw, _blob in self.buffer.feed(block):
                    self.is_warm = True
                    return frames.header(raw)
        processes.kill_all(set())
        said += read_some(self.output) or b""
        self.close()
        return {"event": "cold", "reason": said[-4000:].decode("utf-8", "replace")}


def read_some(fd):
    # type: (int) -> Any
    """What a non-blocking descriptor has now: None when it has nothing, empty at its end."""
    try:
        return os.read(fd, 1 << 16)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EWOULDBLOCK):
            return None
        raise
