"""Real daemons of a test's own: a Docker daemon that may be stopped, killed, filled and given other runtimes, and a
registry."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

_SECONDS = 60

#: The daemon of this machine, whose base images the others are given.
MAIN = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")


def client(address: str) -> Any:
    """A client of the daemon at ``address``; the caller closes it."""
    import docker

    return docker.DockerClient(base_url=address, timeout=60)


def _answers(address: str) -> bool:
    import docker.errors
    import requests

    if not Path(address.removeprefix("unix://")).is_socket():
        return False
    try:
        with contextlib.closing(client(address)) as asked:
            return bool(asked.ping())
    except (docker.errors.DockerException, requests.RequestException):
        return False


def mounts(folder: Path) -> list[str]:
    """Mount points below ``folder``, the innermost first."""
    places = [line.split(" ")[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    return sorted((place for place in places if place.startswith(f"{folder}/")), reverse=True)


@contextlib.contextmanager
def daemon(folder: Path, *args: str) -> Iterator[str]:
    """A second ``dockerd`` with all that it keeps in ``folder``; gives its address for ``DOCKER_HOST``.

    Entered again with the same folder it is that daemon, started anew. It needs root, and takes no network, so that it
    leaves the machine's alone. Its process id is in ``folder/pid`` while it runs.
    """
    # A socket's path has room for about a hundred bytes.
    address = f"unix://{folder}/sock"
    assert len(address) < 100, "choose a shorter folder"
    folder.mkdir(parents=True, exist_ok=True)
    for stale in ("pid", "sock"):
        (folder / stale).unlink(missing_ok=True)
    # A temporary folder's name may end in what no namespace may end in.
    name = hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    argv = [
        "dockerd", "--data-root", folder / "data", "--exec-root", folder / "exec", "-p", folder / "pid", "-H", address,
        "--bridge", "none", "--iptables=false", "--containerd-namespace", f"taskforge-{name}",
        "--containerd-plugins-namespace", f"taskforge-plugins-{name}", *args,
    ]  # fmt: skip
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [str(word) for word in argv], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    try:
        deadline = time.monotonic() + 60
        while not _answers(address):
            assert process.poll() is None, (folder / "log").read_text()[-2000:]
            assert time.monotonic() < deadline, (folder / "log").read_text()[-2000:]
            time.sleep(0.05)
        yield address
    finally:
        _end(process, folder)


def _end(process: subprocess.Popen[bytes], folder: Path) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(40)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    # Killed, it leaves its containerd running, and files that keep the next one from starting.
    beside = folder / "exec" / "containerd"
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, ValueError):
        number = int((beside / "containerd.pid").read_text())
        if b"containerd" in Path(f"/proc/{number}/cmdline").read_bytes():
            os.kill(number, signal.SIGTERM)
            deadline = time.monotonic() + 20
            while Path(f"/proc/{number}").exists() and time.monotonic() < deadline:
                time.sleep(0.02)
    for stale in beside.glob("containerd*.[ps][io]*"):
        stale.unlink(missing_ok=True)


def give(address: str, *images: str) -> None:
    """Send images of this machine's daemon to the one at ``address``, where it has not got them."""
    with contextlib.closing(client(MAIN)) as here, contextlib.closing(client(address)) as there:
        has = {tag for image in there.api.images() for tag in image["RepoTags"] or ()}
        for image in set(images) - has:
            there.api.load_image(here.api.get_image(image, chunk_size=1 << 20))


@contextlib.contextmanager
def dockerd(*options: str) -> Iterator[str]:
    """A Docker daemon without an image or a network; gives what ``DOCKER_HOST`` has to be. Nothing of it stays."""
    # Short: the name of a socket below it may not be long.
    folder = Path(tempfile.mkdtemp(prefix="tf-", dir="/tmp"))
    try:
        with daemon(folder, *options) as address:
            yield address
    finally:
        for place in mounts(folder):
            subprocess.run(["umount", "--lazy", place], check=False, timeout=_SECONDS)
        shutil.rmtree(folder, ignore_errors=True)


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
