"""Processes seen from PID 1: who is alive, what they use, how to end them."""

import ctypes
import os
import signal
import time

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_DUMPABLE = 4
_PAGE = os.sysconf("SC_PAGE_SIZE")


def set_dumpable(value):
    # type: (int) -> None
    """0 keeps every other process of the same user from opening this one's memory and descriptors."""
    if _LIBC.prctl(_PR_SET_DUMPABLE, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_DUMPABLE)")


def others(keep):
    # type: (set) -> list
    mine = os.getpid()
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != mine and int(name) not in keep]


def reap():
    # type: () -> list
    ended = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended.append((pid, status))


def kill_all(keep, seconds=2.0):
    # type: (set, float) -> list
    """End every process but PID 1 and ``keep``. Returns what was reaped.

    A fork bomb may outrun a walk over /proc: after ``seconds`` the kernel's own broadcast ends all, ``keep`` too.
    """
    ended = []
    deadline = time.monotonic() + seconds
    while True:
        alive = [pid for pid in others(keep) if _state(pid) not in "ZX"]
        ended += reap()
        if not alive:
            return ended
        for pid in alive:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if time.monotonic() > deadline:
            os.kill(-1, signal.SIGKILL)
            deadline = time.monotonic() + seconds
        time.sleep(0.002)


def _state(pid):
    # type: (int) -> str
    try:
        with open("/proc/%d/stat" % pid, "rb") as stream:
            return stream.read().rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError):
        return "X"


def memory_bytes():
    # type: () -> int
    """Private resident pages of every process, plus the largest shared set: a forked worker is not counted twice."""
    private = shared = 0
    for pid in others(set()):
        try:
            with open("/proc/%d/statm" % pid, "rb") as stream:
                fields = stream.read().split()
        except OSError:
            continue
        private += (int(fields[1]) - int(fields[2])) * _PAGE
        shared = max(shared, int(fields[2]) * _PAGE)
    return private + shared


def used_bytes(folder):
    # type: (str) -> tuple
    """``(used, free)`` of the file system that holds ``folder``."""
    info = os.statvfs(folder)
    return (info.f_blocks - info.f_bfree) * info.f_frsize, info.f_bavail * info.f_frsize
