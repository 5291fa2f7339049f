"""The connection to a Docker daemon, whose it is, and what its errors mean here."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import socket
import tempfile
import threading
import uuid
import weakref
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from taskforge.errors import SandboxFault
from taskforge.sandbox.docker_use import is_locked

__all__ = ["FORWARD", "INSTALLATION", "KIND", "OWNER", "Daemon", "faults"]

log = logging.getLogger("taskforge.sandbox")

#: Labels. Of this installation's containers those are orphans whose owner, a process, no longer holds its lock.
INSTALLATION = "taskforge.installation"
OWNER = "taskforge.owner"
KIND = "taskforge.kind"

_UNREACHABLE = "start a Docker daemon, or set DOCKER_HOST to one that runs"
#: What to do where the way to the daemon is no socket.
FORWARD = (
    "forward the daemon's socket, for example with `ssh -NL /tmp/docker.sock:/var/run/docker.sock HOST`, and set "
    "DOCKER_HOST=unix:///tmp/docker.sock"
)
#: Seconds that one answer of the daemon may take.
_TIMEOUT = 120


@contextlib.contextmanager
def faults(doing: str) -> Iterator[None]:
    """Turn whatever the daemon or the way to it raises into a :class:`SandboxFault` that says what was being done."""
    import docker.errors
    import requests

    try:
        yield
    except docker.errors.ImageNotFound as error:
        raise SandboxFault(f"{doing}: {_said(error)}", kind="docker_image") from error
    except docker.errors.APIError as error:
        said = _said(error)
        full = "no space left" in said
        raise SandboxFault(
            f"{doing}: the Docker daemon says: {said}",
            kind="docker_disk" if full else "docker_refused",
            hint="make room on the daemon's disk, for example with `docker image prune`" if full else "",
            retryable=full or error.is_server_error(),
        ) from error
    except (docker.errors.DockerException, requests.RequestException, OSError) as error:
        if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EROFS}:
            raise SandboxFault(
                f"{doing}: this host cannot write {error.filename or tempfile.gettempdir()}: {error.strerror}",
                kind="host_disk",
                hint="free some space there, or point TMPDIR and TASKFORGE_CACHE_DIR elsewhere",
            ) from error
        raise SandboxFault(
            f"{doing}: the Docker daemon does not answer ({error})", kind="docker_unreachable", hint=_UNREACHABLE
        ) from error


def _address() -> str:
    """Where the daemon is, as its client wants it, checked before anything is tried there."""
    from docker.errors import DockerException
    from docker.utils import parse_host

    named = os.environ.get("DOCKER_HOST", "")
    try:
        host = str(parse_host(named))
    except DockerException as error:
        raise SandboxFault(
            f"DOCKER_HOST={named} is no address of a Docker daemon: {error}",
            kind="docker_address",
            hint="set DOCKER_HOST to unix:///path/to/docker.sock or tcp://host:port, or unset it",
            retryable=False,
        ) from error
    if not host.startswith(("http+unix://", "http://", "https://")):
        raise SandboxFault(
            f"sandboxes cannot be spoken to over DOCKER_HOST={named}",
            kind="docker_transport",
            hint=FORWARD,
            retryable=False,
        )
    return host


def _said(error: Any) -> str:
    return str(error.explanation or error).strip()[:1000]


class Daemon:
    """A daemon as this process uses it. Made without a connection; the first use makes one.

    Args:
        folder: of this host, for the installation's id and the locks of its processes.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._mutex = threading.Lock()
        self._client: Any = None
        self._owner: tuple[str, int] | None = None
        self._info: dict[str, Any] | None = None
        self.reached = False
        """Whether it has ever answered."""

    @property
    def client(self) -> Any:
        """A ``docker.DockerClient``; everything goes over its API, so that the daemon may be another machine's."""
        with self._mutex:
            if self._client is None:
                import docker

                host = _address()
                if host.startswith("http+unix://"):
                    # Tried first, since the client leaves a socket open where nobody listens.
                    with socket.socket(socket.AF_UNIX) as attempt:
                        attempt.connect(host.removeprefix("http+unix://"))
                self._client = docker.from_env(timeout=_TIMEOUT, max_pool_size=64)
                if host.startswith("http+unix://"):
                    from taskforge.sandbox.docker_unix import Adapter

                    self._client.api.get_adapter("http+docker://localhost").close()
                    self._client.api.mount("http+docker://", Adapter(host, _TIMEOUT, max_pool_size=64))
                # Its connections end with this object, or with the process.
                weakref.finalize(self, self._client.close)
            return self._client

    @property
    def info(self) -> dict[str, Any]:
        """What the daemon says of itself, asked once a connection."""
        if self._info is None:
            self._info = dict(self.client.info())
            self.reached = True
        return self._info

    def now(self) -> int:
        """Seconds of the epoch by the daemon's own clock, which is not this host's where it is another machine.

        Raises:
            SandboxFault: when it says none.
        """
        with faults("asking the daemon's clock"):
            told = str(self.client.info().get("SystemTime", ""))
        try:
            return int(datetime.fromisoformat(told).timestamp())
        except ValueError:
            raise SandboxFault(f"the Docker daemon tells no time, but {told!r}", kind="docker_refused") from None

    def renew(self) -> None:
        """Forget the connection: the daemon may have been started anew."""
        with self._mutex:
            client, self._client, self._info = self._client, None, None
        if client is not None:
            client.close()

    def labels(self, kind: str) -> dict[str, str]:
        """What every container of this process carries. The first call removes what dead processes left behind."""
        with self._mutex:
            first = self._owner is None
            if self._owner is None:
                self._owner = self._lock()
            owner = self._owner[0]
        found = {INSTALLATION: self._installation(), OWNER: owner, KIND: kind}
        if first:
            self.sweep()
        return found

    def _lock(self) -> tuple[str, int]:
        """Held as long as this process lives, however it ends."""
        name = uuid.uuid4().hex
        folder = self.folder / "owners"
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return name, lock

    def _installation(self) -> str:
        file = self.folder / "installation"
        with contextlib.suppress(FileExistsError):
            self.folder.mkdir(parents=True, exist_ok=True)
            # Whole or not at all: two processes may begin at once.
            partial = self.folder / f".installation-{uuid.uuid4().hex}"
            if not file.exists():
                partial.write_text(uuid.uuid4().hex, encoding="ascii")
                try:
                    os.link(partial, file)
                finally:
                    partial.unlink()
        return file.read_text(encoding="ascii").strip()

    def sweep(self) -> list[str]:
        """Remove this installation's containers whose process is gone, nobody else's. Returns their ids."""
        gone = []
        api = self.client.api
        wanted = {"label": f"{INSTALLATION}={self._installation()}"}
        for one in api.containers(all=True, filters=wanted):
            if self._lives(one["Labels"].get(OWNER, "")):
                continue
            log.info("removing container %s, left behind by a process that is gone", one["Id"][:12])
            with contextlib.suppress(SandboxFault):
                self.remove(one["Id"])
                gone.append(one["Id"])
        for lock in (self.folder / "owners").glob("*"):
            if not self._lives(lock.name):
                lock.unlink(missing_ok=True)
        return gone

    def _lives(self, owner: str) -> bool:
        if not owner or "/" in owner:
            return False
        if self._owner is not None and owner == self._owner[0]:
            return True
        return is_locked(self.folder / "owners" / owner)

    def remove(self, container: str) -> None:
        """Kill and remove a container, and return when it is gone. One that is gone already is no error.

        Raises:
            SandboxFault: when the daemon does not do it.
        """
        import docker.errors
        import requests

        with faults(f"removing container {container[:12]}"):
            api = self.client.api
            try:
                api.remove_container(container, v=True, force=True)
            except docker.errors.NotFound:
                return
            except docker.errors.APIError as error:
                if error.status_code != requests.codes.conflict:  # It is being removed already.
                    raise
                with contextlib.suppress(docker.errors.NotFound):
                    api.wait(container, timeout=30, condition="removed")

    @contextlib.contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """One process and thread of this host at a time."""
        folder = self.folder / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / name).open("w") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            yield
