"""Images of environments in registries: the daemon pushes and pulls, with the credentials of Docker's configuration."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from taskforge.errors import SandboxFault, UsageError
from taskforge.model import Image
from taskforge.sandbox.docker_daemon import faults
from taskforge.sandbox.docker_image import Images
from taskforge.sandbox.docker_transport import differs, held, present, told
from taskforge.sandbox.oci import Watch

__all__ = ["checked_repository", "pull", "push"]

_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"(?:[A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\])(?::\d+)?"
_NAME = re.compile(rf"{_HOST}/{_PART}(?:/{_PART})*")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")

#: Kind -> what registries and daemons say then, lower case; the first that is found counts.
_SAID: Mapping[str, tuple[str, ...]] = {
    "registry_insecure": ("server gave http response to https client", "x509", "certificate", "tls: "),
    "registry_denied": ("denied", "unauthorized", "authentication required", "no basic auth", "forbidden"),
    "registry_unreachable": (
        "no such host", "connection refused", "i/o timeout", "timeout exceeded", "dial tcp", "no route to host",
        "server misbehaving", ": eof", "temporary failure",
    ),
    "registry_absent": ("not found", "manifest unknown", "name unknown", "does not exist"),
}  # fmt: skip
_HINTS = {
    "registry_insecure": "give it a certificate that the daemon trusts, or name it under insecure-registries in the"
    " daemon's daemon.json",
    "registry_denied": "log in with `docker login` as the user who runs this, or ask for the right to this repository",
    "registry_unreachable": "check the registry's name and port, and the way to it from the daemon's machine",
    "registry_absent": "check the repository's name, or push the images with `taskforge images push`",
    "registry_failed": "see the daemon's log",
}


def checked_repository(name: str) -> str:
    """``REGISTRY/REPO`` as it was typed.

    Raises:
        UsageError: when it cannot be the name of a repository, or has a tag or digest.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no repository of a registry",
            hint="write REGISTRY/REPOSITORY, in lower case and without a tag, such as registry.example.org/team/tasks",
        )
    return name


def push(images: Images, environment: str, pin: Image, repository: str, watch: Watch) -> Image:
    """Push the image of an environment, tagged by the environment.

    Returns:
        The pin with the reference by which others get it.

    Raises:
        SandboxFault: the daemon lacks the pinned image, or the registry does not take it.
    """
    found = present(images, environment)
    if found != pin.digest:
        raise differs(environment, pin.digest, found, f"the daemon has {'another' if found else 'no'} image")
    name = images.name(environment)
    tag = name.partition(":")[2]
    doing = f"pushing {name} to {repository}"
    digests: list[str] = []

    def heard(event: Mapping[str, Any]) -> None:
        digests.extend(str(aux["Digest"]) for aux in [event.get("aux")] if isinstance(aux, Mapping) and "Digest" in aux)

    api = images.daemon.client.api
    with _named_meanwhile(images, name, f"{repository}:{tag}"):
        _talk(doing, lambda: api.push(repository, tag=tag, stream=True, decode=True), heard, watch)
    if not digests or not _DIGEST.fullmatch(digests[-1]):
        raise SandboxFault(f"{doing}: the registry told no digest", kind="registry_failed", hint="push it again")
    return pin.model_copy(update={"reference": f"{repository}@{digests[-1]}"})


def pull(images: Images, environment: str, pin: Image, repository: str, watch: Watch) -> bool:
    """Have the daemon pull the image of an environment, and name it as sandboxes want it if it is the pinned one.

    Args:
        repository: by the environment's tag there; empty for the pin's own reference.

    Returns:
        False when the daemon had it already.

    Raises:
        UsageError: when neither a repository nor a reference is known.
        SandboxFault: when it cannot be pulled, or is another image.
    """
    if held(images, environment, pin.digest):
        return False
    if not repository and not pin.reference:
        raise UsageError(
            f"nobody pushed the image of environment {environment[:12]}: it has no reference",
            hint="name REGISTRY/REPOSITORY, or push it with `taskforge images push` where it is",
        )
    name = images.name(environment)
    source, _, at = pin.reference.rpartition("@")
    mark = "@"
    if repository:
        source, mark, at = repository, ":", name.partition(":")[2]
    api = images.daemon.client.api
    pulled = f"{source}{mark}{at}"
    had = _id(images, pulled)
    _talk(
        f"pulling {pulled}", lambda: api.pull(source, tag=at, stream=True, decode=True), lambda _event: None, watch
    )
    try:
        try:
            found = images.facts(pulled).digest
        except SandboxFault as fault:
            if fault.kind != "docker_image":
                raise
            found = "sha256:none of ours"
        if found != pin.digest:
            raise differs(environment, pin.digest, found, f"{source} has another")
        with faults(f"naming {pulled}"):
            api.tag(pulled, *name.split(":"))
    finally:
        # What carries our name stays; what is another image goes altogether.
        if had is None:
            _unname(images, pulled)
    return True


def _talk(doing: str, start: Callable[[], Any], heard: Callable[[Mapping[str, Any]], None], watch: Watch) -> None:
    """Have the daemon do it, and turn what the registry said against it into a fault."""
    import docker.errors

    layers: dict[str, tuple[int, int]] = {}

    def hear(event: Mapping[str, Any]) -> None:
        detail = event.get("progressDetail")
        if isinstance(detail, Mapping) and detail.get("total"):
            layers[f"{event.get('status')} {event.get('id')}"] = int(detail.get("current") or 0), int(detail["total"])
            watch(doing, sum(one for one, _of in layers.values()), sum(of for _one, of in layers.values()))
        heard(event)

    with faults(doing):
        try:
            said = told(start(), hear)
        except docker.errors.APIError as error:
            said = str(error.explanation or error).strip()
    if said:
        raise _refused(doing, said)


def _refused(doing: str, said: str) -> SandboxFault:
    low = said.lower()
    kind = next((kind for kind, words in _SAID.items() if any(word in low for word in words)), "registry_failed")
    if "no space left" in low:
        return SandboxFault(f"{doing}: {said[:1000]}", kind="docker_disk", hint="`taskforge images prune` makes room")
    return SandboxFault(
        f"{doing}: {said[:1000]}", kind=kind, hint=_HINTS[kind],
        retryable=kind in {"registry_unreachable", "registry_failed"},
    )  # fmt: skip


@contextlib.contextmanager
def _named_meanwhile(images: Images, name: str, other: str) -> Iterator[None]:
    """``other`` is a second name of the image inside; it was nobody's, or it is what it was before."""
    before = _id(images, other)
    with faults(f"naming {name} {other}"):
        images.daemon.client.api.tag(name, *other.rsplit(":", 1))
    try:
        yield
    finally:
        if before is None:
            _unname(images, other)
        elif before != _id(images, name):
            with faults(f"naming {other} as before"):
                images.daemon.client.api.tag(before, *other.rsplit(":", 1))


def _unname(images: Images, name: str) -> None:
    """Without force: an image that a container uses stays, and its other names do."""
    import docker.errors

    with faults(f"removing the name {name}"), contextlib.suppress(docker.errors.NotFound):
        images.daemon.client.api.remove_image(name)


def _id(images: Images, name: str) -> str | None:
    import docker.errors

    with faults(f"asking for {name}"):
        try:
            return str(images.daemon.client.api.inspect_image(name)["Id"])
        except docker.errors.NotFound:
            return None
