"""Processes seen from PID 1: who is alive, what they use, how to end them."""
# mypy: disallow-any-generics=False, warn-unreachable=False, warn-return-any=False

import ctypes
import os
import resource
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


def restrain(pids, disk):
    # type: (int, int) -> None
    """In a new child, before anything of a submission runs: its resource limits, and first to go when memory ends.

    ``pids`` binds where the kernel counts this user's processes; root's it counts nowhere, a control group or the guard
    then holds the limit. 0 sets none: where sandboxes share a user, they would count as one. ``disk`` is bytes of one
    file.
    """
    for which, amount in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, disk),
        (resource.RLIMIT_NPROC, pids),
        (resource.RLIMIT_NOFILE, 4096),
    ):
        if which == resource.RLIMIT_NPROC and not pids:
            continue
        hard = resource.getrlimit(which)[1]
        amount = amount if hard == resource.RLIM_INFINITY else min(amount, hard)
        resource.setrlimit(which, (amount, amount))
    with open("/proc/self/oom_score_adj", "w") as stream:
        stream.write("900")


def others(keep):
    # type: (set) -> list
    mine = os.getpid()
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != mine and int(name) not in keep]


def running(keep):
    # type: (set) -> list
    """Those of the others that have not ended, whether waited for or not."""
    return [pid for pid in others(keep) if _state(pid) not in "ZX"]


def reap():
    # type: () -> list
    """``(pid, status)`` of every child that has ended, adopted orphans too: the one place that waits for any."""
    ended = []  # type: list
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
        alive = running(keep)
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
    """One letter as in ``/proc/<pid>/stat``; X for what is gone."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as stream:
            return stream.read().rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError):
        return "X"


def memory_bytes(mine=False):
    # type: (bool) -> int
    """Private resident pages of every process, plus the largest shared set: a forked worker is not counted twice.
    ``mine`` counts this process too."""
    private = shared = 0
    for pid in others(set()) + ([os.getpid()] if mine else []):
        try:
            with open("/proc/%d/statm" % pid, "rb") as stream:
                fields = stream.read().split()
        except OSError:
            continue
        private += (int(fields[1]) - int(fields[2])) * _PAGE
        shared = max(shared, int(fields[2]) * _PAGE)
    return private + shared


def memory_kills():
    # type: () -> int
    """How many processes the kernel killed here for want of memory, where this sandbox sees its own control group."""
    for name in ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        try:
            with open(name, "rb") as stream:
                for line in stream:
                    if line.startswith(b"oom_kill "):
                        return int(line.split()[1])
        except OSError:
            continue
    return 0


def writable_tmpfs():
    # type: () -> list
    """Mount points whose files are memory: each is sized, together they are not."""
    found = []
    with open("/proc/self/mounts", "rb") as stream:
        for line in stream:
            _source, place, kind, options = line.split(b" ")[:4]
            if kind == b"tmpfs" and b"rw" in options.split(b","):
                found.append(place.decode("unicode_escape").encode("latin-1"))
    return found


def used_bytes(folder):
    # type: (str) -> tuple
    """``(used, free)`` of the file system that holds ``folder``."""
    info = os.statvfs(folder)
    return (info.f_blocks - info.f_bfree) * info.f_frsize, info.f_bavail * info.f_frsize


def ending(status):
    # type: (int) -> str
    """A wait status in words."""
    if not os.WIFSIGNALED(status):
        return "ended with status %d" % os.WEXITSTATUS(status)
    number = os.WTERMSIG(status)
    try:
        return "was killed by %s" % signal.Signals(number).name
    except ValueError:
        # A real-time signal has no name of its own.
        return "was killed by signal %d" % number
