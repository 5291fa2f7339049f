"""``doctor``: what it says here, and where nothing works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from taskforge.cli.doctor import docker_check
from taskforge.sandbox.bubblewrap import executable

NAMES = [
    "python", "git", "uv", "user", "sandbox bubblewrap", "sandbox docker", "user namespaces", "cgroups", "docker",
    "interpreters", "disk, cache", "disk, tmp",
]  # fmt: skip


def doctor(*argv: str, within: tuple[str, ...] = (), **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*within, sys.executable, "-m", "taskforge", "doctor", *argv],
        env={**os.environ, **env}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def checks(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    found = json.loads(done.stdout)
    assert [one["name"] for one in found] == NAMES
    for one in found:
        assert set(one) == {"name", "status", "detail", "remedy"}
        assert one["status"] in {"ok", "missing", "info"}
        assert one["detail"]
        # Whatever is missing comes with what to do.
        assert one["remedy"] or one["status"] != "missing"
    return {one["name"]: one for one in found}


def within(*options: str) -> tuple[str, ...]:
    program = executable()
    assert program is not None
    return (program, "--unshare-user", "--dev-bind", "/", "/", *options, "--")


def test_what_this_machine_can_do() -> None:
    done = doctor("--json")
    assert done.returncode == 0
    found = checks(done)
    for name in ("python", "git", "uv", "sandbox bubblewrap", "user namespaces", "interpreters"):
        assert found[name]["status"] == "ok", found[name]
    assert found["user"]["detail"] == ("root" if os.geteuid() == 0 else f"uid {os.geteuid()}")
    assert "memory and process limits by " in found["sandbox bubblewrap"]["detail"]
    assert "{}.{}.{}".format(*sys.version_info) in found["interpreters"]["detail"]


def test_without_user_namespaces() -> None:
    nowhere = {"DOCKER_HOST": "unix:///nowhere/none.sock"}
    done = doctor("--json", within=within("--disable-userns"), **nowhere)
    assert done.returncode == 1
    found = checks(done)
    assert found["sandbox bubblewrap"]["status"] == found["user namespaces"]["status"] == "missing"
    assert "no user namespace for this user" in found["sandbox bubblewrap"]["detail"]
    assert "sysctl" in found["sandbox bubblewrap"]["remedy"]
    table = doctor(within=within("--disable-userns"), **nowhere)
    assert table.returncode == 1
    assert all(any(line.startswith(name) for line in table.stdout.splitlines()) for name in NAMES)


def test_a_full_disk_and_a_closed_one(tmp_path: Path) -> None:
    small, closed = tmp_path / "small", tmp_path / "closed"
    small.mkdir()
    closed.mkdir()
    options = ("--size", "65536", "--tmpfs", str(small), "--ro-bind", str(closed), str(closed))
    done = doctor("--json", within=within(*options), TMPDIR=str(small), TASKFORGE_CACHE_DIR=str(closed / "new"))
    found = checks(done)
    assert found["disk, tmp"]["status"] == found["disk, cache"]["status"] == "missing"
    assert found["disk, tmp"]["detail"] == f"0.0 GiB free for {small}"
    assert found["disk, cache"]["detail"] == f"{closed} is not writable"


def test_without_git(tmp_path: Path) -> None:
    found = checks(doctor("--json", PATH=str(tmp_path)))
    assert found["git"]["status"] == "missing"
    assert "apt-get install git" in found["git"]["remedy"]


@pytest.mark.parametrize(
    "host", ["unix:///nowhere/none.sock", "tcp://127.0.0.1:1", "tcp://[", "tcp://a b", "ssh://host", "nonsense"]
)
def test_docker_where_there_is_none(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", host)
    found = docker_check()
    assert found.status == "info"
    assert host in found.detail
