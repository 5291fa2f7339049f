"""``taskforge images base``: a base image from a hub, from Debian's packages, or with an interpreter of this host."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from taskforge_images import bases, debian_suite, reference

from taskforge.errors import SandboxFault
from taskforge.sandbox.docker_archive import inspect, said
from taskforge.sandbox.docker_base import BASE
from taskforge.sandbox.docker_build import build
from taskforge.sandbox.docker_daemon import Daemon, faults

__all__ = ["How", "make_base"]

How = Literal["auto", "hub", "debian", "host"]


def make_base(daemon: Daemon, minor: str, *, how: How = "auto", log: Callable[[str], None]) -> str:
    """The name of the daemon's base image of a Python, ``taskforge-base:3.12``, made now where it is missing.

    Args:
        how: ``hub`` pulls the pinned official image, ``debian`` needs mmdebstrap and a release with this Python,
            ``host`` lays an interpreter of this host on Debian; ``auto`` tries them in this order, and takes one that
            is there as it is.
        log: told what is tried, and what failed.

    Raises:
        SandboxFault: ``docker_base`` when none of them works; says why for each.
    """
    name = f"{BASE}:{minor}"
    with faults(f"making base image {name}"), daemon.locked(f"base-{minor}"):
        before = inspect(daemon, name)
        if how == "auto" and before is not None:
            return name
        ways: dict[str, Callable[[Daemon, str, Callable[[str], None]], None]] = {
            "hub": _from_hub, "debian": _from_debian, "host": _from_host
        }  # fmt: skip
        refusals = []
        for way in ways if how == "auto" else (how,):
            try:
                ways[way](daemon, minor, log)
            except SandboxFault as fault:
                log(f"{name} from {way}: {fault.message}")
                refusals.append(fault)
            else:
                if before is not None:
                    _drop(daemon, str(before["Id"]))
                return name
        raise SandboxFault(
            f"no base image with Python {minor} can be made: " + "; ".join(fault.message for fault in refusals),
            kind="docker_base",
            hint="; ".join(dict.fromkeys(fault.hint for fault in refusals if fault.hint)),
            retryable=False,
        )


def _drop(daemon: Daemon, image: str) -> None:
    """Remove what has lost its name; what something stands on stays."""
    import docker.errors

    found = inspect(daemon, image)
    if found is not None and not found.get("RepoTags") and not found.get("RepoDigests"):
        with contextlib.suppress(docker.errors.APIError):
            daemon.client.api.remove_image(image)


def _from_hub(daemon: Daemon, minor: str, log: Callable[[str], None]) -> None:
    import docker.errors

    wanted = reference(minor)
    log(f"pulling {wanted}")
    try:
        _messages, error = said(daemon.client.api.pull(wanted, stream=True, decode=True))
    except docker.errors.APIError as refusal:
        error = str(refusal.explanation or refusal)
    if error:
        hint = "make one without a hub: --from debian, or --from host"
        raise SandboxFault(f"{wanted} cannot be pulled: {error}", kind="docker_base", hint=hint)
    daemon.client.api.tag(wanted, BASE, minor, force=True)


def _from_debian(daemon: Daemon, minor: str, log: Callable[[str], None]) -> None:
    suite = debian_suite(minor)
    if suite is None:
        raise SandboxFault(f"no Debian release is known whose own Python is {minor}", kind="docker_base")
    daemon.client.api.tag(_debian(daemon, suite, log), BASE, minor, force=True)


def _debian(daemon: Daemon, suite: str, log: Callable[[str], None]) -> str:
    """The name of the image of a Debian release."""
    name = f"{BASE}:{suite}"
    if inspect(daemon, name) is None:
        log(f"making {name} of Debian's packages")
        with tempfile.TemporaryDirectory(prefix="taskforge-") as folder:
            root = Path(folder) / "root.tar"
            bases.debian(suite, root)
            with root.open("rb") as stream:
                # In pieces: of a file the client tells the length as well, and the daemon does not read both.
                pieces = iter(lambda: stream.read(1 << 20), b"")
                answer = daemon.client.api.import_image_from_stream(pieces, repository=BASE, tag=suite)
        _messages, error = said(line.encode() for line in str(answer).splitlines())
        if error:
            raise SandboxFault(f"the daemon does not take {name}: {error}", kind="docker_base")
    return name


def _from_host(daemon: Daemon, minor: str, log: Callable[[str], None]) -> None:
    prefix = bases.interpreter(minor)
    if prefix is None:
        raise SandboxFault(
            f"this host has no Python {minor} that can be laid elsewhere",
            kind="docker_base",
            hint=f"install one with `uv python install {minor}`",
        )
    below = _debian(daemon, bases.host_suite(), log)
    log(f"laying {prefix} on {below}")
    with tempfile.TemporaryFile() as context:
        bases.packed(prefix, context)
        context.seek(0)
        made = build(daemon, context, BASE=below, MINOR=minor)
    if not isinstance(made, str):
        raise SandboxFault(f"{prefix} cannot be laid on {below}: {made.message}", kind="docker_base")
    daemon.client.api.tag(made, BASE, minor, force=True)
