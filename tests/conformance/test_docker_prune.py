"""What images take of a daemon's disk, and what is removed when room is short."""

from __future__ import annotations

import io
import os
import time

import pytest

from taskforge.sandbox.docker import Docker
from taskforge.sandbox.docker_prune import Pruned, Stay, _remove, prune, stays, taken
from taskforge.sandbox.docker_use import Use
from tests.conformance.small_images import BASE, layer, names, put

MARGIN = 200_000


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
