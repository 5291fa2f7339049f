"""Images in a file: an OCI image layout in a tar archive, which plain ``docker load`` takes too.

Whoever reads one trusts nothing in it: every blob is held against its digest, every layer against what the image's
configuration says of it, before a daemon sees any of it. :mod:`taskforge.sandbox.oci_write` writes them.
"""

from __future__ import annotations

import hashlib
import json
import re
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

from taskforge.errors import CorpusError

__all__ = [
    "BLOCK",
    "ENVIRONMENT",
    "GZIP",
    "NAME",
    "Blob",
    "Layout",
    "Stored",
    "Watch",
    "digest",
    "docker_manifest",
    "inflated",
    "json_bytes",
]

BLOCK = 1 << 20
#: Characters of JSON that one document of an archive may have.
_LONGEST = 1 << 22
#: zlib's word for a gzip header.
GZIP = 31
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
#: Annotation with the digest of the environment.
ENVIRONMENT = "org.taskforge.environment"
#: What containerd names an image by that comes out of a file.
NAME = "io.containerd.image.name"

#: Called with what is going on, the bytes done, and the bytes of all (0 when nobody knows).
Watch = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True)
class Blob:
    """``digest`` is ``sha256:…`` of the bytes as they are stored; ``size`` counts them."""

    digest: str
    size: int

    @property
    def path(self) -> str:
        """Its place in an archive."""
        return "blobs/" + self.digest.replace(":", "/")


@dataclass(frozen=True, kw_only=True)
class Stored:
    """One image of an archive. ``config.digest`` is the image's own digest."""

    environment: str
    name: str
    """What the daemon shall call it, ``taskforge-env:…``."""
    config: Blob
    layers: tuple[Blob, ...]
    diff_ids: tuple[str, ...]
    """Digests of the layers uncompressed, lowest first."""
    platform: str = "linux/amd64"


def docker_manifest(images: Iterable[Stored]) -> bytes:
    """What a daemon reads that knows no OCI layouts."""
    return json_bytes([
        {"Config": one.config.path, "RepoTags": [one.name], "Layers": [layer.path for layer in one.layers]}
        for one in images
    ])  # fmt: skip


def json_bytes(data: Any) -> bytes:
    """The same bytes for the same JSON."""
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode("ascii")


