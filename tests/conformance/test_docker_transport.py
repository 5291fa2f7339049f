"""Images of environments from one daemon to another, by file and by registry, and what is removed when room is short."""

from __future__ import annotations

import http.server
import io
import os
import random
import re
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from taskforge.cli.grade import grader_for
from taskforge.cli.images_build import _made
from taskforge.corpus import Corpus
from taskforge.corpus.bundle import Bundle
from taskforge.errors import CorpusError, SandboxFault, UsageError
from taskforge.generate import environment as environments
from taskforge.generate.acquire import Snapshot
from taskforge.grade import Submission
from taskforge.grade.grading import reference_of
from taskforge.model import Image, Policy
from taskforge.sandbox import Backend, backend
from taskforge.sandbox.docker import Docker
from taskforge.sandbox.docker_config import configuration
from taskforge.sandbox.docker_prune import Pruned, Stay, _remove, prune, stays, taken
from taskforge.sandbox.docker_registry import _refused, checked_repository, pull, push
from taskforge.sandbox.docker_transport import held, load, present, save, set_aside, told
from taskforge.sandbox.docker_use import Use
from taskforge.sandbox.oci import Blob, Layout, Stored, digest
from taskforge.sandbox.oci_write import write_layout
from taskforge.sandbox.platforms import here
from taskforge.sandbox.pool import Pool
from taskforge.settings import Settings
from tests.conformance.daemons import docker_registry


def quiet(_what: str, _done: int, _total: int) -> None:
    """Nobody watches."""


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Docker:
    """A new installation on the daemon of this machine."""
    backend("docker")
    return Docker(tmp_path_factory.mktemp("first"))


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


# -- by file ----------------------------------------------------------------------------------------------------------


def test_a_task_gets_the_same_verdict_where_its_image_was_loaded(
    first: Docker, second: Docker, corpus: Corpus, environment: str, pin: Image, cache: Path, tmp_path: Path
) -> None:
    save(first.images, {environment: pin}, tmp_path / "images.tar", quiet)
    with Layout(tmp_path / "images.tar") as layout:
        done = load(second.images, layout, {environment: pin, "f" * 64: pin}, quiet)
        again = load(second.images, layout, {environment: pin}, quiet)
    assert (done.loaded, done.present, done.absent) == ((environment,), (), ("f" * 64,))
    assert (again.loaded, again.present, again.absent) == ((), (environment,), ())
    assert second.images.facts(second.images.name(environment)).digest == pin.digest
    assert verdicts(corpus, second, cache) == verdicts(corpus, first, cache)
    # Graded in what was loaded: there is nothing else in that daemon, nor a base to make it of.
    assert [one.environment for one in stays(second.images)] == [environment]
    assert len(second.daemon.client.api.images()) == 1


@pytest.fixture
def small(second: Docker, tmp_path: Path) -> tuple[Path, dict[str, Image]]:
    """An archive of two images that the second daemon does not have any more, and their pins."""
    ids = {letter * 64: put(second, letter, own=3_000_000) for letter in "de"}
    pins = {name: second.images.facts(image) for name, image in ids.items()}
    save(second.images, pins, tmp_path / "small" / "images.tar", quiet)
    for image in ids.values():
        second.daemon.client.api.remove_image(image)
    return tmp_path / "small" / "images.tar", pins


def test_what_was_loaded_is_saved_as_the_same_bytes(
    second: Docker, small: tuple[Path, dict[str, Image]], tmp_path: Path
) -> None:
    place, pins = small
    with tarfile.open(place) as tar:
        # The base once, and a layer of each.
        assert len([one for one in tar if one.size > 2_000_000]) == 3
    second.daemon.client.api.tag(put(second, "c", own=10), "taskforge-env", "e" * 12)
    with Layout(place) as layout:
        # What had the name of another loses it.
        assert load(second.images, layout, pins, quiet).loaded == tuple(pins)
    assert all(held(second.images, name, pin.digest) for name, pin in pins.items())
    assert min(one.arrived for one in stays(second.images) if one.names) > time.time() - 600
    save(second.images, pins, tmp_path / "again" / "images.tar", quiet)
    assert (tmp_path / "again" / "images.tar").read_bytes() == place.read_bytes()
    assert [one.name for one in (tmp_path / "again").iterdir()] == ["images.tar"]


def test_only_what_is_missing_is_loaded(second: Docker, small: tuple[Path, dict[str, Image]]) -> None:
    place, pins = small
    one, two = pins
    for wanted, loaded, there in (({one: pins[one]}, (one,), ()), (pins, (two,), (one,)), (None, (), (one, two))):
        with Layout(place) as layout:
            done = load(second.images, layout, wanted, quiet)
        assert (done.loaded, done.present) == (loaded, there)


