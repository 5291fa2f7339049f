"""What images are made of: layers and configurations that are the same bytes wherever they are made."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from taskforge_images import context, debian_suite, reference

from taskforge.model import Image, Tree
from taskforge.sandbox import Environment, SandboxSpec
from taskforge.sandbox.docker_archive import said
from taskforge.sandbox.docker_config import as_image, configuration, digest, pure, told
from taskforge.sandbox.docker_daemon import KIND
from taskforge.sandbox.docker_layers import environment_layer, flat
from taskforge.sandbox.docker_use import Use

LABELS = {"environment": "e" * 64, "python": "3.12.1", "size": "7"}
LAYERS = ["sha256:" + "1" * 64, "sha256:" + "2" * 64]


def exported(members: list[tuple[str, dict[str, Any], bytes]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, fields, data in members:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            for field, value in fields.items():
                setattr(member, field, value)
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


def members(data: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {member.name: member for member in archive}


FOLDER, LINK, HARD, DEVICE = tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE
ONE = [
    ("usr/", {"type": FOLDER, "mtime": 1700000000, "mode": 0o755}, b""),
    ("usr/b", {"mtime": 1600000000.75, "mode": 0o4755, "uname": "root", "gid": 42}, b"content"),
    ("usr/a", {"type": HARD, "linkname": "usr/b"}, b""),
    ("usr/l", {"type": LINK, "linkname": "b", "mtime": 1700000001}, b""),
]
#: The same files as another daemon may export them: other order, other holder of the content, other names of users.
OTHER = [
    ("./usr/l", {"type": LINK, "linkname": "b", "mtime": 5}, b""),
    ("./usr/a", {"mtime": 1600000000.25, "mode": 0o4755, "uname": "toor", "gid": 42}, b"content"),
    ("./usr/b", {"type": HARD, "linkname": "./usr/a"}, b""),
    ("./usr", {"type": FOLDER, "mtime": 9, "mode": 0o755}, b""),
]
MOUNTED = [
    (".dockerenv", {}, b""), ("dev/", {"type": FOLDER}, b""), ("dev/console", {}, b""), ("dev/null", {"type": DEVICE}, b""),
    ("etc/hosts", {}, b"1"), ("etc/hostname", {}, b"1"), ("etc/resolv.conf", {}, b"1"), ("etc/passwd", {}, b"1"),
    (".taskforge/facts.json", {}, b"{}"), ("node", {"type": DEVICE}, b""), (".hidden", {}, b""),
]  # fmt: skip


def test_a_flat_layer_is_the_same_of_whatever_exports_it() -> None:
    with flat([exported(ONE)]) as one, flat([exported(OTHER)]) as other:
        assert one.digest == other.digest
        data = one.stream.read()
        assert (one.length, one.size) == (len(data), 7)
        assert digest(data) == one.digest
    found = members(data)
    assert list(found) == ["usr", "usr/a", "usr/b", "usr/l"]
    assert (found["usr/a"].isreg(), found["usr/b"].islnk(), found["usr/b"].linkname) == (True, True, "usr/a")
    assert (found["usr/a"].mtime, found["usr/a"].mode, found["usr/a"].gid, found["usr/a"].uname) == (
        1600000000, 0o4755, 42, "",
    )  # fmt: skip
    assert {found[name].mtime for name in ("usr", "usr/l")} == {946684800}


def test_a_flat_layer_holds_nothing_of_the_runtime() -> None:
    with flat([exported(MOUNTED)]) as layer:
        assert list(members(layer.stream.read())) == [".hidden", "dev", "etc/passwd"]


def environment(root: Path, *, home: str, version: str) -> Environment:
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "python").symlink_to(f"{home}/python3")
    (root / "bin" / "tool").write_text("#!/env/bin/python\n")
    (root / "bin" / "tool").chmod(0o755)
    (root / "pyvenv.cfg").write_text(f"home = {home}\ninclude-system-site-packages = false\nversion = {version}\n")
    return Environment(
        digest="e" * 64, root=root, interpreter=Path(home), base_prefix=Path("/usr"), python=version, overlay=Tree({}),
    )  # fmt: skip


def test_an_environments_layer_tells_nothing_of_its_host(tmp_path: Path) -> None:
    one = environment(tmp_path / "one", home="/usr/bin", version="3.12.1")
    other = environment(tmp_path / "other" / "place", home="/opt/3.12/bin", version="3.12.9")
    with (
        environment_layer(one, "/usr/local/bin/python3.12", tools=False) as first,
        environment_layer(other, "/usr/local/bin/python3.12", tools=False) as second,
    ):
        assert first.digest == second.digest
        data = first.stream.read()
    found = members(data)
    assert found["env/bin/python"].linkname == "/usr/local/bin/python3.12"
    assert {member.mtime for member in found.values()} == {946684800}
    assert (found["env/bin/tool"].mode, found["workspace"].mode) == (0o755, 0o1777)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        config = archive.extractfile("env/pyvenv.cfg")
        assert config is not None
        assert config.read() == b"home = /usr/local/bin\ninclude-system-site-packages = false\n"


def inspected(config: bytes) -> dict[str, Any]:
    """What a daemon makes of a configuration."""
    data = json.loads(config)
    empty = {"Hostname": "", "AttachStdin": False, "Cmd": None, "Env": [], "Volumes": None, "WorkingDir": "", "User": ""}
    return {
        "Id": "sha256:" + "f" * 64, "Architecture": data["architecture"], "Os": data["os"], "Size": 123,
        "Config": {**empty, **data["config"]}, "RootFS": {"Type": "layers", "Layers": data["rootfs"]["diff_ids"]},
    }  # fmt: skip


def test_a_configuration_is_known_by_what_a_daemon_tells() -> None:
    config = configuration("environment", LAYERS, LABELS, platform="linux/amd64")
    found = inspected(config)
    assert told(found) == config
    assert pure(found, kind="environment", layers=2, environment="e" * 64)
    assert not pure(found, kind="environment", layers=2, environment="0" * 64)
    assert not pure(found, kind="environment", layers=1)
    assert not pure(found, kind="base", layers=2)
    image = as_image(found)
    assert image == Image(
        digest=digest(config), platform="linux/amd64", layers=tuple(LAYERS), python="3.12.1", size=7
    )  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"Env": ["PYTHONPATH=/x"]}, {"User": "1000"}, {"Cmd": ["sh"]}, {"Entrypoint": ["/bin/sh"]}, {"Volumes": {"/x": {}}},
        {"Healthcheck": {"Test": ["CMD", "x"]}}, {"Labels": {KIND: "environment"}}, {"WorkingDir": "/tmp"},
    ],
)  # fmt: skip
def test_whatever_is_configured_besides_changes_the_digest(change: dict[str, Any]) -> None:
    config = configuration("environment", LAYERS, LABELS, platform="linux/amd64")
    found = inspected(config)
    found["Config"] |= change
    assert told(found) != config
    assert not pure(found, kind="environment", layers=2)


def test_an_error_in_a_long_answer_is_heard() -> None:
    answer = [b'{"stream": "one"}\r\n{"stream": "two"}\r\n', b'{"errorDetail": {"message": "m"}, "error": "no room"}\r\n']
    messages, error = said(answer)
    assert ([one.get("stream") for one in messages], error) == (["one", "two", None], "no room")
    assert said([{"stream": "x"}])[1] == ""


HOLD = """
import sys
from pathlib import Path
from taskforge.sandbox.docker_use import Use
Use(Path(sys.argv[1])).begin("sha256:aa")
print("held", flush=True)
sys.stdin.read()
"""


def test_an_image_is_leased_until_its_process_ends(tmp_path: Path) -> None:
    use = Use(tmp_path)
    assert not use.leased("sha256:aa")
    assert use.last("sha256:aa") is None
    argv = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        assert use.leased("sha256:aa")
        assert not use.leased("sha256:bb")
        process.kill()
    assert not use.leased("sha256:aa")
    first = use.last("sha256:aa")
    assert first is not None
    use.begin("sha256:aa")
    assert use.leased("sha256:aa")
    second = use.last("sha256:aa")
    assert second is not None
    assert second > first
    use.end("sha256:aa")
    assert not use.leased("sha256:aa")


def test_another_image_is_another_kind_of_sandbox(tmp_path: Path) -> None:
    one = environment(tmp_path, home="/usr/bin", version="3.12.1")
    image = Image(digest="sha256:" + "a" * 64, platform="linux/amd64", layers=tuple(LAYERS), python="3.12.1", size=7)
    pinned = Environment(**{**one.__dict__, "image": image})
    assert SandboxSpec(environment=one, tree=Tree({})).key != SandboxSpec(environment=pinned, tree=Tree({})).key


def test_bases_are_pinned() -> None:
    for minor in ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13"):
        name, _, pin = reference(minor).partition("@sha256:")
        assert (name, len(pin)) == (f"python:{minor}-slim", 64)
    assert reference("3.7") == "python:3.7-slim"
    assert (debian_suite("3.11"), debian_suite("3.12"), debian_suite("3.13")) == ("bookworm", None, "trixie")
    data = context("Dockerfile", "clean.py", "find.sh")
    assert list(members(data)) == ["Dockerfile", "clean.py", "find.sh"]
    assert reference("3.12").encode() in data
