"""Environment images: the same on every daemon, without what a solver could read, and never another than the pin."""

from __future__ import annotations

import io
import json
import logging
import os
import tarfile
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from taskforge.cli.grade import grader_for
from taskforge.corpus import Corpus
from taskforge.errors import CorpusError, SandboxFault
from taskforge.generate import environment as environments
from taskforge.generate.acquire import Snapshot
from taskforge.generate.pipeline import Options, generate
from taskforge.grade.grading import reference_of
from taskforge.model import Image, Policy, Source, Tree
from taskforge.sandbox import Backend, Environment, SandboxSpec, backend
from taskforge.sandbox.docker import Docker
from taskforge.sandbox.docker_archive import inspect, load, said
from taskforge.sandbox.docker_config import configuration
from taskforge.sandbox.docker_layers import Layer, flat
from taskforge.sandbox.docker_makebase import make_base
from taskforge.sandbox.platforms import here
from taskforge.sandbox.pool import Pool
from taskforge.settings import Settings
from tests.conformance.daemons import second_daemon  # noqa: F401

REPO = Path(__file__).parents[1] / "repos" / "calc"


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Docker:
    """A new installation, on the daemon of this machine."""
    backend("docker")
    return Docker(tmp_path_factory.mktemp("docker"))


@pytest.fixture(scope="module")
def second(second_daemon: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Docker]:  # noqa: F811
    """An installation on a daemon that has nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", second_daemon)
        other = Docker(tmp_path_factory.mktemp("second"))
        assert other.daemon.client.api.images(all=True) == []
    yield other
    api = other.daemon.client.api
    for one in api.images(quiet=True):
        api.remove_image(one, force=True)


@pytest.fixture
def own(docker: Docker, calc_environment: Environment) -> Iterator[Environment]:
    """An environment that no other test makes an image of."""
    made = replace(calc_environment, digest=uuid.uuid4().hex * 2)
    yield made
    drop(docker, made)


def drop(docker: Docker, environment: Environment) -> None:
    name = docker.images.name(environment.digest)
    if inspect(docker.daemon, name) is not None:
        docker.daemon.client.api.remove_image(name, force=True)


def minor(environment: Environment) -> str:
    return ".".join(environment.python.split(".")[:2])


def give_base(docker: Docker, second: Docker, environment: Environment) -> None:
    base = docker.images.bases.find(minor(environment))
    assert base is not None
    assert said(second.daemon.client.api.load_image(docker.daemon.client.api.get_image(base.name)))[1] == ""


def test_two_hosts_make_the_same_image(
    docker: Docker, second: Docker, own: Environment, calc: Snapshot, bubblewrap: Backend, tmp_path: Path
) -> None:
    again = environments.build(calc, backend=bubblewrap, cache=tmp_path, log=print)[1]
    assert again.root != own.root
    give_base(docker, second, own)
    # The second cleans the base itself, and has an environment of its own making.
    one = docker.images.image(own)
    other = second.images.image(replace(again, digest=own.digest))
    assert one == other
    assert (len(one.layers), one.platform, one.python) == (2, here(), own.python)
    # The classic store calls an image by its digest.
    assert docker.images.ensure(own, tools=False) == one.digest
    drop(second, own)


def packed(name: str, data: bytes) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return stream.getvalue()


def test_a_daemon_is_sent_the_lower_layer_only_when_it_lacks_it(docker: Docker) -> None:
    name = f"taskforge-env:{uuid.uuid4().hex[:12]}"
    asked: list[str] = []
    # Of random content: no daemon has it.
    with flat([packed("lower", os.urandom(64))]) as below, flat([packed("upper", os.urandom(64))]) as above:

        def lower() -> Layer:
            asked.append(below.digest)
            return below

        config = configuration("environment", [below.digest, above.digest], {"size": "128"}, platform=here())
        for _time in range(2):
            loaded = load(docker.daemon, name, config, [below.digest, above], lower)
            assert asked == [below.digest]
        facts = docker.images.facts(name)
        assert (facts.layers, facts.digest, facts.size) == ((below.digest, above.digest), loaded, 128)
    docker.daemon.client.api.remove_image(name)


def layers(docker: Docker, name: str) -> list[bytes]:
    saved = io.BytesIO(b"".join(docker.daemon.client.api.get_image(name)))
    with tarfile.open(fileobj=saved) as archive:
        manifest = json.loads(archive.extractfile("manifest.json").read())  # type: ignore[union-attr]
        return [archive.extractfile(one).read() for one in manifest[0]["Layers"]]  # type: ignore[union-attr]


def test_no_layer_holds_what_a_solver_could_read(docker: Docker, own: Environment, calc: Snapshot) -> None:
    source = calc.tree["src/calc/core.py"].data
    lines = [line.strip() for line in source.splitlines() if len(line.strip()) > 30]
    assert len(lines) > 5
    docker.images.ensure(own, tools=False)
    names: list[str] = []
    found = layers(docker, docker.images.name(own.digest))
    assert len(found) == 2
    for layer in found:
        assert not any(line in layer for line in lines)
        with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
            names += archive.getnames()
            assert all(member.uname == "" and not member.isdev() for member in archive.getmembers())
    assert "env/bin/python" in names
    assert any(name.endswith("/os.py") for name in names)
    parts = [set(name.split("/")) for name in names]
    for vendors in ("pip", "setuptools", "_vendor", "_bundled", "wheel", "pkg_resources", "lib2to3_tests"):
        assert not any(vendors in one for one in parts), vendors
    assert not [name for name in names if name.endswith(".whl") or name.startswith((".taskforge", "etc/resolv"))]


def tamper(docker: Docker, name: str) -> str:
    """Another image under the same name, with a file of ours replaced."""
    api = docker.daemon.client.api
    container = api.create_container(name, entrypoint=["/bin/true"])["Id"]
    try:
        api.put_archive(container, "/", packed("env/bin/evil", b"evil"))
        repository, _, tag = name.partition(":")
        return str(api.commit(container, repository=repository, tag=tag)["Id"])
    finally:
        api.remove_container(container)


def forge(docker: Docker, name: str) -> str:
    """Another image under the same name that says of itself what ours says: only its layers are others."""
    found: Any = inspect(docker.daemon, name)
    labels = {key.removeprefix("taskforge."): value for key, value in found["Config"]["Labels"].items()}
    labels.pop("kind")
    with flat([packed("env/bin/evil", b"evil")]) as layer:
        below = found["RootFS"]["Layers"]
        config = configuration("environment", [*below, layer.digest], labels, platform=here())
        return load(docker.daemon, name, config, [*below, layer], lambda: layer)


@pytest.mark.parametrize("pinned", [True, False])
@pytest.mark.parametrize("how", [tamper, forge])
def test_a_changed_image_under_the_right_name_is_not_used(
    docker: Docker,
    own: Environment,
    how: Callable[[Docker, str], str],
    pinned: bool,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    image = docker.images.image(own)
    name = docker.images.name(own.digest)
    changed = how(docker, name)
    assert docker.daemon.client.api.inspect_image(name)["Id"] == changed != image.digest
    assert docker.images.facts(name).digest != image.digest
    with caplog.at_level(logging.WARNING):
        used = Docker(tmp_path).images.ensure(replace(own, image=image if pinned else None), tools=False)
    assert used == image.digest
    assert docker.daemon.client.api.inspect_image(name)["Id"] == image.digest
    assert ("is not used" in caplog.text) == pinned
    docker.daemon.client.api.remove_image(changed)


def test_what_cannot_be_made_as_pinned_is_a_fault(docker: Docker, own: Environment, tmp_path: Path) -> None:
    image = docker.images.image(own)
    drop(docker, own)
    other = Image(**{**image.model_dump(), "digest": "sha256:" + "a" * 64, "layers": (image.layers[0], image.digest)})
    images = Docker(tmp_path).images
    with pytest.raises(SandboxFault, match="pins, is missing; what can be made here is") as caught:
        images.ensure(replace(own, image=other), tools=False)
    assert caught.value.message.endswith("this host's environment holds other files")
    assert (caught.value.kind, caught.value.retryable) == ("image_differs", False)
    for remedy in ("images load", "pull", "images build --replace"):
        assert remedy in caught.value.hint
    # Nothing was given to the daemon under that name.
    with pytest.raises(SandboxFault, match="has no image") as absent:
        images.facts(images.name(own.digest))
    assert absent.value.kind == "docker_image"
    with pytest.raises(SandboxFault, match="is missing and cannot be made here") as baseless:
        Docker(tmp_path, base="taskforge-absent:{minor}").images.ensure(replace(own, image=image), tools=False)
    assert (baseless.value.kind, baseless.value.retryable) == ("docker_base", False)
    assert "images load" in baseless.value.hint


def test_a_pinned_image_that_was_removed_is_made_again(docker: Docker, own: Environment) -> None:
    image = docker.image(own)
    assert docker.images.leased(image.digest)
    used = docker.images.last_used(image.digest)
    spec = SandboxSpec(environment=replace(own, image=image), tree=Tree({}))
    docker.images.ensure(spec.environment, tools=False)
    drop(docker, own)
    with docker.start(spec) as sandbox:
        assert sandbox.exec(["/bin/echo", "well"], timeout=10).output == b"well\n"
    assert docker.images.facts(docker.images.name(own.digest)).digest == image.digest
    later = docker.images.last_used(image.digest)
    assert used is not None
    assert later is not None
    assert later > used


def test_a_generated_task_says_its_image(docker: Docker, cache: Path, tmp_path: Path) -> None:
    settings = Settings(cache_dir=cache)
    out = tmp_path / "corpus"
    options = Options(jobs=2, baseline_runs=1, max_tasks=1)
    report = generate(Source.parse(str(REPO)), out, options, settings=settings, backend=docker)
    corpus = Corpus.open(out)
    card = corpus.card(report.tasks[0])
    image = corpus.image(card.environment)
    assert image is not None
    assert (card.image, card.platform) == (image.digest, here())
    assert image.digest == docker.images.facts(docker.images.name(card.environment)).digest
    assert image.base.partition("@")[0] == docker.images.bases.names(".".join(image.python.split(".")[:2]))[0]
    with Pool(docker, size=0) as pool:
        grader = grader_for(corpus, card.id, pool=pool, backend=docker, settings=settings)
        assert grader.environment.image == image
        assert grader.grade(reference_of(grader.bundle), Policy()).resolved
        other = image.model_copy(update={"digest": "sha256:" + "b" * 64})
        corpus.write_image(card.environment, other, replace=True)
        with pytest.raises(CorpusError, match=f"was proven in image {image.digest[7:19]}, and the corpus has bbbb"):
            grader_for(corpus, card.id, pool=pool, backend=docker, settings=settings)


def test_a_base_that_is_there_is_taken_as_it_is(docker: Docker, own: Environment) -> None:
    base = docker.images.bases.get(minor(own))
    said_of: list[str] = []
    before: Any = inspect(docker.daemon, base.name)
    name = make_base(docker.daemon, minor(own), log=said_of.append)
    assert (name, said_of) == (f"taskforge-base:{minor(own)}", [])
    after: Any = inspect(docker.daemon, name)
    assert before["Id"] == after["Id"]


def test_a_base_that_cannot_be_made_says_why(docker: Docker) -> None:
    with pytest.raises(SandboxFault, match=r"no base image with Python 3\.99 can be made: this host has no") as caught:
        make_base(docker.daemon, "3.99", how="host", log=print)
    assert caught.value.kind == "docker_base"
    assert "uv python install 3.99" in caught.value.hint
