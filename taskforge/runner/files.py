"""Trees as frames: write entries into a folder, read a folder back."""
# mypy: disallow-any-generics=False, warn-unreachable=False, warn-return-any=False

import os
import shutil
import stat


def _parents_are_folders(root, path):
    # type: (str, str) -> None
    """Make the parents of ``path``; whatever stands in the way, a link above all, is replaced, never followed."""
    here = root
    for part in path.split("/")[:-1]:
        here = os.path.join(here, part)
        try:
            mode = os.lstat(here).st_mode
        except FileNotFoundError:
            os.mkdir(here, 0o755)
            continue
        if not stat.S_ISDIR(mode):
            os.unlink(here)
            os.mkdir(here, 0o755)


def _remove(target):
    # type: (str) -> None
    try:
        mode = os.lstat(target).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return
    if stat.S_ISDIR(mode):
        shutil.rmtree(target)
    else:
        os.unlink(target)


def lay(root, entries, blob):
    # type: (str, list, bytes) -> None
    """``entries`` are ``[path, kind, size]``; kind ``absent`` deletes. Contents follow one another in ``blob``."""
    offset = 0
    view = memoryview(blob)
    for path, kind, size in entries:
        data = view[offset : offset + size]
        offset += size
        target = os.path.join(root, path)
        if kind == "absent":
            _remove(target)
            continue
        _parents_are_folders(root, path)
        _remove(target)
        if kind == "link":
            os.symlink(bytes(data), os.fsencode(target))
            continue
        mode = 0o755 if kind == "exec" else 0o644
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        try:
            while data:
                data = data[os.write(fd, data) :]
        finally:
            os.close(fd)


def collect(root, limit):
    # type: (str, int) -> tuple
    """``(entries, parts)`` of everything below ``root``, at most ``limit`` bytes of it.

    Raises:
        OSError, ValueError, RecursionError: rather than leave out what cannot be read.
    """
    entries = []
    parts = []
    total = 0
    for folder, folders, names in os.walk(root, onerror=_raise):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in sorted(names) + links:
            full = os.path.join(folder, name)
            info = os.lstat(full)
            if stat.S_ISLNK(info.st_mode):
                kind, data = "link", os.fsencode(os.readlink(full))
            elif stat.S_ISREG(info.st_mode):
                if total + info.st_size > limit:
                    raise ValueError("more than %d bytes below %s" % (limit, root))
                with open(full, "rb") as stream:
                    data = stream.read()
                kind = "exec" if info.st_mode & 0o100 else "file"
            else:
                continue
            total += len(data)
            entries.append([os.path.relpath(full, root), kind, len(data)])
            parts.append(data)
    return entries, parts


def _raise(error):
    # type: (OSError) -> None
    raise error
