"""One run of pytest, seen from the supervisor: it starts workers, keeps each test's deadline, and starts another worker
for the rest when one was killed or died."""

import errno
import os
import selectors
import signal
import subprocess
import sys
import time

from . import frames, processes

BOOT = (
    "import sys, types, json, os\n"
    "n = int.from_bytes(os.read(3, 8), 'big')\n"
    "b = b''\n"
    "while len(b) < n: b += os.read(3, n - len(b))\n"
    "s = json.loads(b)\n"
    "exec(compile(s['bootstrap'], 'bootstrap', 'exec'), {'SOURCES': s, 'MAIN': 'zygote', 'BLOB': b})\n"
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
        self.pid = self.process.pid
        self.is_warm = False
        self.buffer = frames.Buffer()
        view = memoryview(len(sources).to_bytes(8, "big") + sources)
        while view:
            view = view[os.write(self.commands, view) :]

    def wait_warm(self, timeout):
        # type: (float) -> dict
        if self.is_warm:
            return {"event": "warm", "strangers": []}
        deadline = time.monotonic() + timeout
        said = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self.answers, selectors.EVENT_READ)
            while time.monotonic() < deadline:
                if not selector.select(0.1):
                    said += read_some(self.output)
                    continue
                block = os.read(self.answers, 65536)
                if not block:
                    break
                for answer, _blob in self.buffer.feed(block):
                    self.is_warm = True
                    return answer
        said += read_some(self.output)
        processes.kill_all(set())
        return {"event": "cold", "reason": said[-4000:].decode("utf-8", "replace")}


def read_some(fd):
    # type: (int) -> bytes
    """What a non-blocking descriptor has now; empty at its end or when it has nothing."""
    try:
        return os.read(fd, 1 << 16)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EWOULDBLOCK):
            return b""
        raise


class Output:
    """Head and tail of a stream, capped while it flows."""

    def __init__(self, cap):
        # type: (int) -> None
        self.half = cap // 2
        self.head = bytearray()
        self.tail = bytearray()
        self.total = 0

    def add(self, block):
        # type: (bytes) -> None
        self.total += len(block)
        room = self.half - len(self.head)
        if room > 0:
            self.head += block[:room]
            block = block[room:]
        self.tail += block
        if len(self.tail) > self.half * 2:
            del self.tail[: len(self.tail) - self.half]

    def bytes(self):
        # type: () -> bytes
        tail = bytes(self.tail[-self.half :])
        dropped = self.total - len(self.head) - len(tail)
        middle = b"\n[%d bytes dropped]\n" % dropped if dropped else b""
        return bytes(self.head) + middle + tail


