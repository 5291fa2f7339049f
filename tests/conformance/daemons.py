"""Real daemons for tests: a second Docker daemon that has nothing, and a registry. Both end with the test session."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

_SECONDS = 60


@contextlib.contextmanager
def running(argv: list[str], log: Path, ready: Callable[[], bool]) -> Iterator[subprocess.Popen[bytes]]:
    """A program from when it is ready to the end of the block; then it is asked to end, and waited for."""
    missing = f"{argv[0]} is not installed: .ci/start-dockerd installs what the tests need"
    assert shutil.which(argv[0]), missing
    with log.open("ab") as out:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
    try:
        deadline = time.monotonic() + _SECONDS
        while not ready():
            assert process.poll() is None, log.read_text(errors="replace")[-2000:]
            assert time.monotonic() < deadline, log.read_text(errors="replace")[-2000:]
            time.sleep(0.05)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def unmount(folder: Path) -> None:
    """What a daemon left mounted below a folder of its own."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    for place in sorted((line.split()[4] for line in lines), reverse=True):
        if place.startswith(f"{folder}/"):
            subprocess.run(["umount", "--lazy", place], check=False, timeout=_SECONDS)


@contextlib.contextmanager
def dockerd(*options: str) -> Iterator[str]:
    """A Docker daemon without an image or a network; gives what ``DOCKER_HOST`` has to be."""
    # Short: the name of a socket below it may not be long.
    folder = Path(tempfile.mkdtemp(prefix="tf-", dir="/tmp"))
    place = folder / "docker.sock"
    argv = [
        "dockerd", "--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec", "--pidfile", f"{folder}/pid",
        "--host", f"unix://{place}", "--bridge", "none", "--iptables=false", *options,
    ]  # fmt: skip
    try:
        with running(argv, folder / "log", lambda: _answers(place)):
            yield f"unix://{place}"
    finally:
        unmount(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _answers(place: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as one, contextlib.suppress(OSError):
        one.settimeout(5)
        one.connect(str(place))
        one.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
        return one.recv(100).split()[1:2] == [b"200"]
    return False


@pytest.fixture(scope="session")
def second_daemon() -> Iterator[str]:
    """``DOCKER_HOST`` of a daemon that had nothing when the session began. Tests remove what they put into it."""
    with dockerd() as host:
        yield host


@contextlib.contextmanager
def docker_registry(folder: Path, *, auth: str = "") -> Iterator[str]:
    """A registry of this machine; gives its ``host:port``."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
    config = folder / "config.yml"
    config.write_text(
        f"version: 0.1\nlog: {{level: warn}}\nstorage: {{filesystem: {{rootdirectory: {folder}/data}}}}\n"
        f"http: {{addr: '127.0.0.1:{port}'}}\n{auth}",
        encoding="utf-8",
    )
    program = "docker-registry" if shutil.which("docker-registry") else "registry"
    argv = [program, "serve", str(config)]
    with running(argv, folder / "log", lambda: _listens(port)):
        yield f"127.0.0.1:{port}"


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
        return True
    return False


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """``host:port`` of an empty registry that takes whatever it is given."""
    with docker_registry(tmp_path_factory.mktemp("registry")) as host:
        yield host
