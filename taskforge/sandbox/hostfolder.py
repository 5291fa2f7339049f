"""The folder of this process on the host: trees that sandboxes bind read-only. Removed at exit; start-up removes those
that a killed process left behind, this user's only."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import tempfile
import threading
from pathlib import Path

from taskforge.model import Tree

__all__ = ["HostFolder"]

log = logging.getLogger("taskforge.sandbox")

_LABEL = "taskforge-box-"


class HostFolder:
    """Unpacked trees by digest, shared by every sandbox of this process."""

    def __init__(self) -> None:
        base = Path(tempfile.gettempdir())
        sweep(base)
        self.path = Path(tempfile.mkdtemp(prefix=f"{_LABEL}{os.getpid()}-", dir=base))
        self._mutex = threading.Lock()
        self._made: set[str] = set()
        atexit.register(self.remove)

    def tree(self, tree: Tree) -> Path:
        """The folder that holds exactly ``tree``.

        Raises:
            OSError: when it cannot be written.
        """
        target = self.path / tree.digest
        with self._mutex:
            if tree.digest in self._made:
                return target
            target.mkdir(exist_ok=True)
            for path, entry in tree.items():
                file = target / path
                file.parent.mkdir(parents=True, exist_ok=True)
                if entry.kind == "link":
                    os.symlink(entry.data, os.fsencode(file))
                    continue
                file.write_bytes(entry.data)
                file.chmod(0o755 if entry.kind == "exec" else 0o644)
            self._made.add(tree.digest)
        return target

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def sweep(base: Path) -> list[Path]:
    """Remove folders of processes that are gone, of this user only. Returns what was removed."""
    gone = []
    for folder in base.glob(_LABEL + "*"):
        pid = folder.name.removeprefix(_LABEL).split("-")[0]
        try:
            mine = folder.stat().st_uid == os.getuid()
        except FileNotFoundError:
            continue
        if mine and pid.isdigit() and not Path("/proc", pid).exists():
            log.info("removing %s, left behind by a process that is gone", folder)
            shutil.rmtree(folder, ignore_errors=True)
            gone.append(folder)
    return gone
