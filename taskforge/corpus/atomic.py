"""Writes that are either wholly there or not at all, and the lock that keeps two writers apart."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from taskforge.errors import StoreFault, UsageError

__all__ = ["lock", "store_fault", "write_bytes", "write_folder"]

_FULL = ("disk_full", "free some space there, or choose another disk; then run the same command again")
_DENIED = ("permission", "run as the owner of that folder, or choose one that you may write to")
_KINDS = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: ("file_too_large", "raise the limit on the size of files (ulimit -f)"),
    errno.EROFS: ("read_only", "that disk is mounted read-only: choose another folder, or remount it"),
    errno.EACCES: _DENIED,
    errno.EPERM: _DENIED,
}


def store_fault(error: OSError, path: Path) -> StoreFault:
    """The fault for an error of the disk under ``path``; its kind is ``disk_full``, ``read_only``, ``permission``, …"""
    kind, hint = _KINDS.get(error.errno or 0, ("disk", "check the disk and the mount; then run the same command again"))
    reason = error.strerror or str(error)
    return StoreFault(f"cannot write {path}: {reason}", kind=kind, hint=hint, retryable=kind in {"disk_full", "disk"})


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file so that a reader, or a crash at any moment, sees the old content or the new one, whole.

    Makes the folder if it is missing.

    Raises:
        StoreFault: when the disk refuses.
    """
    temporary = path.with_name(_temporary_name(path.name))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            _write_synced(temporary, data)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise store_fault(error, path) from error


def write_folder(path: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder and its files (relative POSIX paths) under a hidden name, then rename it into place.

    An existing folder is replaced. What writers that died left beside it is removed.

    Raises:
        StoreFault: when the disk refuses.
    """
    temporary = path.with_name(_temporary_name(path.name))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _sweep(path)
        try:
            folders = {temporary}
            for name, data in files.items():
                target = temporary / name
                target.parent.mkdir(parents=True, exist_ok=True)
                folders.add(target.parent)
                _write_synced(target, data)
            temporary.mkdir(exist_ok=True)
            for folder in folders:
                _sync_folder(folder)
            _move_into_place(temporary, path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise store_fault(error, path) from error


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold ``path`` (a file, made if missing) for this process, until the end of the block or of the process.

    Raises:
        UsageError: when another process, or another block of this one, holds it.
        StoreFault: when the file cannot be made or the disk knows no locks.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise store_fault(error, path) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            raise UsageError(
                f"{path.parent} is in use by another taskforge (pid {holder})",
                hint="wait for it to end, or stop it; what it has finished is kept",
            ) from None
        except OSError as error:
            raise store_fault(error, path) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        # The file stays: removing it would let a third process lock a new one while a second waits on the old.
        os.close(descriptor)


def _temporary_name(name: str) -> str:
    return f".{name}.{os.getpid()}.{secrets.token_hex(4)}.tmp"


def _write_synced(path: Path, data: bytes) -> None:
    with path.open("xb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _move_into_place(temporary: Path, path: Path) -> None:
    if path.is_dir():
        old = path.with_name(_temporary_name(path.name))
        path.rename(old)
        temporary.rename(path)
        shutil.rmtree(old, ignore_errors=True)
    else:
        temporary.rename(path)


def _sweep(path: Path) -> None:
    for left in path.parent.glob(f".{path.name}.*.tmp"):
        pid = left.name.split(".")[-3]
        if pid.isdigit() and int(pid) != os.getpid() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(left, ignore_errors=True)
