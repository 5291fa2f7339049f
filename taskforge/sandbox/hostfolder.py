"""The folder of this process on the host: trees that sandboxes bind read-only. Removed at exit; start-up removes those
that a killed process left behind, this user's only."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import logging
import os
import shutil
import tempfile
import threading
from pathlib import Path

from taskforge.model import Tree

__all__ = ["HostFolder", "sweep"]

log = logging.getLogger("taskforge.sandbox")

_LABEL = "taskforge-box-"
_LOCK = "lock"
#: Trees that nothing uses and that are kept for the next sandbox.
_KEPT = 32


class HostFolder:
    """Unpacked trees by digest, shared by every sandbox of this process."""

    def __init__(self) -> None:
        base = Path(tempfile.gettempdir())
        sweep(base)
        self._owner = os.getpid()
        self.path = Path(tempfile.mkdtemp(prefix=f"{_LABEL}{self._owner}-", dir=base))
        # Held as long as this process lives, which a number in a name cannot tell: numbers are used again.
        self._lock = os.open(self.path / _LOCK, os.O_WRONLY | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._mutex = threading.Lock()
        self._users: dict[str, int] = {}
        atexit.register(self.remove)

    def tree(self, tree: Tree) -> Path:
        """The folder that holds exactly ``tree``, until :meth:`release` was called as often as this.

        Raises:
            OSError: when it cannot be written.
        """
        target = self.path / tree.digest
        with self._mutex:
            if tree.digest not in self._users:
                _write(tree, target)
                self._users[tree.digest] = 0
            self._users[tree.digest] += 1
            # The last one used is the last one to go.
            self._users[tree.digest] = self._users.pop(tree.digest)
        return target

    def release(self, tree: Tree) -> None:
        """One user less. What nobody uses is kept for a while, since the same tests are bound again and again."""
        with self._mutex:
            self._users[tree.digest] -= 1
            idle = [digest for digest, users in self._users.items() if users == 0]
            for digest in idle[:-_KEPT]:
                del self._users[digest]
                shutil.rmtree(self.path / digest, ignore_errors=True)

    def remove(self) -> None:
        """Remove it all, once. In a forked child it is the parent's, and stays."""
        if os.getpid() != self._owner or self._lock < 0:
            return
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)
        self._lock = -1
        atexit.unregister(self.remove)


def _write(tree: Tree, target: Path) -> None:
    partial = Path(tempfile.mkdtemp(dir=target.parent, prefix="partial-"))
    try:
        for path, entry in tree.items():
            file = partial / path
            file.parent.mkdir(parents=True, exist_ok=True)
            if entry.kind == "link":
                os.symlink(entry.data, os.fsencode(file))  # noqa: PTH211 - bytes
                continue
            file.write_bytes(entry.data)
            file.chmod(0o755 if entry.kind == "exec" else 0o644)
        partial.chmod(0o755)
        partial.rename(target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def sweep(base: Path) -> list[Path]:
    """Remove folders of processes that are gone, of this user only. Returns what was removed."""
    gone = []
    for folder in base.glob(_LABEL + "*"):
        with contextlib.suppress(FileNotFoundError, PermissionError):
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            if _held(folder):
                continue
            log.info("removing %s, left behind by a process that is gone", folder)
            shutil.rmtree(folder, ignore_errors=True)
            gone.append(folder)
    return gone


def _held(folder: Path) -> bool:
    """Whether its owner lives. One without a lock is being made right now, unless the process in its name is gone."""
    try:
        fd = os.open(folder / _LOCK, os.O_WRONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        pid = folder.name.removeprefix(_LABEL).split("-")[0]
        return not pid.isdigit() or Path("/proc", pid).exists()
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