class Session:
    """One ``run`` frame, from the first worker to the last."""

    def __init__(self, supervisor, frame):
        # type: (object, dict) -> None
        self.supervisor = supervisor
        self.zygote = supervisor.zygote
        self.frame = frame
        self.limits = frame["limits"]
        self.output = Output(supervisor.config["limits"]["output"])
        self.started = time.monotonic()
        self.generation = 0
        self.done = set()  # type: set
        self.timeouts = 0
        self.cpu = 0.0
        self.selected = None  # type: list
        self.evidence = []  # type: list
        self.reset()

    def reset(self):
        # type: () -> None
        self.buffer = frames.Buffer()
        self.current = ""
        self.since = time.monotonic()
        self.finished = None  # type: int
        self.exited = None  # type: int
        self.progress = 0
        self.collected = False

    def run(self):
        # type: () -> None
        from .supervisor import Guard

        guard = Guard(self.supervisor.config)
        ended = "done"
        restarts = 0
        while True:
            self.reset()
            self.generation += 1
            why = self.one_worker(guard)
            if why in ("oom", "timeout", "crashed"):
                ended = why
                break
            if why == "finished" or self.nothing_left():
                break
            if self.frame["max_timeouts"] is not None and self.timeouts >= self.frame["max_timeouts"]:
                ended = "timeout"
                break
            restarts += 1
            if restarts > self.frame["max_restarts"] or (why == "died" and not self.progress):
                ended = "crashed"
                break
        if guard.was_full and ended == "done":
            self.evidence.append("the sandbox's disk was full")
        self.supervisor.send(
            {
                "event": "ended",
                "ended": ended,
                "disk_full": guard.was_full,
                "exit_code": self.finished,
                "seconds": time.monotonic() - self.started,
                "cpu": self.cpu,
                "evidence": self.evidence,
            },
            self.output.bytes(),
        )

    def nothing_left(self):
        # type: () -> bool
        return self.selected is not None and not [one for one in self.selected if one not in self.done]

    def one_worker(self, guard):
        # type: (object) -> str
        """``finished``, ``killed`` (a test's deadline), ``died``, or what ends the whole run."""
        job = {key: self.frame[key] for key in ("files", "ids", "shuffle", "record", "args", "collect_only")}
        limits = self.supervisor.config["limits"]
        job.update(generation=self.generation, exclude=sorted(self.done), disk=limits["disk"], pids=limits["pids"])
        if self.generation > 1 and job["ids"] is None and self.selected is not None:
            job["ids"] = self.selected
        frames.write(self.zygote.commands, job)
        why = self.watch(guard)
        left = [pid for pid in processes.others({self.zygote.pid})]
        if self.exited is not None and left and why == "finished":
            self.evidence.append("%d processes were left running by the tests" % len(left))
        gone = processes.kill_all({self.zygote.pid})
        if self.exited is None and self.zygote.pid not in [pid for pid, _status in gone]:
            self.await_exit()
        self.drain()
        if self.exited is None:
            self.supervisor.zygote = None
            self.evidence.append("the warm interpreter was killed from inside")
            return why if why in ("oom", "timeout") else "crashed"
        if self.finished is not None:
            return "finished"
        if why == "exited":
            self.died()
            return "died"
        return why

    def watch(self, guard):
        # type: (object) -> str
        zygote = self.zygote
        with selectors.DefaultSelector() as selector:
            selector.register(self.supervisor.host_in, selectors.EVENT_READ, "host")
            for name in ("answers", "events", "output"):
                selector.register(getattr(zygote, name), selectors.EVENT_READ, name)
            while True:
                for key, _mask in selector.select(min(0.1, max(0.005, self.left()))):
                    if key.data == "host":
                        self.supervisor.host_spoke()
                    elif not self.take(key.data, key.fd):
                        selector.unregister(key.fd)
                if self.exited is not None:
                    return "exited"
                if zygote.process.poll() is not None:
                    return "crashed"
                broken = guard.broken()
                if broken:
                    return broken
                if time.monotonic() - self.started > self.frame["wall"]:
                    if self.current:
                        self.verdict(self.current, "timeout", "the run's own limit of %g s" % self.frame["wall"])
                    return "timeout"
                if self.left() <= 0:
                    return self.overdue()

    def take(self, name, fd):
        # type: (str, int) -> bool
        block = read_some(fd)
        if not block:
            return False
        if name == "output":
            self.output.add(block)
        elif name == "answers":
            for answer, _blob in self.zygote.buffer.feed(block):
                self.exited = answer["status"]
                self.cpu = answer["cpu"]
        else:
            self.hear(block)
        return True

    def hear(self, block):
        # type: (bytes) -> None
        """Events are a claim of the tests' process: a garbled one ends its credit, never the supervisor."""
        try:
            for event, _blob in self.buffer.feed(block):
                if event.get("generation") == self.generation:
                    self.event(event)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self.evidence.append("the tests' process sent a malformed event (%s)" % type(error).__name__)
            self.buffer = frames.Buffer()

    def event(self, event):
        # type: (dict) -> None
        kind = event["event"]
        if kind == "start":
            self.current = str(event["id"])
            self.since = time.monotonic()
            return
        if kind == "report":
            self.done.add(str(event["id"]))
            self.current = ""
            self.since = time.monotonic()
            self.progress += 1
        elif kind == "collected":
            self.since = time.monotonic()
            if self.collected or self.generation > 1:
                return
            self.collected = True
            wanted = None if self.frame["ids"] is None else set(self.frame["ids"])
            self.selected = [one for one, _path in event["items"] if wanted is None or one in wanted]
        elif kind == "finish":
            self.finished = int(event["status"])
            self.since = time.monotonic()
        self.supervisor.send(event)

    def left(self):
        # type: () -> float
        """Seconds until what is going on now is overdue."""
        limit = self.frame["collect"]
        if self.current:
            limit = self.limits.get(self.current, self.frame["default"])
        return self.since + limit - time.monotonic()

    def overdue(self):
        # type: () -> str
        if self.current:
            limit = self.limits.get(self.current, self.frame["default"])
            self.verdict(self.current, "timeout", "did not end within %.1f s" % limit)
            self.timeouts += 1
            return "killed"
        self.evidence.append("collection, or the end of the session, took over %g s" % self.frame["collect"])
        return "timeout"

    def died(self):
        # type: () -> None
        how = "ended with status %d" % os.WEXITSTATUS(self.exited)
        if os.WIFSIGNALED(self.exited):
            how = "was killed by %s" % signal.Signals(os.WTERMSIG(self.exited)).name
        if self.current:
            self.verdict(self.current, "ended_early", "the tests' process %s in this test" % how)
        else:
            self.evidence.append("the tests' process %s outside any test" % how)

    def verdict(self, nodeid, outcome, reason):
        # type: (str, str, str) -> None
        self.done.add(nodeid)
        self.progress += 1
        self.supervisor.send(
            {
                "event": "report", "id": nodeid, "outcome": outcome, "reason": reason, "cause": "", "enters": [],
                "seconds": time.monotonic() - self.since,
            }
        )  # fmt: skip

    def await_exit(self):
        # type: () -> None
        deadline = time.monotonic() + 5
        while self.exited is None and time.monotonic() < deadline:
            with selectors.DefaultSelector() as selector:
                selector.register(self.zygote.answers, selectors.EVENT_READ)
                if selector.select(0.1) and not self.take("answers", self.zygote.answers):
                    return

    def drain(self):
        # type: () -> None
        """The worker is dead, so that what it said is all in the pipes."""
        for name in ("events", "output"):
            while self.take(name, getattr(self.zygote, name)):
                continue
