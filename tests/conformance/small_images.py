"""Images like those of environments, but made and moved in a moment, in the daemon that has nothing."""

from __future__ import annotations

import io
import random
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskforge.sandbox.docker import Docker
from taskforge.sandbox.docker_config import configuration
from taskforge.sandbox.docker_transport import told
from taskforge.sandbox.oci import Blob, Stored, digest
from taskforge.sandbox.oci_write import write_layout
from taskforge.sandbox.platforms import here

BASE = 4_000_000


def quiet(_what: str, _done: int, _total: int) -> None:
    """Nobody watches."""


@pytest.fixture
def second(second_daemon: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Docker]:
    """A new installation on the daemon that has nothing."""
    monkeypatch.setenv("DOCKER_HOST", second_daemon)
    made = Docker(tmp_path / "second")
    api = made.daemon.client.api
    yield made
    for one in api.containers(all=True):
        api.remove_container(one["Id"], force=True)
    for one in api.images():
        api.remove_image(one["Id"], force=True)
    assert api.images() == []


def layer(name: str, size: int) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        member = tarfile.TarInfo(name)
        member.size = size
        # Hard to compress, and the same each time.
        tar.addfile(member, io.BytesIO(random.Random(name).randbytes(size)))
    return out.getvalue()


def put(docker: Docker, letter: str, *, own: int, kind: str = "environment") -> str:
    """An image like those of environments, quickly: a base that all share, and a layer of its own. Its id."""
    layers = [layer("base", BASE)] + ([layer(letter, own)] if kind == "environment" else [])
    labels = {"environment": letter * 64, "python": "3.12.1", "size": str(BASE + own)}
    digests = [digest(one) for one in layers]
    config = configuration(kind, digests, labels, platform=here())
    blobs = dict(zip(digests, layers, strict=True)) | {digest(config): config}
    tag = f"taskforge-clean:{letter}" if kind == "base" else docker.images.name(letter * 64)
    manifest = Stored(
        environment=letter * 64, name=tag, config=Blob(digest=digest(config), size=0), diff_ids=tuple(digests),
        layers=tuple(Blob(digest=one, size=0) for one in digests),
    )  # fmt: skip
    data = io.BytesIO()
    write_layout(data, [manifest], blobs)
    assert told(docker.daemon.client.api.load_image(data.getvalue()), lambda _event: None) == ""
    return digest(config)


def names(docker: Docker) -> list[list[str]]:
    return sorted(sorted(one["RepoTags"] or ()) + sorted(one["RepoDigests"] or ()) for one in docker.daemon.client.api.images())
