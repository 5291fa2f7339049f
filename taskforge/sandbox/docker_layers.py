"""Layers of our images, written by us: the same bytes on every host.

Members are sorted, folders and what we wrote are of one time, and nothing names a user. Times of a base's files stay,
since the bytecode beside them depends on them.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import stat
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from taskforge.sandbox import Environment
from taskforge.sandbox.bubblewrap_mounts import ETC

__all__ = ["Layer", "environment_layer", "flat"]

_EPOCH = 946684800
#: What a container's runtime mounts or makes, and the folder that the cleaning leaves its findings in.
_FOREIGN = re.compile(r"(proc|sys|dev)/.+|etc/(hosts|hostname|resolv\.conf|mtab)|\.docker(env|init)|\.taskforge(/.*)?")
_BLOCK = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Layer:
    """An uncompressed layer in a temporary file, which is gone when its block ends."""

    stream: IO[bytes]
    digest: str
    """``sha256:…`` of all its bytes."""
    length: int
    """Bytes of the archive."""
    size: int
    """Bytes of the files in it."""


class _Hashing(io.RawIOBase):
    """Writes through, and keeps the digest of what went by."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream
        self.hash = hashlib.sha256()
        self.length = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.hash.update(data)
        self.length += len(data)
        return self.stream.write(data)

    def tell(self) -> int:
        return self.length


class _Writer:
    """One layer being written."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream
        self.out = _Hashing(stream)
        self.size = 0
        self.archive = tarfile.open(  # noqa: SIM115 - closed by done()
            fileobj=cast("IO[bytes]", self.out), mode="w", format=tarfile.PAX_FORMAT, errors="surrogateescape"
        )

    def add(self, member: tarfile.TarInfo, content: IO[bytes] | None = None) -> None:
        self.archive.addfile(member, content)
        self.size += member.size if member.isreg() else 0

    def folder(self, name: str, mode: int = 0o755) -> None:
        self.add(_member(name, tarfile.DIRTYPE, mode))

    def file(self, name: str, data: bytes, mode: int = 0o644) -> None:
        member = _member(name, tarfile.REGTYPE, mode)
        member.size = len(data)
        self.add(member, io.BytesIO(data))

    def done(self) -> Layer:
        self.archive.close()
        self.stream.seek(0)
        digest = f"sha256:{self.out.hash.hexdigest()}"
        return Layer(stream=self.stream, digest=digest, length=self.out.length, size=self.size)


def _member(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.mode, member.mtime = kind, mode, _EPOCH
    return member


@contextlib.contextmanager
def flat(exported: Iterable[bytes]) -> Iterator[Layer]:
    """A container's whole file system, as its daemon exports it, as one layer."""
    with tempfile.TemporaryFile() as raw, tempfile.TemporaryFile() as stream:
        for block in exported:
            raw.write(block)
        raw.seek(0)
        writer = _Writer(stream)
        with tarfile.open(fileobj=raw, mode="r:", errors="surrogateescape") as archive:
            known = {_plain(member.name): member for member in archive}
            kept = {name: member for name, member in known.items() if _kept(name, member)}
            # Whichever of several names of a file an export gave the content to: here the first has it.
            first: dict[str, str] = {}
            for name in sorted(kept):
                member = kept[name]
                source = known[_plain(member.linkname)] if member.islnk() else member
                holder = first.setdefault(source.name, name)
                writer.add(*_normal(name, source, holder, archive))
        yield writer.done()


def _plain(name: str) -> str:
    return name.removeprefix("./").strip("/")


def _kept(name: str, member: tarfile.TarInfo) -> bool:
    special = member.ischr() or member.isblk() or member.isfifo()
    return name not in {"", "."} and not special and not _FOREIGN.fullmatch(name)


def _normal(
    name: str, source: tarfile.TarInfo, holder: str, archive: tarfile.TarFile
) -> tuple[tarfile.TarInfo, IO[bytes] | None]:
    member = _member(name, source.type, source.mode & 0o7777)
    member.uid, member.gid = source.uid, source.gid
    # Rights that lie in attributes of a file are none in a sandbox, which gives up all capabilities.
    if source.isdir():
        return member, None
    member.mtime = int(source.mtime)
    if source.issym():
        member.linkname, member.mtime = source.linkname, _EPOCH
        return member, None
    if holder != name:
        member.type, member.linkname = tarfile.LNKTYPE, holder
        return member, None
    member.type, member.size = tarfile.REGTYPE, source.size
    return member, archive.extractfile(source)


@contextlib.contextmanager
def environment_layer(environment: Environment, interpreter: str, *, tools: bool) -> Iterator[Layer]:
    """What an environment's image has above its base: ``env``, ``tools``, and the fixed files of /etc.

    Args:
        interpreter: path of the base's own, to which the environment's links lead.
    """
    with tempfile.TemporaryFile() as stream:
        writer = _Writer(stream)
        writer.folder("env")
        _add_folder(writer, environment.root, "env", interpreter)
        writer.folder("etc")
        for name, data in sorted(ETC.items()):
            writer.file(f"etc/{name}", data)
        writer.folder("tmp", 0o1777)
        if tools and environment.tools is not None:
            writer.folder("tools")
            _add_folder(writer, environment.tools, "tools", interpreter)
        writer.folder("workspace", 0o1777)
        yield writer.done()


def _add_folder(writer: _Writer, root: Path, inside: str, interpreter: str) -> None:
    for top, folders, names in os.walk(root):
        folders.sort()
        for name in sorted([*folders, *names]):
            path = Path(top, name)
            place = f"{inside}/{path.relative_to(root).as_posix()}"
            status = path.lstat()
            if stat.S_ISLNK(status.st_mode):
                target = str(path.readlink())
                member = _member(place, tarfile.SYMTYPE, 0o777)
                # The one link that leaves the environment is its interpreter.
                member.linkname = interpreter if target.startswith("/") and "python" in name else target
                writer.add(member)
            elif stat.S_ISDIR(status.st_mode):
                writer.folder(place)
            elif place == "env/pyvenv.cfg":
                writer.file(place, _configured(path.read_bytes(), interpreter))
            elif stat.S_ISREG(status.st_mode):
                member = _member(place, tarfile.REGTYPE, 0o755 if status.st_mode & 0o100 else 0o644)
                member.size = status.st_size
                with path.open("rb") as content:
                    writer.add(member, content)


def _configured(data: bytes, interpreter: str) -> bytes:
    """``pyvenv.cfg`` with the image's own interpreter as its home, and without the host's version."""
    home = os.fsencode(os.path.dirname(interpreter))  # noqa: PTH120 - a path inside
    data = re.sub(rb"(?m)^version\s*=.*\n?", b"", data)
    return re.sub(rb"(?m)^home\s*=.*$", lambda _found: b"home = " + home, data)
