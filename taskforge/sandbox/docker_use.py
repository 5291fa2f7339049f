"""Which images the processes of this host use, and when each was used last: told by one file an image."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

__all__ = ["Use", "is_locked"]


class Use:
    """Files in ``folder``, named by image id: locked by whoever uses the image, touched at each use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._held: dict[str, int] = {}
        self._mutex = threading.Lock()

    def begin(self, image: str) -> None:
        """This process uses it from now on, until it ends, however it does."""
        with self._mutex:
            held = self._held.get(image)
            if held is None:
                self.folder.mkdir(parents=True, exist_ok=True)
                held = os.open(self._file(image), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
                fcntl.flock(held, fcntl.LOCK_SH)
                self._held[image] = held
            os.utime(held)

    def end(self, image: str) -> None:
        """It is gone."""
        with self._mutex:
            held = self._held.pop(image, None)
            if held is not None:
                os.close(held)

    def leased(self, image: str) -> bool:
        """Whether some process of this host uses it, this one included."""
        return is_locked(self._file(image))

    def last(self, image: str) -> float | None:
        """Seconds since the epoch; None when this host never used it."""
        try:
            return self._file(image).stat().st_mtime
        except FileNotFoundError:
            return None

    def _file(self, image: str) -> Path:
        return self.folder / image.removeprefix("sha256:")


def is_locked(path: Path) -> bool:
    """Whether some process holds a lock on a file; one that is missing is held by nobody."""
    try:
        tried = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(tried, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(tried)
    return False