def test_nothing_of_a_damaged_archive_reaches_the_daemon(
    second: Docker, small: tuple[Path, dict[str, Image]]
) -> None:
    place, pins = small
    with tarfile.open(place) as tar:
        largest = max(tar, key=lambda one: one.size)
    with place.open("r+b") as stream:
        stream.seek(largest.offset_data + largest.size // 2)
        byte = stream.read(1)[0]
        stream.seek(-1, io.SEEK_CUR)
        stream.write(bytes([byte ^ 1]))
    with pytest.raises(CorpusError, match=largest.name[13:]), Layout(place) as layout:
        load(second.images, layout, pins, quiet)
    assert second.daemon.client.api.images() == []


def test_an_image_that_is_not_the_pinned_one_is_not_loaded(
    second: Docker, small: tuple[Path, dict[str, Image]]
) -> None:
    place, pins = small
    other = {name: pin.model_copy(update={"digest": "sha256:" + "0" * 64}) for name, pin in pins.items()}
    with pytest.raises(SandboxFault, match="is pinned to image 000000000000") as caught, Layout(place) as layout:
        load(second.images, layout, other, quiet)
    assert (caught.value.kind, caught.value.retryable) == ("image_differs", False)
    assert second.daemon.client.api.images() == []


def test_an_archive_cannot_take_another_name(second: Docker, small: tuple[Path, dict[str, Image]]) -> None:
    place, pins = small
    with Layout(place) as layout:
        stored = layout.images[0]
        layout.images = (Stored(**{**stored.__dict__, "name": "taskforge-base:3.12"}),)
        for wanted in (pins, None):
            with pytest.raises(CorpusError, match="calls the image"):
                load(second.images, layout, wanted, quiet)
    assert second.daemon.client.api.images() == []


def test_saving_what_the_daemon_lacks_leaves_the_old_file(
    second: Docker, small: tuple[Path, dict[str, Image]], tmp_path: Path
) -> None:
    (tmp_path / "images.tar").write_bytes(b"old")
    with pytest.raises(SandboxFault, match="the daemon has no image") as caught:
        save(second.images, small[1], tmp_path / "images.tar", quiet)
    assert caught.value.kind == "docker_image"
    assert (tmp_path / "images.tar").read_bytes() == b"old"


def test_an_interrupted_save_leaves_nothing(second: Docker, tmp_path: Path) -> None:
    def interrupt(_what: str, done: int, _total: int) -> None:
        if done > 2_000_000:
            raise KeyboardInterrupt

    pin = second.images.facts(put(second, "d", own=3_000_000))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".images.tar.4194399.0123abcd.tmp").mkdir()
    with pytest.raises(KeyboardInterrupt):
        save(second.images, {"d" * 64: pin}, tmp_path / "out" / "images.tar", interrupt)
    # Nor what one left that was killed.
    assert list((tmp_path / "out").iterdir()) == []


def test_what_is_set_aside_is_back_after_a_failure(second: Docker) -> None:
    image = put(second, "1", own=10)
    name = second.images.name("1" * 64)
    with pytest.raises(KeyboardInterrupt), set_aside(second.images, "1" * 64):
        assert not held(second.images, "1" * 64, image)
        raise KeyboardInterrupt
    assert names(second) == [[name]]
    with set_aside(second.images, "1" * 64):
        assert present(second.images, "1" * 64) == ""
    assert names(second) == []
    with set_aside(second.images, "1" * 64):
        pass


# -- by registry ------------------------------------------------------------------------------------------------------


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


# -- making room ------------------------------------------------------------------------------------------------------

BASE = 4_000_000
MARGIN = 200_000


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


@pytest.fixture
def three(second: Docker) -> dict[str, str]:
    """Images used one, two and three hours ago, 1, 2 and 3 MB over one base."""
    found = {letter: put(second, letter, own=number * 1_000_000) for number, letter in enumerate("abc", 1)}
    use(second, **{letter: 4.0 - number for number, letter in enumerate("abc", 1)}, ids=found)
    return found


def use(docker: Docker, *, ids: dict[str, str], **hours: float) -> None:
    """This many hours ago."""
    for letter, ago in hours.items():
        held = Use(docker.daemon.folder / "images")
        held.begin(ids[letter])
        held.end(ids[letter])
        then = time.time() - 3600 * ago
        os.utime(docker.daemon.folder / "images" / ids[letter].removeprefix("sha256:"), (then, then))


def letters(found: list[Stay] | tuple[Stay, ...]) -> str:
    return "".join(one.environment[:1] for one in found)


