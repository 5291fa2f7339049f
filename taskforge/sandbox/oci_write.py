"""Writes images into a file: an OCI image layout in a tar archive, which plain ``docker load`` takes too.

Layers are compressed and stored once, however many environments share them. Neither times nor owners get in, so the
same images give the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import posixpath
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any

from taskforge.errors import SandboxFault
from taskforge.sandbox.oci import (
    BLOCK,
    ENVIRONMENT,
    GZIP,
    NAME,
    Blob,
    Stored,
    digest,
    docker_manifest,
    inflated,
    json_bytes,
)

__all__ = ["Spool", "write_layout"]

_MEDIA = "application/vnd.oci.image."
_REF = "org.opencontainers.image.ref.name"
_LEVEL = 6
#: Bytes of a file beside the layers that are kept; documents are far shorter.
_LONGEST = 1 << 22
_USTAR = slice(257, 262)


class Spool:
    """What a daemon exports, taken apart: layers compressed into files of a folder, documents kept as bytes.

    Both forms of ``docker save`` are understood, with layers plain or compressed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.blobs: dict[str, Path | bytes] = {}
        """Content by digest, as :func:`write_layout` takes it."""
        self._documents: dict[str, bytes] = {}
        self._layers: dict[str, tuple[str, Blob]] = {}
        self._links: dict[str, str] = {}

    def take(self, export: IO[bytes], watch: Callable[[int], None]) -> None:
        """Read an export to its end.

        Args:
            export: need not be able to seek.
            watch: called with the bytes read so far.

        Raises:
            SandboxFault: when it is cut off or no archive.
            OSError: when the folder's disk refuses.
        """
        done = 0
        try:
            with tarfile.open(fileobj=export, mode="r|", bufsize=BLOCK) as tar:
                for member in tar:
                    if member.issym() or member.islnk():
                        near = posixpath.dirname(member.name) if member.issym() else ""
                        self._links[member.name] = posixpath.normpath(posixpath.join(near, member.linkname))
                    elif (stream := tar.extractfile(member)) is not None:
                        self._file(member, stream, partial(_further, watch, done))
                        done += member.size
        except (tarfile.TarError, EOFError) as error:
            raise SandboxFault(
                f"what the daemon exports is broken: {error}", kind="docker_export", hint="try once more"
            ) from error

    def images(self, named: Mapping[str, str]) -> tuple[Stored, ...]:
        """The images that were taken in.

        Args:
            named: digest of the environment by the image's name; others are passed over.

        Raises:
            SandboxFault: when the export lacks a part of them.
        """
        try:
            entries = json.loads(self._documents["manifest.json"])
            return tuple(
                self._image(entry, name, named[name])
                for entry in entries for name in entry["RepoTags"] or () if name in named
            )  # fmt: skip
        except (KeyError, ValueError, TypeError) as error:
            raise SandboxFault(
                f"what the daemon exports cannot be understood: {error!r} is missing or wrong", kind="docker_export"
            ) from error

    def _image(self, entry: Any, name: str, environment: str) -> Stored:
        config = self._documents[entry["Config"]]
        told = json.loads(config)
        layers = [self._layers[self._links.get(path, path)] for path in entry["Layers"]]
        blob = Blob(digest=digest(config), size=len(config))
        self.blobs[blob.digest] = config
        diffs = tuple(diff for diff, _layer in layers)
        if list(diffs) != told["rootfs"]["diff_ids"]:
            raise ValueError(f"the layers of {name}")
        return Stored(
            environment=environment, name=name, config=blob, diff_ids=diffs,
            layers=tuple(layer for _diff, layer in layers), platform=f"{told['os']}/{told['architecture']}",
        )  # fmt: skip

    def _file(self, member: tarfile.TarInfo, stream: IO[bytes], watch: Callable[[int], None]) -> None:
        first = stream.read(min(BLOCK, member.size))
        # An empty layer is zeros, whatever else: documents begin with a brace.
        layer = first[_USTAR] == b"ustar" or first.startswith(b"\x1f\x8b") or not first.strip(b"\0")
        if layer and first:
            self._layers[member.name] = self._compressed(_plain(stream, first, watch))
        elif member.size <= _LONGEST:
            self._documents[member.name] = first + stream.read()

    def _compressed(self, blocks: Iterator[bytes]) -> tuple[str, Blob]:
        """Digest of the plain layer, and the blob that it became."""
        plain, packed, size = hashlib.sha256(), hashlib.sha256(), 0
        deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, GZIP)
        unnamed = self.folder / "layer"
        with unnamed.open("wb") as out:

            def put(data: bytes) -> int:
                packed.update(data)
                return out.write(data)

            for block in blocks:
                plain.update(block)
                size += put(deflate.compress(block))
            size += put(deflate.flush())
        blob = Blob(digest=f"sha256:{packed.hexdigest()}", size=size)
        self.blobs[blob.digest] = unnamed.rename(self.folder / packed.hexdigest())
        return f"sha256:{plain.hexdigest()}", blob


