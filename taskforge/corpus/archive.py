"""Trees as ``.tar.zst``: the same tree is the same bytes, and damage is an error, never a shorter tree."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Mapping

import zstandard

from taskforge.errors import CorpusError
from taskforge.model import Entry, Tree

__all__ = ["pack", "unpack"]

_MODES = {"file": 0o644, "exec": 0o755, "link": 0o777}
_GIB = 1024**3
#: Headers and padding that tar adds to the content of a large tree (half a million files).
_OVERHEAD = _GIB


def pack(tree: Mapping[str, Entry]) -> bytes:
    """The tree as a tar archive, compressed; sorted, without times or owners."""
    out = io.BytesIO()
    with tarfile.open(
        fileobj=out, mode="w:", format=tarfile.GNU_FORMAT, encoding="utf-8", errors="surrogateescape"
    ) as tar:
        for path in sorted(tree):
            entry = tree[path]
            member = tarfile.TarInfo(path)
            member.mode = _MODES[entry.kind]
            if entry.kind == "link":
                member.type = tarfile.SYMTYPE
                member.linkname = entry.data.decode("utf-8", "surrogateescape")
                tar.addfile(member)
            else:
                member.size = len(entry.data)
                tar.addfile(member, io.BytesIO(entry.data))
    # threads=0 pins the single-threaded encoder: the multi-threaded one cuts its input into other frames.
    return zstandard.ZstdCompressor(level=19, threads=0, write_checksum=True).compress(out.getvalue())


def unpack(data: bytes, *, max_bytes: int = 2 * _GIB) -> Tree:
    """The tree in an archive that :func:`pack` made.

    Args:
        data: the archive.
        max_bytes: content that is accepted at most, uncompressed.

    Raises:
        CorpusError: when it is damaged, holds too much, or anything but regular files, symbolic links and folders.
    """
    raw = _decompress(data, max_bytes)
    entries: dict[str, Entry] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(raw), mode="r:", encoding="utf-8", errors="surrogateescape") as tar:
            for member in tar:
                if member.isdir():
                    continue
                if member.name in entries:
                    raise CorpusError(f"the archive holds {member.name!r} twice")
                entries[member.name] = _entry(tar, member)
            # tarfile takes a broken header for the end of the archive.
            if raw[tar.offset :].strip(b"\0"):
                raise CorpusError("the archive is damaged: a broken header")
        if sum(len(entry.data) for entry in entries.values()) > max_bytes:
            raise _too_large(max_bytes)
        _check_parents(entries)
        return Tree(entries)
    except (tarfile.TarError, ValueError, EOFError, OverflowError) as error:
        raise CorpusError(f"the archive is damaged: {error}") from None


def _decompress(data: bytes, max_bytes: int) -> bytes:
    try:
        size = zstandard.frame_content_size(data)
        if size < 0:
            raise CorpusError("the archive does not say how large it is")
        if size > max_bytes + _OVERHEAD:
            raise _too_large(max_bytes)
        return zstandard.ZstdDecompressor().decompress(data, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise CorpusError(f"the archive is damaged: {error}") from None
    except MemoryError:
        raise _too_large(max_bytes) from None


def _too_large(max_bytes: int) -> CorpusError:
    return CorpusError(f"the archive holds more than {max_bytes:,} bytes")


def _entry(tar: tarfile.TarFile, member: tarfile.TarInfo) -> Entry:
    if member.issym():
        return Entry(member.linkname.encode("utf-8", "surrogateescape"), "link")
    if member.type not in {tarfile.REGTYPE, tarfile.AREGTYPE} or member.issparse():
        raise CorpusError(f"the archive holds {member.name!r}, which is no regular file, link or folder")
    stream = tar.extractfile(member)
    content = stream.read() if stream is not None else b""
    if len(content) != member.size:
        raise CorpusError(f"the archive is damaged: {member.name!r} is cut off")
    return Entry(content, "exec" if member.mode & 0o100 else "file")


def _check_parents(paths: Iterable[str]) -> None:
    known = set(paths)
    for path in known:
        parts = path.split("/")
        for depth in range(1, len(parts)):
            parent = "/".join(parts[:depth])
            if parent in known:
                raise CorpusError(f"the archive holds {parent!r} both as a file and as the folder of {path!r}")