def test_what_is_shared_is_counted_once(second: Docker, three: dict[str, str]) -> None:
    found = stays(second.images)
    assert letters(found) == "abc"
    assert abs(taken(found) - (BASE + 6_000_000)) < MARGIN
    assert [round(one.own / 1_000_000) for one in found] == [1, 2, 3]
    assert [round(one.size / 1_000_000) for one in found] == [5, 6, 7]
    assert all(one.arrived == 0 and one.last_used is not None and not one.leased for one in found)
    second.daemon.client.api.tag(three["a"], "taskforge-env", "a" * 12)
    assert abs(next(one.arrived for one in stays(second.images) if one.id == three["a"]) - time.time()) < 600


@pytest.mark.parametrize(("budget", "gone"), [(BASE + 6_000_000, ""), (BASE + 5_500_000, "a"), (BASE + 3_100_000, "ab"), (0, "abc")])
def test_the_one_used_longest_ago_goes_first(second: Docker, three: dict[str, str], budget: int, gone: str) -> None:
    plan = prune(second.images, budget + MARGIN // 2, dry_run=True)
    assert len(names(second)) == 3
    done = prune(second.images, budget + MARGIN // 2)
    assert letters(plan.removed) == letters(done.removed) == gone
    assert (plan.before, plan.after) == (done.before, done.after)
    assert names(second) == sorted([second.images.name(letter * 64)] for letter in "abc" if letter not in gone)
    assert abs(taken(stays(second.images)) - done.after) < MARGIN
    assert done.kept == ()


def why(done: Pruned) -> dict[str, str]:
    return {one.environment[:1]: reason for one, reason in done.kept}


def test_what_is_used_stays(second: Docker, three: dict[str, str]) -> None:
    api = second.daemon.client.api
    config = {"Image": three["a"], "HostConfig": {"NetworkMode": "none"}}
    container = api.create_container_from_config(config)["Id"]
    held = Use(second.daemon.folder / "images")
    held.begin(three["b"])
    use(second, ids=three, c=-1.0)
    api.tag(three["c"], "somebody/calls-it", "so")
    foreign = put(second, "x", own=1_000_000, kind="environment")
    api.tag(foreign, "base-of-others", "1")
    api.remove_image(second.images.name("x" * 64))
    done = prune(second.images, 0)
    assert done.removed == ()
    assert why(done) == {
        "a": "1 container uses it", "b": "a process of this host uses it", "c": "somebody called it somebody/calls-it:so",
        "x": "somebody called it base-of-others:1",
    }  # fmt: skip
    api.remove_container(container)
    held.end(three["b"])
    assert letters(prune(second.images, 0).removed) in {"ab", "ba"}


def test_a_race_loses(second: Docker, three: dict[str, str]) -> None:
    before = stays(second.images)[0]
    config = {"Image": three["a"], "HostConfig": {"NetworkMode": "none"}}
    container = second.daemon.client.api.create_container_from_config(config)["Id"]
    assert _remove(second.images, before).startswith("the daemon keeps it")
    held = Use(second.daemon.folder / "images")
    held.begin(three["a"])
    assert _remove(second.images, before) == "a process of this host uses it"
    held.end(three["a"])
    second.daemon.client.api.remove_container(container)
    assert _remove(second.images, before) == ""
    assert _remove(second.images, before) == ""


def test_bases_go_when_nothing_lies_on_them(second: Docker, three: dict[str, str]) -> None:
    base = put(second, "0", own=0, kind="base")
    assert prune(second.images, 10 * BASE).removed == ()
    assert letters(prune(second.images, BASE + 3_100_000).removed) == "ab"
    assert [one.id for one in prune(second.images, 0).removed] == [three["c"], base]
    assert names(second) == []


def test_what_is_not_taskforges_stays(second: Docker) -> None:
    out = io.BytesIO(layer("own", 1_000_000))
    second.daemon.client.api.import_image_from_data(out.getvalue(), repository="other", tag="1")
    assert stays(second.images) == []
    assert prune(second.images, 0).removed == ()
    assert names(second) == [["other:1"]]


def test_an_image_that_lost_its_name_goes_first(second: Docker, three: dict[str, str]) -> None:
    use(second, ids=three, c=0.0)
    second.daemon.client.api.tag(three["b"], "taskforge-env", "c" * 12)
    done = prune(second.images, BASE + 3_100_000)
    assert letters(done.removed) == "c"


@pytest.mark.parametrize("kind", ["save", "load", "stays"])
def test_a_daemon_that_is_gone_is_a_fault(
    kind: str, small: tuple[Path, dict[str, Image]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, pins = small
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nowhere.sock")
    images = Docker(tmp_path / "d").images
    calls: dict[str, Callable[[], object]] = {
        "save": lambda: save(images, pins, tmp_path / "t.tar", quiet),
        "load": lambda: load(images, layout, pins, quiet),
        "stays": lambda: stays(images),
    }
    with pytest.raises(SandboxFault) as caught, Layout(place) as layout:
        calls[kind]()
    assert caught.value.kind == "docker_unreachable"
