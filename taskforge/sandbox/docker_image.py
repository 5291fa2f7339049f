"""Environment images: an interpreter of the base image, this host's environment folder, and nothing else.

No layer holds source of a repository. Two steps, each made once: a base image is cleaned of what vendors other
projects, and an environment is laid on it. Both are found again by their labels.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import platform
import re
import stat
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import IO, Any

from taskforge.errors import SandboxFault
from taskforge.model import Image
from taskforge.sandbox import Environment
from taskforge.sandbox.bubblewrap_mounts import ETC
from taskforge.sandbox.docker_config import as_image
from taskforge.sandbox.docker_daemon import KIND, Daemon, faults
from taskforge.sandbox.docker_use import Use

__all__ = ["REPOSITORY", "Images"]

log = logging.getLogger("taskforge.sandbox")

#: Raise it when the same environment would give another image.
_FORMAT = "1"
REPOSITORY = "taskforge-env"
_CLEAN = "taskforge-clean"
_LABEL = "taskforge."
_EPOCH = 946684800
_NO_PYTHON = 96
#: Finds an interpreter of minor version $1 and has it run $2.
_FIND = (
    'for p in "python$1" "/usr/local/bin/python$1" python3 python; do'
    ' if "$p" -I -S -c "import sys; sys.exit(\'%d.%d\' % sys.version_info[:2] != \'$1\')" 2>/dev/null;'
    ' then exec "$p" -I -S -c "$2"; fi; done; exit 96'
)


class Images:
    """The images of one daemon.

    Args:
        base: name of the base image, in which ``{minor}`` stands for Python's version; empty for the defaults.
    """

    def __init__(self, daemon: Daemon, *, base: str) -> None:
        self.daemon = daemon
        self.base = base
        self._known: dict[tuple[str, bool], str] = {}
        self._mutex = threading.Lock()
        self._use = Use(daemon.folder / "images")

    @staticmethod
    def name(environment_digest: str) -> str:
        """The name of an environment's image in a daemon."""
        return f"{REPOSITORY}:{environment_digest[:12]}"

    def facts(self, name: str) -> Image:
        """What a daemon says of one of our images, by its name or id.

        Raises:
            SandboxFault: ``docker_image`` when it is absent or none of ours.
        """
        with faults(f"asking for image {name}"):
            found = self._inspect(name)
        image = None if found is None else as_image(found)
        if image is None:
            raise SandboxFault(
                f"the daemon has no image {name}" if found is None else f"{name} is no image of this taskforge",
                kind="docker_image", retryable=False,
            )  # fmt: skip
        return image

    def leased(self, image_id: str) -> bool:
        """Whether a process of this host uses the image, this one included."""
        return self._use.leased(image_id)

    def last_used(self, image_id: str) -> float | None:
        """When this host used the image last, seconds since the epoch; None when it never did."""
        return self._use.last(image_id)

    def ensure(self, environment: Environment, *, tools: bool) -> str:
        """The id of the image of an environment, made now where the daemon has none.

        Args:
            tools: with the environment's ``tools`` at ``/tools``, in an image of its own.

        Raises:
            SandboxFault: no base image of the environment's Python, or the daemon fails.
        """
        tools = tools and environment.tools is not None
        key = (environment.digest, tools)
        with self._mutex:
            known = self._known.get(key)
            if known is None:
                with faults(f"making the image of environment {environment.digest[:12]}"):
                    known = self._find_or_make(environment, tools=tools)
                self._known[key] = known
            return known

    def forget(self, image: str) -> None:
        """The daemon no longer has it."""
        with self._mutex:
            self._known = {key: held for key, held in self._known.items() if held != image}

    def _find_or_make(self, environment: Environment, *, tools: bool) -> str:
        minor = ".".join(environment.python.split(".")[:2])
        tag = environment.digest[:12] + ("-tools" if tools else "")
        with self.daemon.locked(f"image-{tag}"):
            bases = self._bases(minor)
            base = next((found for name in bases if (found := self._inspect(name)) is not None), None)
            image = self._inspect(f"{REPOSITORY}:{tag}")
            if image is not None:
                labels = image["Config"]["Labels"] or {}
                wanted = {"environment": environment.digest, "format": _FORMAT}
                # Without its base, for example loaded from a file, it is as good.
                if base is not None:
                    wanted["base"] = base["Id"]
                if all(labels.get(_LABEL + name) == value for name, value in wanted.items()):
                    return str(image["Id"])
            clean = self._clean(base or self._pull(bases, minor), minor)
            facts = clean["Config"]["Labels"]
            with _packed(environment, facts[f"{_LABEL}interpreter"], tools=tools) as archive:
                labels = {KIND: "environment", f"{_LABEL}environment": environment.digest}
                return self._commit(clean, archive, REPOSITORY, tag, labels)

    # -- the base -------------------------------------------------------------------------------------------------

    def _bases(self, minor: str) -> list[str]:
        if self.base:
            return [self.base.replace("{minor}", minor)]
        return [f"taskforge-base:{minor}", f"python:{minor}-slim"]

    def _inspect(self, name: str) -> dict[str, Any] | None:
        import docker.errors

        try:
            return dict(self.daemon.client.api.inspect_image(name))
        except docker.errors.ImageNotFound:
            return None

    def _pull(self, names: list[str], minor: str) -> dict[str, Any]:
        import docker.errors

        log.info("pulling %s", name := names[-1])
        try:
            self.daemon.client.api.pull(name)
        except docker.errors.APIError as error:
            raise SandboxFault(
                f"there is no base image {' or '.join(names)}, and it cannot be pulled: {error.explanation or error}",
                kind="docker_base",
                hint=f"load or build an image with Python {minor} and name it in TASKFORGE_DOCKER_BASE, or choose the "
                "Python of an image that you have with --python",
                retryable=False,
            ) from error
        found = self._inspect(name)
        if found is None:
            raise SandboxFault(f"{name} is not there after it was pulled", kind="docker_base")
        return found

    def _clean(self, base: dict[str, Any], minor: str) -> dict[str, Any]:
        """The base without what vendors other projects; labels say which interpreter it has."""
        short = str(base["Id"]).removeprefix("sha256:")[:12]
        name = f"{minor}-{short}"
        with self.daemon.locked(f"clean-{name}"):
            found = self._inspect(f"{_CLEAN}:{name}")
            if found is not None and (found["Config"]["Labels"] or {}).get(f"{_LABEL}format") == _FORMAT:
                return found
            self._check_machine(base)
            container, facts = self._run_clean(base, minor)
            try:
                labels = {KIND: "base", f"{_LABEL}base": base["Id"], f"{_LABEL}format": _FORMAT}
                labels |= {_LABEL + key: value for key, value in facts.items()}
                self._save(container, _CLEAN, name, labels)
            finally:
                self.daemon.remove(container)
        made = self._inspect(f"{_CLEAN}:{name}")
        if made is None:
            raise SandboxFault(f"the image {_CLEAN}:{name} is gone as soon as it was made", kind="docker_image")
        return made

    def _check_machine(self, base: dict[str, Any]) -> None:
        known = {"x86_64": "amd64", "aarch64": "arm64"}
        here = known.get(platform.machine(), platform.machine())
        there = base.get("Architecture") or here
        if there != here or (base.get("Os") or "linux") != "linux":
            raise SandboxFault(
                f"the base image is for {base.get('Os')}/{there}, the environments of this host are for linux/{here}",
                kind="docker_base",
                hint="name a base image for this host's platform in TASKFORGE_DOCKER_BASE",
                retryable=False,
            )

    def _run_clean(self, base: dict[str, Any], minor: str) -> tuple[str, dict[str, str]]:
        api = self.daemon.client.api
        script = files("taskforge.sandbox").joinpath("docker_clean.py").read_text(encoding="utf-8")
        made = api.create_container_from_config({
            "Image": base["Id"], "Entrypoint": ["/bin/sh", "-c", _FIND, "sh", minor, script], "Cmd": [], "User": "0:0",
            "Labels": self.daemon.labels("builder"), "WorkingDir": "/", "Healthcheck": {"Test": ["NONE"]},
            "HostConfig": {"NetworkMode": "none", "LogConfig": {"Type": "json-file", "Config": {}}},
        })  # fmt: skip
        container = str(made["Id"])
        try:
            api.start(container)
            status = api.wait(container)["StatusCode"]
            said = api.logs(container, stdout=True, stderr=True).decode("utf-8", "replace").strip()
            facts = _facts(status, said, base, minor)
        except BaseException:
            self.daemon.remove(container)
            raise
        return container, facts

    # -- making images --------------------------------------------------------------------------------------------

    def _commit(
        self, parent: dict[str, Any], archive: IO[bytes], repository: str, tag: str, labels: dict[str, str]
    ) -> str:
        api = self.daemon.client.api
        made = api.create_container_from_config({
            "Image": parent["Id"], "Entrypoint": ["/bin/true"], "Cmd": [], "Labels": self.daemon.labels("builder"),
            "HostConfig": {"NetworkMode": "none"},
        })  # fmt: skip
        try:
            api.put_archive(made["Id"], "/", archive)
            return self._save(str(made["Id"]), repository, tag, labels)
        finally:
            self.daemon.remove(str(made["Id"]))

    def _save(self, container: str, repository: str, tag: str, labels: dict[str, str]) -> str:
        # What a container is labelled with goes on to its image: neither a builder nor any process owns that.
        blank = {name: "" for name in self.daemon.labels("builder") if name not in labels}
        changes = [f"LABEL {json.dumps(name)}={json.dumps(value)}" for name, value in {**blank, **labels}.items()]
        changes += ['ENTRYPOINT ["/env/bin/python"]', "CMD []", "WORKDIR /", "USER 0:0"]
        answer = self.daemon.client.api.commit(container, repository=repository, tag=tag, changes=changes, pause=False)
        return str(answer["Id"])