def digest(data: bytes) -> str:
    """``sha256:…`` of some bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Layout:
    """An archive to read from, open until :meth:`close`.

    Raises:
        CorpusError: when the file is no archive of images of environments, or is cut off.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._stream = path.open("rb")
        except OSError as error:
            raise CorpusError(
                f"cannot read {path}: {error.strerror}", hint="name the file that `taskforge images save` wrote"
            ) from error
        try:
            self._members = self._listed()
            self.images = tuple(self._image(one) for one in self._index())
        except BaseException:
            self._stream.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_ending: object) -> None:
        self.close()

    def close(self) -> None:
        """The archive is not needed any more."""
        self._stream.close()

    def verify(self, images: Iterable[Stored], watch: Watch) -> None:
        """Hold every blob against its digest, and the layers of ``images`` against their configurations.

        Raises:
            CorpusError: naming the blob that is damaged, cut off, or is not what its image says.
        """
        inner = {
            layer.digest: (diff, image) for image in images
            for layer, diff in zip(image.layers, image.diff_ids, strict=True)
        }  # fmt: skip
        names = [name for name in self._members if name.startswith("blobs/")]
        total = sum(self._members[name].size for name in names)
        done = 0
        for name in names:
            wanted = "sha256:" + name.removeprefix("blobs/sha256/")
            outer, content = hashlib.sha256(), hashlib.sha256()
            inflate = zlib.decompressobj(GZIP) if wanted in inner else None
            for block in self._blocks(name):
                outer.update(block)
                for part in inflated(inflate, block, partial(self._damaged, wanted, "is not gzip")):
                    content.update(part)
                done += len(block)
                watch("verifying", done, total)
            if outer.hexdigest() != wanted.removeprefix("sha256:"):
                raise self._damaged(wanted, f"is damaged: its digest is sha256:{outer.hexdigest()[:12]}…")
            if inflate is not None:
                diff, image = inner[wanted]
                if not inflate.eof or inflate.unused_data or f"sha256:{content.hexdigest()}" != diff:
                    raise self._damaged(wanted, f"is not the layer that the image {image.name} names ({diff[:19]}…)")

    def archive(self, images: Iterable[Stored]) -> Iterator[bytes]:
        """Some of the images as a daemon takes them, in blocks."""
        chosen = list(images)
        manifest = docker_manifest(chosen)
        names = sorted({blob.path for image in chosen for blob in (image.config, *image.layers)})
        yield _header("manifest.json", len(manifest)) + _padded(manifest)
        for name in names:
            size = self._members[name].size
            yield _header(name, size)
            yield from self._blocks(name)
            yield bytes(-size % tarfile.BLOCKSIZE)
        yield bytes(2 * tarfile.BLOCKSIZE)

    def _listed(self) -> dict[str, tarfile.TarInfo]:
        hint = "name the file that `taskforge images save` wrote"
        try:
            # Never closed: it would want to be, and the stream is ours.
            found = {member.name: member for member in tarfile.open(fileobj=self._stream, mode="r:") if member.isreg()}  # noqa: SIM115
        except (tarfile.TarError, EOFError, ValueError, OSError) as error:
            raise CorpusError(f"{self.path} is no archive of images, or is cut off: {error}", hint=hint) from None
        if not {"oci-layout", "index.json", "manifest.json"} <= set(found):
            raise CorpusError(f"{self.path} is no OCI image layout: it has no index.json", hint=hint)
        return found

    def _index(self) -> list[Any]:
        told = self._document("index.json")
        manifests = told.get("manifests") if isinstance(told, dict) else None
        if not isinstance(manifests, list):
            raise self._damaged("index.json", "lists no manifests")
        return manifests

    def _image(self, entry: Any) -> Stored:
        try:
            notes = entry["annotations"]
            environment = str(notes[ENVIRONMENT])
            name = str(notes[NAME]).removeprefix("docker.io/library/")
            manifest_blob = self._blob(entry)
        except (KeyError, TypeError, AttributeError):
            raise CorpusError(
                f"{self.path} holds an image that is none of taskforge's: it names no environment",
                hint="name the file that `taskforge images save` wrote",
            ) from None
        manifest = self._document(manifest_blob.path)
        try:
            blob = self._blob(manifest["config"])
            layers = tuple(self._blob(one) for one in manifest["layers"])
            config = self._document(blob.path)
            diffs = tuple(str(one) for one in config["rootfs"]["diff_ids"])
            platform = f"{config['os']}/{config['architecture']}"
        except (KeyError, TypeError, AttributeError) as error:
            raise self._damaged(manifest_blob.digest, f"or its configuration lacks {error}") from None
        if len(diffs) != len(layers) or not all(map(_DIGEST.fullmatch, diffs)):
            raise self._damaged(blob.digest, "does not go with the layers of its image")
        return Stored(
            environment=environment, name=name, config=blob, layers=layers, diff_ids=diffs, platform=platform
        )

    def _blob(self, descriptor: Any) -> Blob:
        named = str(descriptor["digest"])
        if not _DIGEST.fullmatch(named):
            raise self._damaged(named[:80], "is no digest")
        blob = Blob(digest=named, size=int(descriptor["size"]))
        member = self._members.get(blob.path)
        if member is None:
            raise self._damaged(named, "is missing")
        if member.size != blob.size:
            raise self._damaged(named, f"has {member.size} bytes where {blob.size} are wanted")
        return blob

    def _document(self, name: str) -> Any:
        """JSON in the archive; of a blob, proven to be what its digest says."""
        said = name.replace("blobs/sha256/", "sha256:")
        if self._members[name].size > _LONGEST:
            raise self._damaged(said, "is too long")
        data = b"".join(self._blocks(name))
        if name.startswith("blobs/") and digest(data) != said:
            raise self._damaged(said, f"is damaged: its digest is {digest(data)[:19]}…")
        try:
            return json.loads(data)
        except ValueError as error:
            raise self._damaged(said, f"is no JSON: {error}") from None

    def _blocks(self, name: str) -> Iterator[bytes]:
        member = self._members[name]
        self._stream.seek(member.offset_data)
        left = member.size
        while left:
            block = self._stream.read(min(BLOCK, left))
            if not block:
                raise self._damaged(name.replace("blobs/sha256/", "sha256:"), "is cut off")
            left -= len(block)
            yield block

    def _damaged(self, what: str, how: str) -> CorpusError:
        return CorpusError(
            f"{self.path}: {what} {how}", hint="copy the archive again, or write it again with `taskforge images save`"
        )


def inflated(inflate: Any, block: bytes, broken: Callable[[], Exception]) -> Iterator[bytes]:
    """What a block holds uncompressed, never much of it at a time; nothing without ``inflate``."""
    while inflate is not None and block and not inflate.eof:
        try:
            part = inflate.decompress(block, BLOCK)
        except zlib.error:
            raise broken() from None
        yield part
        block = inflate.unconsumed_tail


def _header(name: str, size: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.size = size
    return member.tobuf(tarfile.GNU_FORMAT)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % tarfile.BLOCKSIZE)
