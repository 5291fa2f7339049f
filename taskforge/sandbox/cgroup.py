"""Memory and process limits by control group, v1 or v2, where this user may make one; else the supervisor polls."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import time
import uuid
from pathlib import Path

__all__ = ["Cgroup", "available", "create", "sweep"]

log = logging.getLogger("taskforge.sandbox")

ROOT = Path("/sys/fs/cgroup")
_LABEL = "taskforge-"


class Cgroup:
    """The folders of one sandbox, one per v1 controller or a single v2 one."""

    def __init__(self, folders: list[Path], *, v2: bool) -> None:
        self.folders = folders
        self.v2 = v2

    @property
    def procs(self) -> list[Path]:
        """Files to which a process writes its id to enter."""
        return [folder / "cgroup.procs" for folder in self.folders]

    def kills(self) -> int:
        """How many processes the kernel killed here for want of memory."""
        for folder in self.folders:
            for name in ("memory.events", "memory.oom_control"):
                with contextlib.suppress(FileNotFoundError):
                    for line in (folder / name).read_text().splitlines():
                        if line.startswith("oom_kill "):
                            return int(line.split()[1])
        return 0

    def remove(self, seconds: float = 5.0) -> None:
        """Remove the folders; the kernel needs a moment after the last process has gone."""
        deadline = time.monotonic() + seconds
        for folder in self.folders:
            while True:
                try:
                    folder.rmdir()
                except FileNotFoundError:
                    break
                except OSError as error:
                    if error.errno != errno.EBUSY or time.monotonic() > deadline:
                        log.warning("cannot remove %s: %s", folder, error)
                        break
                    time.sleep(0.01)
                else:
                    break


def _own() -> dict[str, str]:
    """Controller -> path of this process's own group; the empty controller is v2."""
    found: dict[str, str] = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _number, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            found[controller] = path
    return found


def _parents() -> tuple[list[Path], bool] | None:
    try:
        own = _own()
    except OSError:
        return None
    unified = ROOT / own[""].lstrip("/") if "" in own else None
    if unified is not None and (ROOT / "cgroup.controllers").exists():
        enabled = (unified / "cgroup.subtree_control").read_text().split() if unified.is_dir() else []
        if {"memory", "pids"} <= set(enabled) and os.access(unified, os.W_OK):
            return [unified], True
        return None
    folders = []
    for controller in ("memory", "pids"):
        if controller not in own:
            return None
        folder = ROOT / controller / own[controller].lstrip("/")
        if not os.access(folder, os.W_OK) or not (folder / "cgroup.procs").exists():
            return None
        folders.append(folder)
    return folders, False


def available() -> bool:
    """Whether this user can limit memory and processes by control group here."""
    return _parents() is not None


def sweep() -> list[Path]:
    """Remove the empty groups of processes that are gone. Returns what was removed."""
    found = _parents()
    gone = []
    for parent in found[0] if found else []:
        for folder in parent.glob(_LABEL + "*"):
            pid = folder.name.removeprefix(_LABEL).split("-")[0]
            if pid.isdigit() and not Path("/proc", pid).exists():
                # One that still holds a process stays.
                Cgroup([folder], v2=False).remove(0.5)
                gone.append(folder)
    return gone


def create(*, memory: int, pids: int) -> Cgroup | None:
    """A new group with both limits (bytes, count), or None when this user cannot make one."""
    found = _parents()
    if found is None:
        return None
    parents, v2 = found
    name = f"{_LABEL}{os.getpid()}-{uuid.uuid4().hex[:12]}"
    made = Cgroup([parent / name for parent in parents], v2=v2)
    values = (
        {"memory.max": memory, "memory.swap.max": 0, "pids.max": pids}
        if v2
        else {"memory.limit_in_bytes": memory, "memory.memsw.limit_in_bytes": memory, "pids.max": pids}
    )
    try:
        for folder in made.folders:
            folder.mkdir()
            for file, value in values.items():
                if (folder / file).exists():
                    (folder / file).write_text(str(value))
    except OSError as error:
        log.warning("no control group for a sandbox (%s): its supervisor polls instead", error)
        made.remove()
        return None
    return made
