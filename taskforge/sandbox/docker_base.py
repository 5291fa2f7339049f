"""What environment images stand on: a base found or pulled, then cleaned into one layer, the same anywhere."""

from __future__ import annotations

import contextlib
import json
import logging
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

from taskforge_images import CLEAN, FACTS, context, reference
from taskforge_images.recipes import NO_PYTHON

from taskforge.errors import SandboxFault
from taskforge.sandbox.docker_archive import inspect, load
from taskforge.sandbox.docker_build import build
from taskforge.sandbox.docker_config import LABEL, configuration, pure
from taskforge.sandbox.docker_daemon import Daemon
from taskforge.sandbox.docker_layers import Layer, flat
from taskforge.sandbox.platforms import here

__all__ = ["BASE", "CLEANED", "Base", "Bases"]

log = logging.getLogger("taskforge.sandbox")

BASE = "taskforge-base"
CLEANED = "taskforge-clean"


@dataclass(frozen=True)
class Base:
    """A base image as the daemon has it."""

    name: str
    id: str

    def __str__(self) -> str:
        return f"{self.name.partition('@')[0]}@{self.id}"


@dataclass(frozen=True)
class Clean:
    """A cleaned base: one layer, and what is known of its interpreter."""

    image: str
    layer: str
    size: int
    python: str
    interpreter: str


