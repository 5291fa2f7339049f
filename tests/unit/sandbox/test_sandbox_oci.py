"""Images in a file: the same bytes for the same images, and nothing believed that was not held against its digest."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from taskforge.errors import CorpusError, SandboxFault
from taskforge.sandbox.oci import Layout, Stored
from taskforge.sandbox.oci_write import Spool, write_layout

ONE, TWO = "1" * 64, "2" * 64
NAMES = {"taskforge-env:" + digest[:12]: digest for digest in (ONE, TWO)}


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def tarred(files: dict[str, bytes], links: dict[str, str] | None = None) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
        for name, target in (links or {}).items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            tar.addfile(member)
    return out.getvalue()


#: Larger than one block, and hard to compress.
BASE = tarred({"lib/python": b"".join(hashlib.sha256(b"%d" % number).digest() for number in range(90_000))})
LAYERS = {ONE: [BASE, tarred({"env/one": b"1"})], TWO: [BASE, tarred({"env/two": b"2"})]}


def config(layers: list[bytes]) -> bytes:
    diffs = ["sha256:" + sha(layer) for layer in layers]
    return json.dumps({"os": "linux", "architecture": "amd64", "rootfs": {"diff_ids": diffs}}).encode()


CONFIGS = {digest: config(layers) for digest, layers in LAYERS.items()}


def exported(*, modern: bool = False, packed: bool = False) -> bytes:
    """What ``docker save`` gives of both images: before version 25, since then, and from containerd's store."""
    files: dict[str, bytes] = {}
    links: dict[str, str] = {}
    entries = []
    for name, digest in NAMES.items():
        paths = []
        for number, layer in enumerate(LAYERS[digest]):
            data = gzip.compress(layer) if packed else layer
            path = f"blobs/sha256/{sha(data)}" if modern else f"{digest[:8]}{number}/layer.tar"
            if not modern and layer is BASE and digest == TWO:
                links[path] = f"../{ONE[:8]}0/layer.tar"
            else:
                files[path] = data
            paths.append(path)
        place = f"blobs/sha256/{sha(CONFIGS[digest])}" if modern else f"{sha(CONFIGS[digest])}.json"
        files[place] = CONFIGS[digest]
        entries.append({"Config": place, "RepoTags": [name], "Layers": paths})
    entries.append({"Config": "other.json", "RepoTags": None, "Layers": []})
    return tarred({**files, "1111/VERSION": b"1.0", "manifest.json": json.dumps(entries).encode()}, links)


def spooled(folder: Path, data: bytes) -> tuple[Spool, tuple[Stored, ...]]:
    folder.mkdir()
    spool = Spool(folder)
    spool.take(io.BytesIO(data), lambda _done: None)
    return spool, spool.images(NAMES)


def written(folder: Path, data: bytes) -> Path:
    spool, images = spooled(folder, data)
    with (folder / "images.tar").open("wb") as out:
        write_layout(out, images, spool.blobs)
    return folder / "images.tar"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("oci") / "spool", exported())


def members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        return {one.name: tar.extractfile(one).read() for one in tar if one.isreg()}  # type: ignore[union-attr]


