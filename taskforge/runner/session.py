"""One run of pytest, seen from the supervisor: it starts workers, keeps each test's deadline, and starts another worker
for the rest when one was killed or died."""
# mypy: disallow-any-generics=False, warn-unreachable=False, warn-return-any=False

import os
import selectors
import signal
import time
from typing import Any  # noqa: F401 - in type comments, for Python 3.8

from . import events, frames, output, processes, warm


class Session:
    """One ``run`` frame, from the first worker to the last."""

    def __init__(self, supervisor, frame):
        # type: (Any, dict) -> None
        self.supervisor = supervisor
        self.zygote = supervisor.zygote  # type: warm.Zygote
        self.frame = frame
        self.limits = frame["limits"]
        self.output = output.Output(supervisor.config["limits"]["output"])
        self.started = time.monotonic()
        self.generation = 0
        self.done = set()  # type: set
        self.judged = set()  # type: set
        self.timeouts = 0
        self.cpu = 0.0
        self.selected = None  # type: Any
        self.evidence = []  # type: list
        self.passed_on = 0
        self.reset()

    def reset(self):
        # type: () -> None
        self.buffer = frames.Buffer(events.LARGEST)
        self.current = ""
        self.since = time.monotonic()
        self.finished = None  # type: Any
        self.exited = None  # type: Any
        self.progress = 0
        self.collected = False

    def run(self):
        # type: () -> None
        guard = self.supervisor.guard()
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
                ended = "timeout" if why == "killed" else "crashed"
                break
        if guard.was_full:
            self.note("the sandbox's disk was full")
        self.supervisor.send(
            {
                "event": "ended",
                "ended": ended,
                "disk_full": guard.was_full,
                "memory_kills": processes.memory_kills(),
                "exit_code": self.status(),
                "seconds": time.monotonic() - self.started,
                "cpu": self.cpu,
                "evidence": self.evidence,
            },
            self.output.bytes(),
        )

    def status(self):
        # type: () -> Any
        """pytest's own exit code, where the process that told it ended with it too."""
        if self.finished is None or self.exited is None:
            return None
        if os.WIFEXITED(self.exited) and os.WEXITSTATUS(self.exited) == self.finished:
            return self.finished
        self.note("pytest told status %d, and its process ended with another" % self.finished)
        return None

    def nothing_left(self):
        # type: () -> bool
        return self.selected is not None and not [one for one in self.selected if one not in self.done]

    def one_worker(self, guard):
        # type: (Any) -> str
        """``finished``, ``killed`` (a test's deadline), ``died``, or what ends the whole run."""
        job = {key: self.frame[key] for key in ("files", "ids", "shuffle", "record", "args", "collect_only")}
        limits = self.supervisor.config["limits"]
        job.update(generation=self.generation, exclude=sorted(self.done), disk=limits["disk"], pids=limits["pids"])
        job.update(drop=self.supervisor.user, max_failures=self.frame["max_failures"])
        if self.generation > 1 and job["ids"] is None and self.selected is not None:
            job["ids"] = self.selected
        self.zygote.command(job)
        why = self.watch(guard)
        guard.look()
        left = processes.running({self.zygote.pid}) if why == "exited" else []
        gone = dict(processes.kill_all({self.zygote.pid}))
        if self.exited is None and self.zygote.pid not in gone and why != "crashed":
            self.await_exit()
        self.drain()
        if left and self.finished is not None:
            self.note("%d processes were left running by the tests" % len(left))
        if self.exited is None:
            # Killed or stopped from inside: the next run gets another.
            processes.kill_all(set())
            self.zygote.close()
            self.supervisor.zygote = None
            self.note("the warm interpreter was killed from inside")
            if self.current:
                self.verdict(self.current, "ended_early", "the tests' process was killed in this test")
            return why if why in ("oom", "timeout") else "crashed"
        if why in ("oom", "timeout", "crashed"):
            return why
        if self.finished is not None:
            return "finished"
        if why == "exited":
            self.died()
            return "died"
        return why

    def watch(self, guard):
        # type: (Any) -> str
        """Until the worker has ended or must: ``exited``, ``killed`` for a test's deadline, or why the run ends."""
        zygote = self.zygote
        with selectors.DefaultSelector() as selector:
            selector.register(self.supervisor.host_in, selectors.EVENT_READ, "host")
            for name in ("answers", "events", "output"):
                selector.register(getattr(zygote, name), selectors.EVENT_READ, name)
            while True:
                for key, _mask in selector.select(min(guard.interval, max(0.005, self.left()))):
                    if key.data == "host":
                        self.supervisor.host_spoke()
                    elif self.take(key.data, key.fd) == b"":
                        selector.unregister(key.fd)
                if self.exited is not None:
                    return "exited"
                if zygote.pid in dict(processes.reap()):
                    return "crashed"
                broken = guard.broken()
                if broken:
                    self.note(guard.why)
                    if self.current:
                        self.verdict(self.current, "ended_early", guard.why)
                    return broken
                if self.passed_on > events.TOTAL:
                    self.note("the tests' process reported without end")
                    return "crashed"
                if time.monotonic() - self.started > self.frame["wall"]:
                    if self.current:
                        self.verdict(self.current, "timeout", "the run's own limit of %g s" % self.frame["wall"])
                    return "timeout"
                if self.left() <= 0:
                    return self.overdue()

    def note(self, evidence):
        # type: (str) -> None
        """Keep evidence, each kind once: a hostile process can give any amount."""
        if evidence not in self.evidence and len(self.evidence) < 50:
            self.evidence.append(evidence)

    def take(self, name, fd):
        # type: (str, int) -> bytes
        """Take what a pipe holds; None when it held nothing, empty at its end."""
        block = warm.read_some(fd)
        if not block:
            return block
        if name == "output":
            self.output.add(block)
        elif name == "answers":
            for raw, _blob in self.zygote.buffer.feed(block):
                answer = frames.header(raw)
                self.exited = answer["status"]
                self.cpu += answer["cpu"]
        else:
            self.passed_on += len(block)
            for event in self.heard(block):
                self.event(event)
        return block

    def heard(self, block):
        # type: (bytes) -> list
        """What of it a worker may say. A frame without sense costs itself, a stream without frames all that follows;
        neither costs the supervisor anything."""
        found = []
        try:
            for raw, _blob in self.buffer.feed(block):
                try:
                    clean = events.cleaned(frames.header(raw))
                except Exception as error:
                    self.malformed(error)
                    continue
                if clean["generation"] == self.generation:
                    found.append(clean)
        except ValueError as error:
            self.malformed(error)
            self.buffer = frames.Buffer(events.LARGEST)
        return found

    def malformed(self, error):
        # type: (Exception) -> None
        self.note("the tests' process sent a malformed event (%s)" % type(error).__name__)

    def event(self, event):
        # type: (dict) -> None
        kind = event["event"]
        if kind == "start":
            # Said again, it buys no time.
            if event["id"] != self.current:
                self.current = event["id"]
                self.since = time.monotonic()
            return
        if kind == "report":
            if event["id"] in self.judged:
                return  # It ended while its deadline passed; one word is enough.
            if event["id"] != self.current:
                self.note("a test was reported that was not running")
            self.done.add(event["id"])
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
            self.finished = event["status"]
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
        self.note("collection, or the end of the session, took over %g s" % self.frame["collect"])
        return "timeout"

    def died(self):
        # type: () -> None
        how = processes.ending(self.exited)
        if self.current:
            self.verdict(self.current, "ended_early", "the tests' process %s in this test" % how)
        else:
            self.note("the tests' process %s outside any test" % how)

    def verdict(self, nodeid, outcome, reason):
        # type: (str, str, str) -> None
        self.done.add(nodeid)
        self.judged.add(nodeid)
        self.progress += 1
        self.supervisor.send(
            {
                "event": "report", "id": nodeid, "outcome": outcome, "reason": reason, "cause": "", "enters": [],
                "seconds": time.monotonic() - self.since,
            }
        )  # fmt: skip

    def await_exit(self):
        # type: () -> None
        """The worker was killed: its parent says so, unless it was stopped or killed itself."""
        os.kill(self.zygote.pid, signal.SIGCONT)
        deadline = time.monotonic() + 5
        while self.exited is None and time.monotonic() < deadline:
            with selectors.DefaultSelector() as selector:
                selector.register(self.zygote.answers, selectors.EVENT_READ)
                if selector.select(0.1) and self.take("answers", self.zygote.answers) == b"":
                    return

    def drain(self):
        # type: () -> None
        """The worker is dead, so that what it said is all in the pipes."""
        for name in ("events", "output"):
            while self.take(name, getattr(self.zygote, name)):
                continue