class Bases:
    """The bases of one daemon.

    Args:
        name: of the base image, in which ``{minor}`` stands for Python's version; empty for the defaults.
    """

    def __init__(self, daemon: Daemon, *, name: str) -> None:
        self.daemon = daemon
        self.name = name

    def names(self, minor: str) -> list[str]:
        """Where a base may be, the best first."""
        if self.name:
            return [self.name.replace("{minor}", minor)]
        return list(dict.fromkeys((f"{BASE}:{minor}", reference(minor), f"python:{minor}-slim")))

    def find(self, minor: str) -> Base | None:
        """The base that the daemon has."""
        for name in self.names(minor):
            found = inspect(self.daemon, name)
            if found is not None:
                self._check_platform(name, found)
                return Base(name, str(found["Id"]))
        return None

    def get(self, minor: str) -> Base:
        """The base, pulled where the daemon has none.

        Raises:
            SandboxFault: ``docker_base``.
        """
        found = self.find(minor)
        if found is not None:
            return found
        import docker.errors

        names = self.names(minor)
        wanted = names[0] if self.name else reference(minor)
        log.info("pulling %s", wanted)
        try:
            self.daemon.client.api.pull(wanted)
        except docker.errors.APIError as error:
            raise SandboxFault(
                f"there is no base image {' or '.join(names)}, and it cannot be pulled: {error.explanation or error}",
                kind="docker_base",
                hint=f"make one with `taskforge images base --python {minor}`, or name an image with Python {minor} in "
                "TASKFORGE_DOCKER_BASE, or choose the Python of an image that you have with --python",
                retryable=False,
            ) from error
        found = self.find(minor)
        if found is None:
            raise SandboxFault(f"{wanted} is not there after it was pulled", kind="docker_base")
        return found

    def _check_platform(self, name: str, found: dict[str, Any]) -> None:
        there = f"{found.get('Os') or 'linux'}/{found.get('Architecture') or here().partition('/')[2]}"
        if there != here():
            raise SandboxFault(
                f"the base image {name} is for {there}, the environments of this host are for {here()}",
                kind="docker_base",
                hint="name a base image for this host's platform in TASKFORGE_DOCKER_BASE",
                retryable=False,
            )

    # -- cleaning -------------------------------------------------------------------------------------------------

    def clean(self, base: Base, minor: str) -> Clean:
        """The base without what vendors other projects, in one layer, made now where the daemon lacks it.

        Raises:
            SandboxFault: ``docker_base`` when it has no such Python, or cannot be cleaned.
        """
        tag = f"{minor}-{base.id.removeprefix('sha256:')[:12]}"
        with self.daemon.locked(f"clean-{tag}"):
            found = self.cleaned(base, minor)
            if found is None:
                self._make(base, minor)
                found = self.cleaned(base, minor)
        if found is None:
            raise SandboxFault(f"the image {CLEANED}:{tag} is gone as soon as it was made", kind="docker_image")
        return found

    def cleaned(self, base: Base, minor: str) -> Clean | None:
        """The cleaned base, if the daemon has it."""
        name = f"{CLEANED}:{minor}-{base.id.removeprefix('sha256:')[:12]}"
        found = inspect(self.daemon, name)
        if found is None or not pure(found, kind="base", layers=1, base=base.id):
            return None
        labels = found["Config"]["Labels"]
        return Clean(
            name, found["RootFS"]["Layers"][0], int(labels[f"{LABEL}size"]),
            labels[f"{LABEL}python"], labels[f"{LABEL}interpreter"],
        )  # fmt: skip

    def _make(self, base: Base, minor: str) -> None:
        log.info("cleaning %s", base.name)
        name = f"{CLEANED}:{minor}-{base.id.removeprefix('sha256:')[:12]}"
        built = self._build(base, minor)
        try:
            with self._flattened(built) as (layer, facts):
                labels = {**facts, "base": base.id, "size": str(layer.size)}
                config = configuration("base", [layer.digest], labels, platform=here())
                load(self.daemon, name, config, [layer], lambda: layer)
        finally:
            # Its lower layers are the base's; without the base it would keep them.
            self.daemon.client.api.remove_image(built)

    def _build(self, base: Base, minor: str) -> str:
        """The id of the image of the Dockerfile's cleaning stage."""
        made = build(
            self.daemon, context("Dockerfile", "clean.py", "find.sh"), target=CLEAN, BASE=base.id, MINOR=minor
        )  # fmt: skip
        if isinstance(made, str):
            return made
        if made.status == NO_PYTHON:
            raise SandboxFault(
                f"the base image {base.name} has no Python {minor}, which the environment needs",
                kind="docker_base",
                hint=f"name an image with Python {minor} in TASKFORGE_DOCKER_BASE ({{minor}} stands for the version), "
                "or choose the image's Python with --python",
                retryable=False,
            )
        raise SandboxFault(
            f"the base image {base.name} cannot be cleaned: {made.message}",
            kind="docker_base",
            hint="choose another in TASKFORGE_DOCKER_BASE",
            retryable=False,
        )

    @contextlib.contextmanager
    def _flattened(self, image: str) -> Iterator[tuple[Layer, dict[str, str]]]:
        api = self.daemon.client.api
        made = api.create_container_from_config({
            "Image": image, "Entrypoint": ["/bin/true"], "Cmd": [], "Labels": self.daemon.labels("builder"),
            "HostConfig": {"NetworkMode": "none"},
        })  # fmt: skip
        container = str(made["Id"])
        try:
            blocks, _status = api.get_archive(container, f"/{FACTS}")
            facts = _facts(b"".join(blocks))
            with flat(api.export(container)) as layer:
                yield layer, facts
        finally:
            self.daemon.remove(container)

    @contextlib.contextmanager
    def layer(self, clean: Clean) -> Iterator[Layer]:
        """The layer's bytes, from the daemon: for a store that wants them once more."""
        with tempfile.TemporaryFile() as saved:
            for block in self.daemon.client.api.get_image(clean.image):
                saved.write(block)
            saved.seek(0)
            with tarfile.open(fileobj=saved, mode="r:") as archive:
                manifest = json.loads(_read(archive, "manifest.json"))
                member = archive.getmember(manifest[0]["Layers"][0])
                inner = archive.extractfile(member)
                assert inner is not None
                yield Layer(stream=inner, digest=clean.layer, length=member.size, size=clean.size)


def _stream(data: bytes) -> IO[bytes]:
    import io

    return io.BytesIO(data)


def _read(archive: tarfile.TarFile, name: str) -> bytes:
    stream = archive.extractfile(name)
    assert stream is not None
    return stream.read()


def _facts(archived: bytes) -> dict[str, str]:
    with tarfile.open(fileobj=_stream(archived)) as archive:
        told_facts = json.loads(_read(archive, FACTS.rpartition("/")[2]))
    return {name: str(told_facts[name]) for name in ("python", "interpreter", "machine")}
