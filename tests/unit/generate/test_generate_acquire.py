"""Sources become snapshots, from real archives, real git repositories and a real index on the loopback."""

from __future__ import annotations

import hashlib
import http.server
import io
import json
import os
import subprocess
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
import zstandard

from taskforge.errors import SourceError
from taskforge.generate import acquire_archive
from taskforge.generate.acquire import Snapshot, acquire
from taskforge.model import Entry, Source

Member = tarfile.TarInfo | tuple[str, bytes]


def take(text: str, cache: Path, index_url: str = "http://127.0.0.1:9/") -> Snapshot:
    return acquire(Source.parse(text), cache=cache, index_url=index_url, timeout=20)


def tar_of(members: list[Member], mode: str = "w:gz") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                archive.addfile(info, io.BytesIO(member[1]))
    return out.getvalue()


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = target
    return info


def git(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    argv = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", *arguments]
    return subprocess.run(argv, cwd=folder, env=environment, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / ".gitattributes").write_text("secret.txt export-ignore\nstamp.txt export-subst\n*.crlf eol=crlf\n")
    (folder / "secret.txt").write_text("kept\n")
    (folder / "stamp.txt").write_text("$Format:%H$\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("run.sh")
    (folder / ".gitignore").write_text("ignored.txt\n")
    (folder / "ignored.txt").write_text("no\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "one")
    return folder


SDIST = tar_of([
    ("demo_pkg-1.2/PKG-INFO", b"Metadata-Version: 2.4\nName: demo-pkg\nVersion: 1.2\nLicense-Expression: MIT\n\n"),
    ("demo_pkg-1.2/demo.py", b"x = 1\r\n"),
])


class Index(http.server.BaseHTTPRequestHandler):
    digest = hashlib.sha256(SDIST).hexdigest()
    hits: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        type(self).hits.append(self.path)
        files = [
            {"filename": "demo_pkg-1.2.tar.gz", "url": "../files/demo.tar.gz", "hashes": {"sha256": self.digest}},
            {"filename": "demo_pkg-1.3-py3-none-any.whl", "url": "x", "hashes": {"sha256": self.digest}},
            {"filename": "demo_pkg-1.4.tar.gz", "url": "../files/demo.tar.gz", "hashes": {"sha256": "0" * 64}},
        ]
        answers = {
            "/demo-pkg/": json.dumps({"files": files}).encode(),
            "/files/demo.tar.gz": SDIST,
            "/html/": b"<html></html>",
        }
        body = answers.get(self.path)
        self.send_response(200 if body is not None else 404)
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def index() -> Iterator[str]:
    Index.hits = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_a_release_is_fetched_once_and_then_needs_no_network(tmp_path: Path, index: str) -> None:
    first = take("pypi:Demo_Pkg==1.2.0", tmp_path, index)
    assert first.tree["demo.py"] == Entry(b"x = 1\r\n")
    assert first.label == f"pypi__demo-pkg-{first.digest[:8]}"
    assert (first.provenance.license, first.provenance.owner) == ("MIT", "pypi")
    hits = list(Index.hits)
    assert take("pypi:demo-pkg==1.2.0", tmp_path, index).digest == first.digest
    assert Index.hits == hits
    assert not list((tmp_path / "sources").glob(".partial*"))


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("pypi:nobody==1", "knows no project"),
        ("pypi:demo-pkg==9", "has no such version"),
        ("pypi:demo-pkg==1.3", "no sdist"),
        ("pypi:demo-pkg==1.4", "the index says 000000"),
        ("pypi:html==1", "PEP 691"),
    ],
)
def test_what_an_index_cannot_give_is_named(tmp_path: Path, index: str, source: str, says: str) -> None:
    with pytest.raises(SourceError, match=says) as caught:
        take(source, tmp_path, index)
    assert caught.value.hint


def test_an_unknown_version_names_those_that_exist(tmp_path: Path, index: str) -> None:
    with pytest.raises(SourceError) as caught:
        take("pypi:demo-pkg==9", tmp_path, index)
    assert "1.4, 1.2" in caught.value.hint


def test_no_network_says_so(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as caught:
        take("pypi:demo-pkg==1.2", tmp_path, "http://127.0.0.1:9/")
    assert "TASKFORGE_INDEX_URL" in caught.value.hint


def compress(data: bytes, suffix: str) -> bytes:
    return zstandard.ZstdCompressor().compress(data) if suffix == "tar.zst" else data


@pytest.mark.parametrize(
    ("suffix", "mode"), [("tar", "w"), ("tar.gz", "w:gz"), ("tar.bz2", "w:bz2"), ("tar.xz", "w:xz"), ("tar.zst", "w")]
)
def test_every_kind_of_tar_gives_the_same_tree(tmp_path: Path, suffix: str, mode: str) -> None:
    data = tar_of([("top/a.py", b"1\n"), ("top/sub/b", b"\xff\x00"), special("top/l", tarfile.SYMTYPE, "sub/b")], mode)
    path = tmp_path / f"thing-1.0.{suffix}"
    path.write_bytes(compress(data, suffix))
    snapshot = take(str(path), tmp_path)
    assert dict(snapshot.tree) == {"a.py": Entry(b"1\n"), "l": Entry(b"sub/b", "link"), "sub/b": Entry(b"\xff\x00")}
    assert snapshot.provenance.name == "thing-1.0"
    assert snapshot.provenance.origin == f"thing-1.0.{suffix} sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


def test_a_zip_keeps_links_and_modes(tmp_path: Path) -> None:
    path = tmp_path / "thing.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, mode, data in (("t/run", 0o100755, b"x"), ("t/l", 0o120777, b"run"), ("t/plain", 0o100644, b"")):
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, data)
    assert dict(take(str(path), tmp_path).tree) == {
        "l": Entry(b"run", "link"),
        "plain": Entry(b""),
        "run": Entry(b"x", "exec"),
    }


def test_two_top_entries_are_not_stripped(tmp_path: Path) -> None:
    path = tmp_path / "thing.tar"
    path.write_bytes(tar_of([("a/x", b"1"), ("b", b"2"), ("a/.git/config", b"no")], "w"))
    assert list(take(str(path), tmp_path).tree) == ["a/x", "b"]


@pytest.mark.parametrize(
    "member",
    [
        ("/etc/evil", b""),
        ("top/../../evil", b""),
        special("top/evil", tarfile.SYMTYPE, "/etc/passwd"),
        special("top/evil", tarfile.SYMTYPE, "../../x"),
        special("top/evil", tarfile.SYMTYPE, "up/../.."),
        special("top/evil", tarfile.CHRTYPE),
        special("top/evil", tarfile.FIFOTYPE),
        special("top/evil", tarfile.LNKTYPE, "nowhere/evil"),
        ("top/up/evil", b""),
    ],
)
def test_an_unsafe_member_refuses_the_archive_by_name(tmp_path: Path, member: Member) -> None:
    path = tmp_path / "bad.tar.gz"
    base: list[Member] = [("top/sub/a", b"1"), special("top/up", tarfile.SYMTYPE, "sub/..")]
    path.write_bytes(tar_of([*base, member]))
    with pytest.raises(SourceError, match=r"bad\.tar\.gz is refused: its member '.*evil'"):
        take(str(path), tmp_path)
    path.write_bytes(tar_of(base))
    assert list(take(str(path), tmp_path).tree) == ["sub/a", "up"]


@pytest.mark.parametrize("suffix", ["tar", "tar.gz", "tar.bz2", "tar.xz", "tar.zst", "zip"])
@pytest.mark.parametrize("damage", ["cut", "noise"])
def test_a_damaged_archive_is_named(tmp_path: Path, suffix: str, damage: str) -> None:
    path = tmp_path / f"bad.{suffix}"
    if suffix == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a", b"1" * 4000)
        whole = path.read_bytes()
    else:
        modes = {"tar.gz": "w:gz", "tar.bz2": "w:bz2", "tar.xz": "w:xz"}
        whole = compress(tar_of([("a", os.urandom(4000)), ("b", os.urandom(4000))], modes.get(suffix, "w")), suffix)
    path.write_bytes(whole[: len(whole) // 2] if damage == "cut" else b"no archive at all" * 40)
    with pytest.raises(SourceError, match=rf"the archive bad\.{suffix} is damaged"):
        take(str(path), tmp_path)


def test_a_damaged_header_in_the_middle_is_not_the_end(tmp_path: Path) -> None:
    data = bytearray(tar_of([("a", b"1"), ("b", b"2")], "w"))
    data[1024 + 148 : 1024 + 156] = b"7777777\0"
    path = tmp_path / "bad.tar"
    path.write_bytes(data)
    with pytest.raises(SourceError, match="without an end mark"):
        take(str(path), tmp_path)


@pytest.mark.parametrize("suffix", ["tar.gz", "zip"])
def test_a_bomb_is_refused_before_it_goes_off(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"bomb.{suffix}"
    if suffix == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a", bytes(2_000_000))
    else:
        path.write_bytes(tar_of([("a", bytes(2_000_000))]))
    with pytest.raises(SourceError, match="too large"):
        acquire_archive.unpack(path, name=path.name, max_bytes=1_000_000)
    with pytest.raises(SourceError, match="too large"):
        acquire_archive.unpack(path, name=path.name, max_files=0)
    assert len(acquire_archive.unpack(path, name=path.name)["a"].data) == 2_000_000


def test_git_gives_the_commits_own_bytes_whatever_its_attributes_say(tmp_path: Path, repository: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    (repository / "run.sh").write_text("changed since\n")
    for source in (f"{repository}@main", f"file://{repository}@{commit}"):
        snapshot = take(source, tmp_path)
        assert snapshot.tree["secret.txt"] == Entry(b"kept\n")
        assert snapshot.tree["stamp.txt"] == Entry(b"$Format:%H$\n")
        assert snapshot.tree["run.sh"] == Entry(b"#!/bin/sh\n", "exec")
        assert snapshot.tree["link"] == Entry(b"run.sh", "link")
        assert "ignored.txt" not in snapshot.tree
        assert snapshot.provenance.commit == commit
        assert snapshot.label == f"local__project-{commit[:8]}"


def test_a_mirror_follows_branches_and_serves_known_hashes_alone(tmp_path: Path, repository: Path) -> None:
    first = git(repository, "rev-parse", "HEAD")
    assert take(f"file://{repository}@main", tmp_path).provenance.commit == first
    git(repository, "commit", "-q", "--allow-empty", "-m", "two")
    git(repository, "tag", "v2.3.0")
    second = git(repository, "rev-parse", "HEAD")
    found = take(f"file://{repository}@main", tmp_path).provenance
    assert (found.commit, found.version) == (second, "2.3.0")
    repository.rename(tmp_path / "moved")
    assert take(f"file://{repository}@{first[:10]}", tmp_path).provenance.commit == first
    with pytest.raises(SourceError, match="git cannot fetch"):
        take(f"file://{repository}@main", tmp_path)


def test_a_wrong_commit_is_named(tmp_path: Path, repository: Path) -> None:
    for source in (f"{repository}@{'0' * 40}", f"file://{repository}@nope", f"{repository}@--help"):
        with pytest.raises(SourceError, match="has no commit") as caught:
            take(source, tmp_path)
        assert "full hash" in caught.value.hint


def test_hooks_of_a_repository_do_not_run(tmp_path: Path, repository: Path) -> None:
    evil = tmp_path / "evil"
    script = f"#!/bin/sh\ntouch {evil}\n"
    hook = repository / ".git" / "hooks" / "fsmonitor"
    hook.write_text(script)
    hook.chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(hook))
    git(repository, "config", "core.sshCommand", str(hook))
    assert "run.sh" in take(str(repository), tmp_path).tree
    assert "run.sh" in take(f"{repository}@main", tmp_path).tree
    assert not evil.exists()


def test_content_that_git_keeps_elsewhere_is_refused_by_name(tmp_path: Path, repository: Path) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 5\n"
    (repository / "data.bin").write_bytes(pointer)
    with pytest.raises(SourceError, match=r"lfs_pointer: .*data\.bin"):
        take(str(repository), tmp_path)
    (repository / "data.bin").unlink()
    commit = git(repository, "rev-parse", "HEAD")
    git(repository, "update-index", "--add", "--cacheinfo", f"160000,{commit},vendored")
    git(repository, "commit", "-q", "-m", "sub")
    with pytest.raises(SourceError, match=r"submodule_unavailable: .*vendored"):
        take(f"{repository}@main", tmp_path)
    (repository / "vendored").mkdir()
    with pytest.raises(SourceError, match="submodule_unavailable: vendored is empty"):
        take(str(repository), tmp_path)


def test_a_work_tree_is_taken_as_git_would_commit_it(tmp_path: Path, repository: Path) -> None:
    (repository / "new.py").write_text("untracked\n")
    (repository / "secret.txt").unlink()
    (repository / "__pycache__").mkdir()
    (repository / "__pycache__" / "x.pyc").write_bytes(b"")
    snapshot = take(str(repository), tmp_path)
    assert list(snapshot.tree) == [".gitattributes", ".gitignore", "link", "new.py", "run.sh", "stamp.txt"]
    assert snapshot.provenance.origin == ""


def test_a_folder_unknown_to_git_is_taken_whole_without_caches(tmp_path: Path) -> None:
    folder = tmp_path / "my project"
    for name in ("a.py", "node_modules/x.js", "env/pyvenv.cfg", "env/bin/python", "sub/.mypy_cache/x", "sub/b.pyc"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9"))).write_bytes(b"1")
    snapshot = take(str(folder), tmp_path)
    assert dict(snapshot.tree) == {"a.py": Entry(b"a.py"), "caf\udce9": Entry(b"1")}
    assert snapshot.provenance.name == "my-project"


def test_an_empty_folder_is_no_source(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match="no files"):
        take(str(tmp_path / "empty"), tmp_path)
