"""Archives, unpacked in memory and refused where unpacking would not be safe."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import zstandard

from taskforge.errors import SourceError
from taskforge.model import Entry
from taskforge.model.tree import EntryKind

__all__ = ["MAX_BYTES", "MAX_FILES", "sha256_of", "stem", "too_large", "unpack"]

MAX_BYTES = 512 * 1024 * 1024
MAX_FILES = 100_000

_SUFFIXES = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst", ".tar", ".zip")
_DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    zstandard.ZstdError,
    gzip.BadGzipFile,
    EOFError,
    # bz2 says OSError of bad data, zipfile NotImplementedError of unknown methods and RuntimeError of encryption.
    OSError,
    NotImplementedError,
    RuntimeError,
)


def stem(filename: str) -> str:
    """The file name without its archive suffix."""
    return next((filename.removesuffix(end) for end in _SUFFIXES if filename.endswith(end)), filename)


def sha256_of(path: Path) -> str:
    """SHA-256 hex of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def too_large(name: str) -> SourceError:
    """The error for a source past the gate."""
    return SourceError(
        f"{name} is too large: more than {MAX_BYTES // 2**20} MiB or {MAX_FILES} files when unpacked",
        hint="give an archive or folder of the source alone, without data or vendored files",
    )


def unpack(path: Path, *, name: str, max_bytes: int = MAX_BYTES, max_files: int = MAX_FILES) -> dict[str, Entry]:
    """Read a tar or zip archive by path; its single top folder, where there is one, is stripped.

    Anything in a folder called ``.git`` is left out.

    Raises:
        SourceError: when it is damaged, larger than the gate, or has a member that is absolute, leaves the tree, lies
            below a link, or is neither file, folder nor link; the message names the archive and the member.
    """
    members = _Members(name, max_bytes, max_files)
    with path.open("rb") as stream:
        try:
            if name.endswith(".zip"):
                _read_zip(stream, members)
            else:
                _read_tar(_decompress(stream, name, members), members)
        except _DAMAGE as error:
            detail = str(error) or type(error).__name__
            raise SourceError(f"the archive {name} is damaged: {detail}", hint="fetch it again") from None
    return members.finish()


class _Members:
    """Collects an archive's members and holds them to the rules."""

    def __init__(self, name: str, max_bytes: int, max_files: int) -> None:
        self.name = name
        self.max_bytes = max_bytes
        self.max_files = max_files
        self.entries: dict[str, Entry] = {}
        self.folders: set[str] = set()
        self._bytes = 0
        self._count = 0

    def count(self, size: int) -> None:
        self._bytes += size
        self._count += 1
        if self._bytes > self.max_bytes or self._count > self.max_files:
            raise too_large(self.name)

    def refuse(self, member: str, why: str) -> SourceError:
        return SourceError(
            f"the archive {self.name} is refused: its member {member!r} {why}",
            hint="such a member could write outside the workspace; repack it without",
        )

    def path(self, member: str) -> str:
        """The member's normal path, empty for the archive's own top."""
        if member.startswith("/"):
            raise self.refuse(member, "has an absolute path")
        parts = [part for part in member.split("/") if part not in {"", "."}]
        if ".." in parts:
            raise self.refuse(member, "leaves the tree")
        if "\0" in member:
            raise self.refuse(member, "has a NUL in its name")
        return "/".join(parts)

    def add(self, member: str, data: bytes, kind: EntryKind) -> None:
        path = self.path(member)
        if not path:
            raise self.refuse(member, "has no name")
        self.entries[path] = Entry(data, kind)

    def finish(self) -> dict[str, Entry]:
        tops = {path.split("/", 1)[0] for path in (*self.entries, *self.folders) if path}
        if len(tops) == 1 and not tops & self.entries.keys():
            prefix = f"{tops.pop()}/"
            self.entries = {path.removeprefix(prefix): entry for path, entry in self.entries.items()}
        links = {path: entry.data for path, entry in self.entries.items() if entry.kind == "link"}
        for path in self.entries:
            parts = path.split("/")
            above = next((p for p in ("/".join(parts[:n]) for n in range(1, len(parts))) if p in self.entries), None)
            if above is not None:
                raise self.refuse(path, f"lies below {above!r}, which is no folder")
        for path, target in links.items():
            if _leaves(path, links):
                raise self.refuse(path, f"is a link to {target!r}, outside the tree")
        return {
            path: entry
            for path, entry in self.entries.items()
            if not any(part.lower() == ".git" for part in path.split("/"))
        }


