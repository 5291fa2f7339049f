"""A daemon that is started anew, killed, gone, frozen, full, or has other runtimes: each is told, none hangs."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from taskforge.errors import SandboxFault, UsageError
from taskforge.model import Entry, Tree
from taskforge.process import run
from taskforge.sandbox import Environment, PytestJob, RunResult, SandboxSpec, backend
from taskforge.sandbox.docker import Docker
from tests.conformance.daemons import client, give

Daemons = Callable[..., AbstractContextManager[str]]
HERE = Path(__file__).parent
ROOT = HERE.parent.parent
FILES = [HERE / f"test_conformance_{part}.py" for part in ("exec", "files", "identity", "kernel", "limits", "protected")]
#: One of each class: the whole suite is run by the daemon's own choice of runtime.
CORE = (
    "docker and (exit_codes or nothing_outlives or bytes_modes or laying_over or unprivileged or setuid or network or "
    "nothing_of_the_host or supervisor_cannot or machinery or kernel or memory_of or other_kills or bomb_is or full_disk "
    "or no_attack or stays_free)"
)
HOLD = b"import time\ndef test_first(): pass\ndef test_hold():\n    open('/tmp/began', 'w').close()\n    time.sleep(600)\n"


@pytest.fixture(scope="module")
def base(calc_environment: Environment) -> str:
    """The base image that this machine's daemon has for the environment's Python."""
    return "taskforge-base:" + ".".join(calc_environment.python.split(".")[:2])


@pytest.fixture(scope="module")
def held(calc_environment: Environment) -> SandboxSpec:
    return SandboxSpec(environment=calc_environment, tree=Tree({"test_it.py": Entry(HOLD)}))


@pytest.fixture
def docker(tmp_path: Path, daemon_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Docker:
    """The sandbox of an installation whose daemon will be the one in ``daemon_folder``."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{daemon_folder}/sock")
    return Docker(tmp_path / "docker")


@contextlib.contextmanager
def at_work(docker: Docker, spec: SandboxSpec) -> Iterator[tuple[list[RunResult], threading.Thread]]:
    """A sandbox in the middle of a test; its result comes when the thread has ended."""
    results: list[RunResult] = []
    heard = threading.Event()
    with docker.start(spec) as sandbox:
        thread = threading.Thread(target=lambda: results.append(sandbox.run(PytestJob(), lambda _report: heard.set())))
        thread.start()
        assert heard.wait(30)
        yield results, thread


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_daemon_started_anew(
    docker: Docker, held: SandboxSpec, base: str, daemon_folder: Path, start_daemon: Daemons, number: int
) -> None:
    with start_daemon(daemon_folder) as address, contextlib.ExitStack() as stack:
        give(address, base)
        idle = stack.enter_context(docker.start(held))
        results, thread = stack.enter_context(at_work(docker, held))
        pid = int((daemon_folder / "pid").read_text())
        os.kill(pid, number)
        thread.join(30)
        assert [result.ended for result in results] == ["lost"]
        assert [(report.id, report.outcome) for report in results[0].reports] == [("test_it.py::test_first", "passed")]
        with pytest.raises(SandboxFault) as caught:
            idle.exec(["/bin/true"], timeout=5)
        assert caught.value.kind == "sandbox_lost"
        assert not idle.alive
        # Closing does not wait for who does not answer.
        began = time.monotonic()
        idle.close()
        assert time.monotonic() - began < 30
    with start_daemon(daemon_folder) as address:
        # The same object, without a word to it.
        with docker.start(held) as sandbox:
            assert sandbox.exec(["/bin/echo", "well"], timeout=10).output == b"well\n"
        docker.daemon.sweep()
        with contextlib.closing(client(address)) as asked:
            assert asked.api.containers(all=True) == []
        docker.daemon.renew()


def test_a_daemon_that_is_gone_for_good(
    docker: Docker, held: SandboxSpec, base: str, daemon_folder: Path, start_daemon: Daemons
) -> None:
    with start_daemon(daemon_folder) as address:
        give(address, base)
        sandbox = docker.start(held)
    began = time.monotonic()
    for attempt in (lambda: docker.start(held), lambda: docker.images.ensure(other(held.environment), tools=False)):
        with pytest.raises(SandboxFault) as caught:
            attempt()
        assert caught.value.kind == "docker_unreachable"
        assert "DOCKER_HOST" in caught.value.hint
    sandbox.kill()
    sandbox.close()
    found = docker.probe()
    assert not found.ok
    assert "DOCKER_HOST" in found.remedy
    assert time.monotonic() - began < 30


def other(environment: Environment) -> Environment:
    """The same under a name of its own: no daemon has its image."""
    return Environment(**{**environment.__dict__, "digest": uuid.uuid4().hex * 2})


#: crun refuses a machine where some controllers are of the one version of control groups, and some of the other: here it
#: sees the older alone.
CRUN = """#!/bin/sh
exec unshare --mount sh -c '! mountpoint -q /sys/fs/cgroup/unified || umount /sys/fs/cgroup/unified; exec crun "$@"' sh "$@"
"""