def _facts(status: int, said: str, base: dict[str, Any], minor: str) -> dict[str, str]:
    """What the cleaning said, which is one line of JSON at its end."""
    if status == _NO_PYTHON:
        raise SandboxFault(
            f"the base image {' '.join(base.get('RepoTags') or [base['Id'][:19]])} has no Python {minor}, which the "
            "environment needs",
            kind="docker_base",
            hint=f"name an image with Python {minor} in TASKFORGE_DOCKER_BASE ({{minor}} stands for the version), or "
            "choose the image's Python with --python",
            retryable=False,
        )
    try:
        told = json.loads(said.splitlines()[-1])
        return {name: str(told[name]) for name in ("python", "interpreter", "machine")}
    except (ValueError, IndexError, KeyError, TypeError):
        raise SandboxFault(
            f"the base image cannot be prepared, status {status}: {said[-800:]}",
            kind="docker_base",
            hint="choose another in TASKFORGE_DOCKER_BASE",
            retryable=False,
        ) from None


# -- the environment as an archive ------------------------------------------------------------------------------------


@contextlib.contextmanager
def _packed(environment: Environment, interpreter: str, *, tools: bool) -> Iterator[IO[bytes]]:
    """The archive that becomes the image's last layer: ``env``, ``tools``, and the fixed files of /etc."""
    with tempfile.TemporaryFile() as stream:
        with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT, errors="surrogateescape") as archive:
            for name, mode in (("env", 0o755), ("workspace", 0o1777), ("tmp", 0o1777)):
                archive.addfile(_member(name, tarfile.DIRTYPE, mode))
            for name, data in ETC.items():
                _add_bytes(archive, f"etc/{name}", data)
            _add_folder(archive, environment.root, "env", interpreter)
            if tools and environment.tools is not None:
                archive.addfile(_member("tools", tarfile.DIRTYPE, 0o755))
                _add_folder(archive, environment.tools, "tools", interpreter)
        stream.seek(0)
        yield stream


