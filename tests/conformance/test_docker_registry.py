"""Images of environments by a registry: a real one, and one that says no."""

from __future__ import annotations

import http.server
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taskforge.cli.grade import grader_for
from taskforge.cli.images_build import _made
from taskforge.corpus import Corpus
from taskforge.corpus.bundle import Bundle
from taskforge.errors import SandboxFault, UsageError
from taskforge.generate import environment as environments
from taskforge.generate.acquire import Snapshot
from taskforge.grade import Submission
from taskforge.grade.grading import reference_of
from taskforge.model import Image, Policy
from taskforge.sandbox import Backend, backend
from taskforge.sandbox.docker import Docker
from taskforge.sandbox.docker_prune import stays
from taskforge.sandbox.docker_registry import _refused, checked_repository, pull, push
from taskforge.sandbox.docker_transport import held
from taskforge.sandbox.pool import Pool
from taskforge.settings import Settings
from tests.conformance.daemons import docker_registry
from tests.conformance.small_images import names, put, quiet


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Docker:
    """A new installation on the daemon of this machine."""
    backend("docker")
    return Docker(tmp_path_factory.mktemp("first"))


@pytest.fixture(scope="module")
def corpus(
    first: Docker, calc: Snapshot, evaluate_bundle: Bundle, bubblewrap: Backend, cache: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Corpus:  # fmt: skip
    """One task, pinned to an image that the first daemon has."""
    made = Corpus.create(tmp_path_factory.mktemp("corpus") / "corpus", {})
    recipe, _environment = environments.build(calc, backend=bubblewrap, cache=cache, log=print)
    made.write_snapshot(calc.tree)
    made.write_recipe(recipe, {})
    made.write(evaluate_bundle)
    made.write_image(recipe.digest, _made(made, recipe.digest, first, Settings(cache_dir=cache), pinned=True))
    return made


@pytest.fixture(scope="module")
def environment(corpus: Corpus) -> str:
    return corpus.environment_digests()[0]


@pytest.fixture(scope="module")
def pin(corpus: Corpus, environment: str) -> Image:
    found = corpus.image(environment)
    assert found is not None
    return found


def verdicts(corpus: Corpus, docker: Docker, cache: Path) -> list[dict[str, Any]]:
    """Of three submissions: nothing, the reference, and one that is wrong. All but times."""
    found = []
    with Pool(docker, size=0) as pool:
        settings = Settings(cache_dir=cache)
        grader = grader_for(corpus, corpus.task_ids()[0], pool=pool, backend=docker, settings=settings)
        wrong = grader.bundle.reference_patch.replace(b"return", b"raise", 1)
        for given in (Submission.empty(), reference_of(grader.bundle), Submission.patch(wrong)):
            facts = grader.grade(given, Policy(full=True, reward="fraction")).model_dump(mode="json")
            facts.pop("phases")
            for test in facts["tests"]:
                test.pop("seconds")
                test["reason"] = re.sub(r"0x[0-9a-f]+", "0x", test["reason"])
            found.append(facts)
    assert [facts["outcome"] for facts in found] == ["failed", "resolved", "failed"]
    return found


def test_a_task_gets_the_same_verdict_where_its_image_was_pulled(
    first: Docker, second: Docker, corpus: Corpus, environment: str, pin: Image, registry: str, cache: Path
) -> None:
    repository = f"{registry}/team/tasks"
    pushed = push(first.images, environment, pin, repository, quiet)
    assert re.fullmatch(rf"{repository}@sha256:[0-9a-f]{{64}}", pushed.reference)
    assert pushed.digest == pin.digest
    assert not [name for one in first.daemon.client.api.images() for name in one["RepoTags"] or () if registry in name]
    assert pull(second.images, environment, pushed, "", quiet)
    assert names(second) == [[second.images.name(environment)]]
    assert not pull(second.images, environment, pushed, "", quiet)
    assert verdicts(corpus, second, cache) == verdicts(corpus, first, cache)
    # Graded in what was pulled: there is nothing else in that daemon, nor a base to make it of.
    assert [one.environment for one in stays(second.images)] == [environment]
    assert len(second.daemon.client.api.images()) == 1


def test_an_image_is_pulled_by_its_environments_tag(second: Docker, registry: str) -> None:
    pin = second.images.facts(put(second, "1", own=10))
    push(second.images, "1" * 64, pin, f"{registry}/by-tag", quiet)
    second.daemon.client.api.remove_image(second.images.name("1" * 64))
    assert names(second) == []
    assert pull(second.images, "1" * 64, pin, f"{registry}/by-tag", quiet)
    assert names(second) == [[second.images.name("1" * 64)]]
    assert held(second.images, "1" * 64, pin.digest)


def test_what_is_pulled_and_is_not_the_pinned_one_goes(second: Docker, registry: str) -> None:
    image = put(second, "2", own=10)
    pin = second.images.facts(image)
    pushed = push(second.images, "2" * 64, pin, f"{registry}/other", quiet)
    second.daemon.client.api.remove_image(image)
    other = pushed.model_copy(update={"digest": "sha256:" + "0" * 64})
    for where in ("", f"{registry}/other"):
        with pytest.raises(SandboxFault, match="has another") as caught:
            pull(second.images, "2" * 64, other, where, quiet)
        assert caught.value.kind == "image_differs"
        assert names(second) == []


def test_pushing_leaves_a_name_that_somebody_gave(second: Docker, registry: str) -> None:
    mine, other = put(second, "3", own=10), put(second, "4", own=10)
    second.daemon.client.api.tag(other, f"{registry}/named", "3" * 12)
    push(second.images, "3" * 64, second.images.facts(mine), f"{registry}/named", quiet)
    assert second.daemon.client.api.inspect_image(f"{registry}/named:{'3' * 12}")["Id"] == other


class _Denies(http.server.BaseHTTPRequestHandler):
    """Gives a token to nobody."""

    def do_GET(self) -> None:
        self.send_response(401)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_args: object) -> None:
        """Say nothing."""


