"""The warm interpreter. It imports pytest, waits, and forks one worker for each command of the supervisor.

It never imports anything of the workspace, so that all it holds was read before submitted code existed there.
Descriptors: 3 commands in, 4 answers out, 5 events of workers. 0 is /dev/null, 1 and 2 a pipe to the supervisor.
"""
# mypy: disallow-any-generics=False, warn-unreachable=False, warn-return-any=False

import contextlib
import os
import signal
import sys

from . import frames, identity, processes

COMMANDS, ANSWERS, EVENTS = 3, 4, 5


def warm():
    # type: () -> list
    import importlib

    import pytest

    del pytest
    from _pytest.config import default_plugins

    for name in default_plugins:
        importlib.import_module("_pytest." + name)
    for name in ("json", "tempfile", "unittest", "traceback", "inspect", "random", "doctest", "asyncio"):
        importlib.import_module(name)
    return sorted(
        name for name, module in sys.modules.items() if str(getattr(module, "__file__", "")).startswith("/workspace/")
    )


def main():
    # type: () -> None
    processes.set_dumpable(0)
    for fd in (COMMANDS, ANSWERS, EVENTS):
        os.set_inheritable(fd, False)
    sys.path[:] = [entry for entry in sys.path if entry]
    strangers = warm()
    frames.write(ANSWERS, {"event": "warm", "strangers": strangers})
    while True:
        try:
            job, _blob = frames.read(COMMANDS)
        except frames.Closed:
            return
        child = os.fork()
        if child == 0:
            work(job)
        _pid, status, used = os.wait4(child, 0)
        frames.write(ANSWERS, {"event": "exit", "status": status, "cpu": used.ru_utime + used.ru_stime})


def work(job):
    # type: (dict) -> None
    """Become the tests' process. Never returns."""
    status = 70
    try:
        os.close(COMMANDS)
        os.close(ANSWERS)
        os.setsid()
        identity.drop(job["drop"])
        # The child is ordinary again: tests may look at their own /proc/self.
        processes.set_dumpable(1)
        processes.restrain(0 if job["drop"] else job["pids"], job["disk"])
        # A write past RLIMIT_FSIZE shall be an error in the test, not the end of the process.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        from . import plugin

        status = plugin.run(job, EVENTS)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        # A test may have closed or replaced either: that must not keep this process from its end.
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(status)
