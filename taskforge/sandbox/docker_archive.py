"""Images of ours on their way to a daemon: the archive that ``docker load`` takes, written as it is sent."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, Any

from taskforge.errors import SandboxFault
from taskforge.model.base import canonical_json
from taskforge.sandbox.docker_config import digest, told
from taskforge.sandbox.docker_daemon import Daemon, faults
from taskforge.sandbox.docker_layers import Layer

__all__ = ["inspect", "load", "said"]

_BLOCK = 1 << 20


def inspect(daemon: Daemon, name: str) -> dict[str, Any] | None:
    """What the daemon tells of an image, by name or id; None when it has none."""
    import docker.errors

    try:
        return dict(daemon.client.api.inspect_image(name))
    except docker.errors.ImageNotFound:
        return None


def load(daemon: Daemon, name: str, config: bytes, layers: Sequence[Layer | str], lower: Callable[[], Layer]) -> str:
    """Give an image to the daemon under ``name``, and return the daemon's id of it.

    Args:
        layers: the lowest first; of one that the daemon should have already, the digest alone, which is not sent.
        lower: gives the one that is named by digest alone, where the daemon asks for it all the same.

    Raises:
        SandboxFault: when the daemon does not take it, or has another image under that name afterwards.
    """
    with faults(f"loading image {name}"):
        refused = _send(daemon, _archive(name, config, layers))
        if refused and any(isinstance(layer, str) for layer in layers):
            whole = [lower() if isinstance(layer, str) else layer for layer in layers]
            refused = _send(daemon, _archive(name, config, whole))
        found = inspect(daemon, name)
    if refused or found is None or told(found) != config:
        full = "no space left" in refused
        raise SandboxFault(
            f"the daemon does not take image {name}: {refused or 'it has another one under that name'}",
            kind="docker_disk" if full else "docker_load",
            hint="make room on the daemon's disk, for example with `taskforge images prune`" if full else "",
        )
    return str(found["Id"])


def _send(daemon: Daemon, archive: Iterator[bytes]) -> str:
    """What the daemon had against it; empty when it took it."""
    return said(daemon.client.api.load_image(archive))[1]


def said(answer: Iterable[Any]) -> tuple[list[dict[str, Any]], str]:
    """All messages of a daemon's long answer, and its error: such an answer begins well whatever comes after."""
    messages: list[dict[str, Any]] = []
    for chunk in answer:
        messages += [chunk] if isinstance(chunk, dict) else [json.loads(line) for line in chunk.splitlines() if line]
    errors = [str(one.get("error") or one["errorDetail"]) for one in messages if {"error", "errorDetail"} & set(one)]
    return messages, "; ".join(errors)[:1000]


def _archive(name: str, config: bytes, layers: Sequence[Layer | str]) -> Iterator[bytes]:
    hexes = [(layer if isinstance(layer, str) else layer.digest).removeprefix("sha256:") for layer in layers]
    configured = f"{digest(config).removeprefix('sha256:')}.json"
    manifest = [{"Config": configured, "RepoTags": [name], "Layers": [f"{one}.tar" for one in hexes]}]
    for place, data in ((configured, config), ("manifest.json", canonical_json(manifest))):
        yield _header(place, len(data))
        yield data + bytes(-len(data) % tarfile.BLOCKSIZE)
    for layer, one in zip(layers, hexes, strict=True):
        if isinstance(layer, Layer):
            yield _header(f"{one}.tar", layer.length)
            yield from _blocks(layer.stream)
            yield bytes(-layer.length % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _header(name: str, size: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.size = size
    # Sizes above 8 GiB need GNU's form.
    return member.tobuf(format=tarfile.GNU_FORMAT)


def _blocks(stream: IO[bytes]) -> Iterator[bytes]:
    stream.seek(0)
    while block := stream.read(_BLOCK):
        yield block
