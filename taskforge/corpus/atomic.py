"""Writes that are either wholly there or not at all, and the lock that keeps two writers apart."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from taskforge.errors import StoreFault, UsageError

__all__ = ["is_special", "lock", "store_fault", "write_bytes", "write_folder", "write_folders"]

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2

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

    Makes the folder if it is missing. What writers that died left beside it is removed. A link is followed, and what is
    no file (a device, a pipe) is written to, never replaced.

    Raises:
        StoreFault: when the disk refuses.
    """
    try:
        if is_special(path):
            with path.open("wb", buffering=0) as stream:
                stream.write(data)
            return
        path = path.resolve()
        temporary = path.with_name(_temporary_name(path.name))
        path.parent.mkdir(parents=True, exist_ok=True)
        _sweep(path)
        try:
            _write_synced(temporary, data)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise store_fault(error, path) from error


def is_special(path: Path) -> bool:
    """Whether something is there that is neither a file nor a folder, and must not be replaced by one."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def write_folder(path: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder and its files (relative POSIX paths) so that a crash leaves the old one or the new one.

    What writers that died left beside it is removed.

    Raises:
        StoreFault: when the disk refuses; then nothing has changed.
    """
    write_folders([(path, files)])


def write_folders(folders: Sequence[tuple[Path, Mapping[str, bytes]]]) -> None:
    """Write several folders that only make sense together.

    All are written under hidden names before the first is moved into place. Where there are several, the last is the
    one that others are found by: it goes out of sight first and comes last, so that a crash between the moves leaves
    none of them to be found, never new ones beside old ones.

    Raises:
        StoreFault: when the disk refuses; before the moves, nothing has changed.
    """
    staged: list[tuple[Path, Path]] = []
    path = folders[0][0]
    try:
        try:
            for path, files in folders:
                temporary = path.with_name(_temporary_name(path.name))
                staged.append((temporary, path))
                path.parent.mkdir(parents=True, exist_ok=True)
                _sweep(path)
                _fill(temporary, files)
            if len(staged) > 1 and path.is_dir():
                hidden = path.with_name(_temporary_name(path.name))
                staged.append((hidden, path))
                path.rename(hidden)
                _sync_folder(path.parent)
            for temporary, path in staged[: len(folders)]:
                _move_into_place(temporary, path)
                _sync_folder(path.parent)
        finally:
            # After an exchange, the old folder lies under the hidden name.
            for temporary, _path in staged:
                shutil.rmtree(temporary, ignore_errors=True)
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
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            raise store_fault(error, path) from error
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


def _fill(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir()
    made = {folder}
    for name, data in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        made.update(parent for parent in target.parents if parent.is_relative_to(folder))
        _write_synced(target, data)
    for one in made:
        _sync_folder(one)


def _move_into_place(temporary: Path, path: Path) -> None:
    if not path.is_dir():
        temporary.rename(path)
    elif not _exchange(temporary, path):
        # Where the disk cannot swap two names, there is a moment without the folder; the next write fills it again.
        old = path.with_name(_temporary_name(path.name))
        path.rename(old)
        temporary.rename(path)
        shutil.rmtree(old, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two names in one step; False where the system or its disk cannot."""
    import ctypes

    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    if renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in {errno.ENOSYS, errno.EINVAL, errno.EXDEV, errno.EPERM}:
        return False
    raise OSError(number, os.strerror(number), str(other))


def _sweep(path: Path) -> None:
    for left in path.parent.glob(f".{path.name}.*.tmp"):
        pid = left.name.split(".")[-3]
        if pid.isdigit() and int(pid) != os.getpid() and not Path(f"/proc/{pid}").exists():
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)
