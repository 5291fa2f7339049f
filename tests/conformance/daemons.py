"""A Docker daemon of a test's own: it may be stopped, killed, filled and given other runtimes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
    argv = [
        "dockerd", "--data-root", folder / "data", "--exec-root", folder / "exec", "-p", folder / "pid", "-H", address,
        "--bridge", "none", "--iptables=false", "--containerd-namespace", f"taskforge-{folder.name}",
        "--containerd-plugins-namespace", f"taskforge-plugins-{folder.name}", *args,
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