def _plain(stream: IO[bytes], first: bytes, watch: Callable[[int], None]) -> Iterator[bytes]:
    inflate = zlib.decompressobj(GZIP) if first.startswith(b"\x1f\x8b") else None
    block, done = first, 0
    while block:
        done += len(block)
        watch(done)
        if inflate is None:
            yield block
        else:
            yield from inflated(inflate, block, _broken)
        block = stream.read(BLOCK)


def _further(watch: Callable[[int], None], done: int, count: int) -> None:
    watch(done + count)


def _broken() -> SandboxFault:
    return SandboxFault("what the daemon exports is broken: a layer is not gzip", kind="docker_export")


def write_layout(out: IO[bytes], images: Iterable[Stored], blobs: Mapping[str, Path | bytes]) -> None:
    """Write an archive. Images and blobs are put in order, so that the order given does not matter.

    Args:
        out: taken from where it stands; need not be able to seek.
        images: what is in it.
        blobs: each blob that the images name, by digest: where it lies, or the bytes themselves.
    """
    ordered = sorted(images, key=lambda image: image.environment)
    held: dict[str, Path | bytes] = {}
    index = []
    for image in ordered:
        manifest = json_bytes({
            "schemaVersion": 2, "mediaType": f"{_MEDIA}manifest.v1+json",
            "config": _descriptor(f"{_MEDIA}config.v1+json", image.config),
            "layers": [_descriptor(f"{_MEDIA}layer.v1.tar+gzip", layer) for layer in image.layers],
            "annotations": {ENVIRONMENT: image.environment},
        })  # fmt: skip
        blob = Blob(digest=digest(manifest), size=len(manifest))
        held[blob.digest] = manifest
        for part in (image.config, *image.layers):
            held[part.digest] = blobs[part.digest]
        system, _, machine = image.platform.partition("/")
        index.append(_descriptor(f"{_MEDIA}manifest.v1+json", blob) | {
            "platform": {"architecture": machine, "os": system},
            "annotations": {
                ENVIRONMENT: image.environment, _REF: image.name.partition(":")[2],
                NAME: f"docker.io/library/{image.name}",
            },
        })  # fmt: skip
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.GNU_FORMAT, bufsize=BLOCK) as tar:
        _add(tar, "oci-layout", json_bytes({"imageLayoutVersion": "1.0.0"}))
        media = f"{_MEDIA}index.v1+json"
        _add(tar, "index.json", json_bytes({"schemaVersion": 2, "mediaType": media, "manifests": index}))
        _add(tar, "manifest.json", docker_manifest(ordered))
        for folder in ("blobs", "blobs/sha256"):
            member = tarfile.TarInfo(folder)
            member.type, member.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(member)
        for name in sorted(held):
            _add(tar, Blob(digest=name, size=0).path, held[name])


def _descriptor(media: str, blob: Blob) -> dict[str, Any]:
    return {"mediaType": media, "digest": blob.digest, "size": blob.size}


def _add(tar: tarfile.TarFile, name: str, data: Path | bytes) -> None:
    member = tarfile.TarInfo(name)
    if isinstance(data, bytes):
        member.size = len(data)
        tar.addfile(member, io.BytesIO(data))
        return
    member.size = data.stat().st_size
    with data.open("rb") as stream:
        tar.addfile(member, stream)