def _leaves(path: str, links: Mapping[str, bytes]) -> bool:
    """Whether following the link at ``path``, and every link on its way, ends outside the tree."""
    place = path.split("/")[:-1]
    rest = links[path].decode("utf-8", "surrogateescape").split("/")
    for _ in range(40 * 256):
        if not rest:
            return False
        part, *rest = rest
        if part == "" and not place and not rest:
            return False
        if part in {"", "."}:
            continue
        if part == "..":
            if not place:
                return True
            place.pop()
            continue
        place.append(part)
        target = links.get("/".join(place))
        if target is not None:
            if target.startswith(b"/"):
                return True
            place.pop()
            rest = [*target.decode("utf-8", "surrogateescape").split("/"), *rest]
            if len(rest) > 4096:
                return True
    # A loop of links leads nowhere, and so not outside.
    return False


def _decompress(stream: IO[bytes], name: str, members: _Members) -> bytes:
    """The whole tar, bounded: headers add at most a kibibyte or two to each member."""
    magic = stream.read(6)
    stream.seek(0)
    opened: Any
    if magic.startswith(b"\x1f\x8b"):
        opened = gzip.open(stream)  # noqa: SIM115 - ends with its stream
    elif magic.startswith(b"BZh"):
        opened = bz2.open(stream)  # noqa: SIM115
    elif magic == b"\xfd7zXZ\0":
        opened = lzma.open(stream)  # noqa: SIM115
    elif magic.startswith(b"\x28\xb5\x2f\xfd"):
        opened = zstandard.ZstdDecompressor(max_window_size=2**27).stream_reader(stream)
    else:
        opened = stream
    limit = members.max_bytes + 2048 * members.max_files
    whole = bytearray()
    while block := opened.read(2**20):
        whole += block
        if len(whole) > limit:
            raise too_large(name)
    return bytes(whole)


def _read_tar(data: bytes, members: _Members) -> None:
    with tarfile.open(
        fileobj=io.BytesIO(data), mode="r:", encoding="utf-8", errors="surrogateescape"
    ) as archive:
        for info in archive:
            members.count(info.size if info.isfile() else 0)
            if info.isdir():
                members.folders.add(members.path(info.name))
            elif info.isfile():
                content = archive.extractfile(info)
                assert content is not None
                found = content.read()
                if len(found) != info.size:
                    raise EOFError(f"{info.name} is cut short")
                members.add(info.name, found, "exec" if info.mode & 0o100 else "file")
            elif info.issym():
                if info.linkname.startswith("/"):
                    raise members.refuse(info.name, "is a link with an absolute target")
                members.add(info.name, info.linkname.encode("utf-8", "surrogateescape"), "link")
            elif info.islnk():
                earlier = members.entries.get(members.path(info.linkname))
                if earlier is None:
                    raise members.refuse(info.name, f"is a hard link to {info.linkname!r}, which is not in it")
                members.count(len(earlier.data))
                members.add(info.name, earlier.data, earlier.kind)
            else:
                raise members.refuse(info.name, "is neither file, folder nor link")
        # tarfile takes a damaged header, and the end of the data, for the end of the archive.
        if data[archive.offset : archive.offset + 512] != bytes(512):
            raise EOFError("it ends without an end mark")


def _read_zip(stream: IO[bytes], members: _Members) -> None:
    with zipfile.ZipFile(stream) as archive:
        for info in archive.infolist():
            members.count(info.file_size)
            mode = info.external_attr >> 16
            if info.is_dir():
                members.folders.add(members.path(info.filename))
                continue
            kind = stat.S_IFMT(mode)
            if kind not in {0, stat.S_IFREG, stat.S_IFLNK}:
                raise members.refuse(info.filename, "is neither file, folder nor link")
            data = archive.read(info)
            if kind == stat.S_IFLNK:
                if data.startswith(b"/"):
                    raise members.refuse(info.filename, "is a link with an absolute target")
                members.add(info.filename, data, "link")
            else:
                members.add(info.filename, data, "exec" if mode & 0o100 else "file")