@pytest.mark.parametrize("runtime", ["", "crun"])
def test_runtimes(
    docker: Docker, calc_spec: SandboxSpec, base: str, daemon_folder: Path, start_daemon: Daemons, runtime: str
) -> None:
    """What the daemon runs containers with is the installation's choice, and an unknown name is refused."""
    assert shutil.which("crun"), "install Debian's package crun"
    docker.runtime = runtime
    program = daemon_folder / "crun"
    program.write_text(CRUN)
    program.chmod(0o755)
    with start_daemon(daemon_folder, "--add-runtime", f"crun={program}") as address:
        give(address, base)
        assert docker.probe().ok
        with docker.start(calc_spec) as sandbox:
            result = sandbox.run(PytestJob())
            one = docker.daemon.client.api.containers()[0]["Id"]
            assert docker.daemon.client.api.inspect_container(one)["HostConfig"]["Runtime"] == (runtime or "runc")
        assert [report.outcome for report in result.reports] == ["passed"] * 15
        if runtime:
            told = {"root", "interpreter", "base_prefix", "python"}
            given = daemon_folder / "environment.json"
            given.write_text(json.dumps({key: str(getattr(calc_spec.environment, key)) for key in told}))
            done = run(
                [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-k", CORE, *map(str, FILES)],
                timeout=280,
                cwd=ROOT,
                env={**os.environ, "TASKFORGE_DOCKER_RUNTIME": runtime, "TASKFORGE_CONFORMANCE_ENVIRONMENT": str(given),
                     "TASKFORGE_CACHE_DIR": str(daemon_folder / "cache")},
            )  # fmt: skip
            assert done.returncode == 0, done.text[-6000:]
            assert int(re.findall(r"(\d+) passed", done.text)[0]) >= 20
        unknown = Docker(docker.daemon.folder, runtime="taskforge-absent").probe()
        assert not unknown.ok
        assert "crun" in unknown.detail
        assert "runc" in unknown.detail
        with pytest.raises(SandboxFault, match="taskforge-absent"):
            Docker(docker.daemon.folder, runtime="taskforge-absent").start(calc_spec)
        docker.daemon.renew()


def test_a_full_disk_of_the_daemon(
    docker: Docker, held: SandboxSpec, base: str, daemon_folder: Path, start_daemon: Daemons, tmp_path: Path
) -> None:
    """Told as what it is, both where an image is made and where a sandbox starts; with room again, all goes on."""
    folder = daemon_folder / "full"
    disk = folder / "data"
    disk.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2g", "tmpfs", disk], check=True)
    with contextlib.ExitStack() as stack:
        stack.callback(subprocess.run, ["umount", "--lazy", disk], check=True)
        address = stack.enter_context(start_daemon(folder))
        stack.callback(docker.daemon.renew)
        os.environ["DOCKER_HOST"] = address  # The fixture puts back what was there.
        give(address, base)
        with docker.start(held) as sandbox:
            assert sandbox.exec(["/bin/true"], timeout=10).returncode == 0
        filler = disk / "filler"
        with pytest.raises(OSError, match="No space left"), filler.open("wb", buffering=0) as stream:
            while True:
                if stream.write(b"x" * (1 << 20)) < 1 << 20:
                    raise OSError("No space left")
        for attempt in (lambda: docker.start(held), lambda: docker.images.ensure(other(held.environment), tools=False)):
            with pytest.raises(SandboxFault) as caught:
                attempt()
            assert caught.value.kind == "docker_disk", caught.value.message
            assert "docker image prune" in caught.value.hint
            assert caught.value.retryable
        filler.unlink()
        with docker.start(held) as sandbox:
            assert sandbox.exec(["/bin/true"], timeout=10).returncode == 0


def test_this_hosts_full_disk_is_not_the_daemons(
    held: SandboxSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (small := tmp_path / "small").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small], check=True)
    try:
        monkeypatch.setattr(tempfile, "tempdir", str(small))
        with pytest.raises(SandboxFault, match="No space left") as caught:
            Docker(tmp_path / "docker").images.ensure(other(held.environment), tools=False)
    finally:
        subprocess.run(["umount", "--lazy", small], check=True)
    assert caught.value.kind == "host_disk"
    assert "TMPDIR" in caught.value.hint


@pytest.mark.parametrize(
    ("address", "kind", "says"),
    [
        ("ssh://root@127.0.0.1", "docker_transport", "ssh -NL"),
        ("nonsense://somewhere", "docker_address", "DOCKER_HOST"),
        ("tcp://", "docker_address", "DOCKER_HOST"),
        ("tcp://127.0.0.1:1", "docker_unreachable", "DOCKER_HOST"),
        ("unix:///nowhere/at/all.sock", "docker_unreachable", "DOCKER_HOST"),
    ],
)
def test_addresses_that_do_not_do(
    held: SandboxSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, kind: str, says: str
) -> None:
    monkeypatch.setenv("DOCKER_HOST", address)
    began = time.monotonic()
    with pytest.raises(SandboxFault) as caught:
        Docker(tmp_path).start(held)
    assert (caught.value.kind, says in caught.value.hint) == (kind, True), caught.value.message
    assert caught.value.retryable == (kind == "docker_unreachable")
    assert address in caught.value.message or kind == "docker_unreachable"
    found = Docker(tmp_path).probe()
    assert not found.ok
    assert says in found.remedy
    monkeypatch.setenv("TASKFORGE_CACHE_DIR", str(tmp_path))
    with pytest.raises(UsageError):
        backend("docker")
    assert time.monotonic() - began < 30
