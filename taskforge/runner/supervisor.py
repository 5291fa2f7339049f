"""PID 1 of a sandbox. It owns the protocol, the tree, the limits and the clock; submitted code runs in its descendants.

Frames from the host: ``lay``, ``warm``, ``run``, ``exec``, ``read``. When the host goes away, so does everything here.
"""

import json
import os
import selectors
import signal
import subprocess
import sys
import time

from . import files, frames, processes, session

WORKSPACE = "/workspace"
POLL = 0.1


class Supervisor:
    """State of one sandbox. ``config``: limits, protected paths, variables, whether to poll memory, sources."""

    def __init__(self, config, host_in, host_out, sources):
        # type: (dict, int, int, bytes) -> None
        self.config = config
        self.host_in = host_in
        self.host_out = host_out
        self.sources = sources
        self.zygote = None  # type: session.Zygote

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
            files.lay(WORKSPACE, frame["entries"], blob)
        except OSError as error:
            self.send({"event": "refused", "errno": error.errno, "reason": str(error)})
        else:
            self.send({"event": "laid"})

    def do_read(self, frame, blob):
        # type: (dict, bytes) -> None
        try:
            entries, data = files.collect(frame["path"], frame["limit"])
        except (OSError, ValueError) as error:
            self.send({"event": "refused", "errno": 0, "reason": str(error)})
        else:
            self.send({"event": "tree", "entries": entries}, data)

    def do_warm(self, frame, blob):
        # type: (dict, bytes) -> None
        if self.zygote is None:
            self.zygote = session.Zygote(self.sources, self.config["variables"])
        answer = self.zygote.wait_warm(frame["timeout"])
        if answer.get("event") != "warm":
            self.zygote = None
        self.send(answer)

    def do_run(self, frame, blob):
        # type: (dict, bytes) -> None
        session.Session(self, frame).run()

    def do_exec(self, frame, blob):
        # type: (dict, bytes) -> None
        started = time.monotonic()
        output = bytearray()
        cap = frame["output"]
        reader, writer = os.pipe()
        try:
            child = subprocess.Popen(
                frame["argv"], stdin=subprocess.DEVNULL, stdout=writer, stderr=writer, cwd=frame["cwd"],
                env=dict(self.config["variables"], **frame["env"]), start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            os.close(writer)
            os.close(reader)
            self.send({"event": "exec", "ended": "done", "returncode": 127, "seconds": 0.0}, str(error).encode())
            return
        os.close(writer)
        ended = "done"
        guard = Guard(self.config)
        with selectors.DefaultSelector() as selector:
            selector.register(reader, selectors.EVENT_READ, "output")
            selector.register(self.host_in, selectors.EVENT_READ, "host")
            while child.poll() is None:
                for key, _mask in selector.select(POLL):
                    if key.data == "host":
                        self.host_spoke()
                        continue
                    block = os.read(reader, 65536)
                    output += block[: max(0, cap - len(output))]
                    if not block:
                        selector.unregister(reader)
                broken = guard.broken()
                if broken or time.monotonic() - started > frame["timeout"]:
                    ended = broken or "timeout"
                    break
        # Whatever the command left running goes with it; then the pipe has an end.
        keep = {self.zygote.pid} if self.zygote is not None else set()
        reaped = dict(processes.kill_all(keep))
        returncode = child.returncode
        if returncode is None and ended == "done":
            returncode = os.WEXITSTATUS(reaped.get(child.pid, 0))
        for block in iter(lambda: os.read(reader, 65536), b""):
            output += block[: max(0, cap - len(output))]
        os.close(reader)
        child.returncode = 0 if returncode is None else returncode
        seconds = time.monotonic() - started
        code = None if ended != "done" else returncode
        self.send({"event": "exec", "ended": ended, "returncode": code, "seconds": seconds}, bytes(output))

    def host_spoke(self):
        # type: () -> None
        """During a job the host says nothing: what comes is its end."""
        if not os.read(self.host_in, 1):
            raise frames.Closed("the host has gone")
        raise RuntimeError("a frame in the middle of a job")


class Guard:
    """Limits that no kernel object holds for us here: memory where no cgroup does, and the tell-tale of a full disk."""

    def __init__(self, config):
        # type: (dict) -> None
        self.memory = config["limits"]["memory"] if config["poll_memory"] else 0
        self.folders = (WORKSPACE, "/tmp")
        self.was_full = False
        self.checked = 0.0

    def broken(self):
        # type: () -> str
        now = time.monotonic()
        if now - self.checked < POLL:
            return ""
        self.checked = now
        used = 0
        for folder in self.folders:
            taken, free = processes.used_bytes(folder)
            used += taken
            self.was_full = self.was_full or free < 4096
        if self.memory and processes.memory_bytes() + used > self.memory:
            return "oom"
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
    for folder in (config["variables"]["HOME"],):
        os.makedirs(folder, exist_ok=True)
    try:
        Supervisor(config, host_in, host_out, sources).serve()
    except (frames.Closed, BrokenPipeError):
        os._exit(0)
    except BaseException:
        import traceback

        frames.write(host_out, {"event": "broken", "reason": traceback.format_exc()[-4000:]})
        os._exit(70)
    os._exit(0)


def sources_of(blob):
    # type: (bytes) -> dict
    found = json.loads(blob.decode("ascii"))  # type: dict
    return found
