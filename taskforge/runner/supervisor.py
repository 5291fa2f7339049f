"""PID 1 of a sandbox. It owns the protocol, the tree, the limits and the clock; submitted code runs in its descendants.

Frames from the host: ``lay``, ``warm``, ``look``, ``run``, ``exec``, ``read``. When the host goes away,
so does everything here.
"""
# ruff: noqa: ARG002, PLW1509
# mypy: disallow-any-generics=False, warn-unreachable=False, warn-return-any=False

import os
import selectors
import signal
import subprocess
import sys
import time
from typing import Any  # noqa: F401 - in type comments, for Python 3.8

from . import files, frames, identity, processes, session, warm

WORKSPACE = "/workspace"


class Supervisor:
    """State of one sandbox. ``config``: limits, protected paths, variables, whether to poll memory, sources."""

    def __init__(self, config, host_in, host_out, sources):
        # type: (dict, int, int, bytes) -> None
        self.config = config
        self.host_in = host_in
        self.host_out = host_out
        self.sources = sources
        self.zygote = None  # type: Any
        self.user = config.get("drop")
        self.protecting = self.user is not None

    def serve(self):
        # type: () -> None
        self.send({"event": "ready", "pid": os.getpid(), "python": sys.version.split()[0]})
        while True:
            try:
                frame, blob = frames.read(self.host_in)
            except frames.Closed:
                return
            getattr(self, "do_" + frame["op"])(frame, blob)

    def send(self, header, blob=b""):
        # type: (dict, bytes) -> None
        frames.write(self.host_out, header, blob)

    def do_lay(self, frame, blob):
        # type: (dict, bytes) -> None
        try:
            if self.protecting:
                # The first tree is what is protected: root's, as no later one is.
                self.protecting = False
                files.lay(WORKSPACE, frame["entries"], blob)
                identity.open_up(WORKSPACE, self.config["open"])
            else:
                with identity.acting_as(self.user):
                    files.lay(WORKSPACE, frame["entries"], blob)
        except OSError as error:
            self.send({"event": "refused", "errno": error.errno, "reason": str(error)})
        else:
            self.send({"event": "laid"})

    def do_read(self, frame, blob):
        # type: (dict, bytes) -> None
        try:
            with identity.acting_as(self.user):
                entries, data = files.collect(frame["path"], frame["limit"])
        except (OSError, ValueError, RecursionError) as error:
            self.send({"event": "refused", "errno": 0, "reason": str(error)})
        else:
            self.send({"event": "tree", "entries": entries}, data)

    def do_look(self, frame, blob):
        # type: (dict, bytes) -> None
        """Before it is handed out: whether the warm interpreter still waits, and how much memory waiting takes."""
        processes.reap()
        used = sum(processes.used_bytes(folder)[0] for folder in processes.writable_tmpfs())
        warm = self.zygote is not None and self.zygote.pid in processes.running(set())
        self.send({"event": "looked", "warm": warm, "memory": processes.memory_bytes(mine=True) + used})

    def do_warm(self, frame, blob):
        # type: (dict, bytes) -> None
        self.send(self.warmed(frame["timeout"]))

    def warmed(self, timeout):
        # type: (float) -> dict
        if self.zygote is None:
            self.zygote = warm.Zygote(self.sources, self.config["variables"])
        answer = self.zygote.wait_warm(timeout)
        if answer.get("event") != "warm":
            self.zygote = None
        return answer

    def do_run(self, frame, blob):
        # type: (dict, bytes) -> None
        # An earlier job may have killed the one that was warm.
        answer = self.warmed(60.0)
        if answer["event"] != "warm":
            raise RuntimeError("no second warm interpreter: %s" % answer["reason"])
        session.Session(self, frame).run()

    def guard(self):
        # type: () -> Guard
        return Guard(self.config, {self.zygote.pid} if self.zygote is not None else set())

    def do_exec(self, frame, blob):
        # type: (dict, bytes) -> None
        started = time.monotonic()
        limits = self.config["limits"]
        reader, writer = os.pipe()

        def restrain():
            # type: () -> None
            identity.drop(self.user)
            # Whoever is not dumpable cannot write to its own /proc.
            processes.set_dumpable(1)
            processes.restrain(0 if self.user else limits["pids"], limits["disk"])

        try:
            child = subprocess.Popen(
                frame["argv"], stdin=subprocess.DEVNULL, stdout=writer, stderr=writer, cwd=frame["cwd"],
                env=dict(self.config["variables"], **frame["env"]), start_new_session=True, preexec_fn=restrain,
            )  # fmt: skip
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            os.close(reader)
            self.send({"event": "exec", "ended": "done", "returncode": 127, "seconds": 0.0}, str(error).encode())
            return
        finally:
            os.close(writer)
        child.returncode = 0  # Whoever reaps, reaps all: Popen shall not wait for it as well.
        output = bytearray()
        guard = self.guard()
        with selectors.DefaultSelector() as selector:
            selector.register(reader, selectors.EVENT_READ, "output")
            selector.register(self.host_in, selectors.EVENT_READ, "host")
            ended, status = self.attend(selector, guard, child.pid, started + frame["timeout"], output, frame["output"])
        guard.look()
        # Whatever the command left running goes with it; then the pipe has an end.
        gone = dict(processes.kill_all({self.zygote.pid} if self.zygote is not None else set()))
        if self.zygote is not None and (self.zygote.pid in gone or self.zygote.pid not in processes.running(set())):
            self.zygote.close()
            self.zygote = None
        for block in iter(lambda: os.read(reader, 65536), b""):
            output += block[: max(0, frame["output"] - len(output))]
        os.close(reader)
        code = None
        if ended == "done":
            code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            if code != 0 and guard.was_full:
                ended, code = "disk_full", None
        self.send(
            {
                "event": "exec", "ended": ended, "returncode": code, "seconds": time.monotonic() - started,
                "memory_kills": processes.memory_kills(),
            },
            bytes(output),
        )  # fmt: skip

    def attend(self, selector, guard, pid, deadline, output, cap):
        # type: (selectors.BaseSelector, Guard, int, float, bytearray, int) -> tuple
        """``(ended, wait status)`` of a command; the status only when it ended by itself."""
        pause = guard.interval
        while True:
            for key, _mask in selector.select(pause):
                if key.data == "host":
                    self.host_spoke()
                    continue
                block = os.read(key.fd, 65536)
                output += block[: max(0, cap - len(output))]
                if not block:
                    # Most commands end when they close their output.
                    selector.unregister(key.fd)
                    pause = 0.002
            status = dict(processes.reap()).get(pid)
            if status is not None:
                return "done", status
            broken = guard.broken()
            if broken:
                return broken, 0
            if time.monotonic() > deadline:
                return "timeout", 0
            if len(selector.get_map()) == 1:
                pause = min(guard.interval, pause * 1.5)

    def host_spoke(self):
        # type: () -> None
        """During a job the host says nothing: what comes is its end."""
        if not os.read(self.host_in, 1):
            raise frames.Closed("the host has gone")
        raise RuntimeError("a frame in the middle of a job")