def _member(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.mode, member.mtime = kind, mode, _EPOCH
    return member


def _add_bytes(archive: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    member = _member(name, tarfile.REGTYPE, mode)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


def _add_folder(archive: tarfile.TarFile, root: Path, inside: str, interpreter: str) -> None:
    for top, folders, names in os.walk(root):
        folders.sort()
        for name in sorted([*folders, *names]):
            path = Path(top, name)
            place = f"{inside}/{path.relative_to(root).as_posix()}"
            status = path.lstat()
            if stat.S_ISLNK(status.st_mode):
                target = str(path.readlink())
                member = _member(place, tarfile.SYMTYPE, 0o777)
                # The one link that leaves the environment is its interpreter.
                member.linkname = interpreter if target.startswith("/") and "python" in name else target
                archive.addfile(member)
            elif stat.S_ISDIR(status.st_mode):
                archive.addfile(_member(place, tarfile.DIRTYPE, 0o755))
            elif place == "env/pyvenv.cfg":
                _add_bytes(archive, place, _configured(path.read_bytes(), interpreter))
            elif stat.S_ISREG(status.st_mode):
                member = _member(place, tarfile.REGTYPE, 0o755 if status.st_mode & 0o100 else 0o644)
                member.size = status.st_size
                with path.open("rb") as stream:
                    archive.addfile(member, stream)


def _configured(data: bytes, interpreter: str) -> bytes:
    """``pyvenv.cfg`` with the image's own interpreter as its home."""
    home = os.fsencode(os.path.dirname(interpreter))  # noqa: PTH120 - a path inside
    return re.sub(rb"(?m)^home\s*=.*$", lambda _found: b"home = " + home, data)
