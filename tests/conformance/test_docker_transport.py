"""Images of environments from one daemon to another by file: whole or not at all, and never another than the pin."""

from __future__ import annotations

import io
import os
import stat
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from taskforge.errors import CorpusError, SandboxFault, UsageError
from taskforge.model import Image
from taskforge.sandbox.docker import Docker
from taskforge.sandbox.docker_prune import stays
from taskforge.sandbox.docker_transport import held, load, present, save, set_aside
from taskforge.sandbox.oci import Layout, Stored
from tests.conformance.small_images import names, put, quiet


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


def test_a_device_is_never_replaced_by_an_archive(second: Docker, tmp_path: Path) -> None:
    pin = second.images.facts(put(second, "d", own=10))
    device = tmp_path / "null"
    os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    with pytest.raises(UsageError, match="is no file"):
        save(second.images, {"d" * 64: pin}, device, quiet)
    assert stat.S_ISCHR(device.stat().st_mode)


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