class Guard:
    """Limits that no kernel object holds for us here: memory and processes where no control group does, and the
    tell-tale of a full disk. ``keep`` are processes of the machinery."""

    def __init__(self, config, keep):
        # type: (dict, set) -> None
        self.polls = config["poll_memory"]
        self.memory = config["limits"]["memory"]
        self.pids = config["limits"]["pids"]
        self.interval = 0.03 if self.polls else 0.1
        self.keep = keep
        self.folders = processes.writable_tmpfs()
        self.was_full = False
        self.used = 0
        self.checked = 0.0
        self.why = ""

    def look(self):
        # type: () -> None
        """See how full the disks are."""
        self.used = 0
        for folder in self.folders:
            taken, free = processes.used_bytes(folder)
            self.used += taken
            self.was_full = self.was_full or free < 4096

    def broken(self):
        # type: () -> str
        """Why the run must end now, or empty."""
        now = time.monotonic()
        if now - self.checked < self.interval:
            return ""
        self.checked = now
        self.look()
        if not self.polls:
            return ""
        if processes.memory_bytes() + self.used > self.memory:
            self.why = "the sandbox used more than its %d MiB of memory" % (self.memory >> 20)
            return "oom"
        if len(processes.running(self.keep)) > self.pids:
            self.why = "the sandbox had more than its %d processes" % self.pids
            return "crashed"
        return ""


def main(sources):
    # type: (bytes) -> None
    """Entered by the bootstrap, which has read ``sources``, the first frame, from descriptor 0."""
    processes.set_dumpable(0)
    # As PID 1 only signals with a handler reach us: have none, so that no descendant can interrupt.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    host_in, host_out = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    config, _blob = frames.read(host_in)
    user = config.get("drop")
    if user is not None:
        # Some runtimes give a mount the mode that its folder has in the image.
        identity.open_up("/", [WORKSPACE, "/tmp", "/dev/shm"])
    with identity.acting_as(user):
        os.makedirs(config["variables"]["HOME"], exist_ok=True)
    try:
        Supervisor(config, host_in, host_out, sources).serve()
    except (frames.Closed, BrokenPipeError):
        os._exit(0)
    except BaseException:
        import traceback

        frames.write(host_out, {"event": "broken", "reason": traceback.format_exc()[-4000:]})
        os._exit(70)
    os._exit(0)