@pytest.fixture
def denying(tmp_path: Path) -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Denies) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        auth = f"auth: {{silly: {{realm: 'http://127.0.0.1:{server.server_port}/token', service: silly}}}}\n"
        (tmp_path / "registry").mkdir()
        with docker_registry(tmp_path / "registry", auth=auth) as host:
            yield host
        server.shutdown()


def test_a_registry_that_denies(second: Docker, denying: str) -> None:
    pin = second.images.facts(put(second, "5", own=10))
    with pytest.raises(SandboxFault) as caught:
        push(second.images, "5" * 64, pin, f"{denying}/x", quiet)
    assert caught.value.kind == "registry_denied"
    assert "docker login" in caught.value.hint
    assert names(second) == [[second.images.name("5" * 64)]]
    lost = pin.model_copy(update={"digest": "sha256:" + "0" * 64})
    with pytest.raises(SandboxFault) as caught:
        pull(second.images, "6" * 64, lost, f"{denying}/x", quiet)
    assert caught.value.kind == "registry_denied"


def test_a_registry_that_has_it_not_or_is_not_there(second: Docker, registry: str) -> None:
    pin = second.images.facts(put(second, "7", own=10))
    with pytest.raises(SandboxFault) as caught:
        pull(second.images, "8" * 64, pin, f"{registry}/nothing", quiet)
    assert (caught.value.kind, caught.value.retryable) == ("registry_absent", False)
    with pytest.raises(SandboxFault) as caught:
        push(second.images, "7" * 64, pin, "127.0.0.1:1/x", quiet)
    assert (caught.value.kind, caught.value.retryable) == ("registry_unreachable", True)
    with pytest.raises(SandboxFault, match="the daemon has no image"):
        push(second.images, "8" * 64, pin, f"{registry}/x", quiet)
    with pytest.raises(UsageError, match="nobody pushed"):
        pull(second.images, "8" * 64, pin, "", quiet)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ('Get "https://r:5000/v2/": http: server gave HTTP response to HTTPS client', "registry_insecure"),
        ('Get "https://r/v2/": x509: certificate signed by unknown authority', "registry_insecure"),
        ("denied: requested access to the resource is denied", "registry_denied"),
        ("unauthorized: authentication required", "registry_denied"),
        ('Get "https://no.example/v2/": dial tcp: lookup no.example: no such host', "registry_unreachable"),
        ("name unknown: repository name not known to registry", "registry_absent"),
        ("write /var/lib/docker/tmp/x: no space left on device", "docker_disk"),
        ("unexpected status code 500", "registry_failed"),
    ],
)
def test_what_registries_say(said: str, kind: str) -> None:
    fault = _refused("pushing", said)
    assert fault.kind == kind
    assert said in fault.message
    assert fault.hint


@pytest.mark.parametrize("name", ["r.example.org/a", "localhost:5000/a/b-c_d.e", "[::1]:5000/a", "user/repo"])
def test_names_of_repositories(name: str) -> None:
    assert checked_repository(name) == name


@pytest.mark.parametrize("name", ["", "a", "r:5000", "r/A", "r/a:tag", "r/a@sha256:0", "https://r/a", "r//a", "r/a/", "-"])
def test_what_names_no_repository(name: str) -> None:
    with pytest.raises(UsageError, match="no repository"):
        checked_repository(name)