def test_the_archive_is_an_oci_layout_and_what_docker_loads(archive: Path) -> None:
    found = members(archive)
    assert json.loads(found["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    assert all(sha(data) == name[13:] for name, data in found.items() if name.startswith("blobs/"))
    index = json.loads(found["index.json"])
    assert [one["annotations"]["org.taskforge.environment"] for one in index["manifests"]] == [ONE, TWO]
    assert index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"] == ONE[:12]
    assert index["manifests"][0]["platform"] == {"architecture": "amd64", "os": "linux"}
    for entry, (name, digest) in zip(json.loads(found["manifest.json"]), NAMES.items(), strict=True):
        assert entry["RepoTags"] == [name]
        assert found[entry["Config"]] == CONFIGS[digest]
        assert [gzip.decompress(found[path]) for path in entry["Layers"]] == LAYERS[digest]
    # Two configurations, two manifests, and three layers: the shared one is there once.
    assert len([name for name in found if name.startswith("blobs/")]) == 7


def test_neither_times_nor_owners_get_in(archive: Path) -> None:
    with tarfile.open(archive) as tar:
        assert {(one.mtime, one.uid, one.gid, one.uname) for one in tar} == {(0, 0, 0, "")}
    layer = next(data for name, data in members(archive).items() if data.startswith(b"\x1f\x8b"))
    assert layer[4:8] == bytes(4)


@pytest.mark.parametrize(("modern", "packed"), [(True, False), (True, True), (False, True)])
def test_the_same_images_are_the_same_bytes(archive: Path, tmp_path: Path, modern: bool, packed: bool) -> None:
    assert written(tmp_path / "s", exported(modern=modern, packed=packed)).read_bytes() == archive.read_bytes()


def test_what_was_written_is_read(archive: Path, tmp_path: Path) -> None:
    with Layout(archive) as layout:
        layout.verify(layout.images, lambda *_said: None)
        assert [(one.environment, one.name, one.platform) for one in layout.images] == [
            (digest, name, "linux/amd64") for name, digest in NAMES.items()
        ]
        assert [one.config.digest for one in layout.images] == ["sha256:" + sha(CONFIGS[one]) for one in (ONE, TWO)]
        (tmp_path / "t.tar").write_bytes(b"".join(layout.archive(layout.images[:1])))
    found = members(tmp_path / "t.tar")
    manifest = json.loads(found["manifest.json"])
    assert len(found) == 4
    assert [entry["RepoTags"] for entry in manifest] == [["taskforge-env:" + ONE[:12]]]
    assert [gzip.decompress(found[path]) for path in manifest[0]["Layers"]] == LAYERS[ONE]


def test_progress_ends_at_the_end(archive: Path) -> None:
    heard: list[tuple[int, int]] = []
    with Layout(archive) as layout:
        layout.verify((), lambda _what, done, total: heard.append((done, total)))
    assert heard == sorted(heard)
    assert heard[-1][0] == heard[-1][1] > 2_000_000


# -- damage -----------------------------------------------------------------------------------------------------------


def largest(path: Path) -> tarfile.TarInfo:
    with tarfile.open(path) as tar:
        return max(tar, key=lambda one: one.size)


def changed(path: Path, place: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    files = members(path)
    change(files)
    place.write_bytes(tarred(files))
    return place


def refusal(path: Path) -> CorpusError:
    with pytest.raises(CorpusError) as caught, Layout(path) as layout:
        layout.verify(layout.images, lambda *_said: None)
    assert str(path) in caught.value.message
    assert caught.value.hint
    return caught.value


def test_a_flipped_bit_names_the_blob(archive: Path, tmp_path: Path) -> None:
    member = largest(archive)
    data = bytearray(archive.read_bytes())
    data[member.offset_data + member.size // 2] ^= 4
    (tmp_path / "t.tar").write_bytes(data)
    # Even in a layer of an image that is not wanted.
    with pytest.raises(CorpusError, match=member.name[13:]), Layout(tmp_path / "t.tar") as layout:
        layout.verify((), lambda *_said: None)
    assert member.name.replace("blobs/sha256/", "sha256:") in refusal(tmp_path / "t.tar").message


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.01, 0.5, 0.99])
def test_a_cut_off_archive_is_refused(archive: Path, tmp_path: Path, share: float) -> None:
    data = archive.read_bytes()
    (tmp_path / "t.tar").write_bytes(data[: int(len(data) * share)])
    assert any(word in refusal(tmp_path / "t.tar").message for word in ("cut off", "missing", "no OCI image layout"))


def test_a_missing_layer_is_named(archive: Path, tmp_path: Path) -> None:
    name = largest(archive).name
    place = changed(archive, tmp_path / "t.tar", lambda files: files.pop(name) and None)
    assert f"{name[13:]} is missing" in refusal(place).message


def test_a_layer_that_its_image_does_not_name(archive: Path, tmp_path: Path) -> None:
    def swap(files: dict[str, bytes]) -> None:
        """All digests of blobs hold, but the image's configuration means other content."""
        index = json.loads(files["index.json"])
        entry = index["manifests"][0]
        manifest = json.loads(files["blobs/sha256/" + entry["digest"][7:]])
        foreign = gzip.compress(tarred({"env/evil": b"0"}), mtime=0)
        files["blobs/sha256/" + sha(foreign)] = foreign
        manifest["layers"][1] |= {"digest": "sha256:" + sha(foreign), "size": len(foreign)}
        data = json.dumps(manifest).encode()
        files["blobs/sha256/" + sha(data)] = data
        entry |= {"digest": "sha256:" + sha(data), "size": len(data)}
        files["index.json"] = json.dumps(index).encode()

    assert "is not the layer" in refusal(changed(archive, tmp_path / "t.tar", swap)).message


def edited(key: str, value: Any) -> Callable[[dict[str, bytes]], None]:
    def edit(files: dict[str, bytes]) -> None:
        index = json.loads(files["index.json"])
        index["manifests"][0][key] = value
        files["index.json"] = json.dumps(index).encode()

    return edit


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda files: files.pop("index.json"), "no OCI image layout"),
        (lambda files: files.update({"index.json": b"{"}), "is no JSON"),
        (lambda files: files.update({"index.json": b"[]"}), "lists no manifests"),
        (lambda files: files.update({"index.json": b" " * (1 << 23)}), "is too long"),
        (edited("annotations", {}), "none of taskforge's"),
        (edited("digest", "sha256:" + "0" * 64), "is missing"),
        (edited("digest", "sha256:../../etc/passwd"), "is no digest"),
        (edited("size", 1), "bytes where 1 are wanted"),
    ],
)
def test_a_foreign_archive_is_refused(
    archive: Path, tmp_path: Path, change: Callable[[dict[str, bytes]], None], says: str
) -> None:
    assert says in refusal(changed(archive, tmp_path / "t.tar", change)).message


def test_no_archive_at_all(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no archive " * 1000)
    assert "no archive of images" in refusal(tmp_path / "text").message
    assert "No such file" in refusal(tmp_path / "absent").message


@pytest.mark.parametrize("data", [exported()[:100_000], exported()[: len(BASE) + 2000], b"", b"no archive" * 1000])
def test_a_broken_export_is_a_fault(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(SandboxFault) as caught:
        spooled(tmp_path / "s", data)
    assert caught.value.kind == "docker_export"
