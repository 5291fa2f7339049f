"""Dockerfiles built by a daemon's API, without network and without its cache."""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import dataclass
from typing import IO, Any

from taskforge.sandbox.docker_archive import inspect, said
from taskforge.sandbox.docker_daemon import Daemon

__all__ = ["Refused", "build"]

#: Seconds for the whole; cleaning may compile a whole standard library.
_SECONDS = 900
_IMAGE = re.compile(r"---> ([0-9a-f]{12,64})\s*\Z")


@dataclass(frozen=True)
class Refused:
    """A build that failed: the step's exit status where one is known, and the end of what was said."""

    status: int | None
    message: str


def build(daemon: Daemon, files: bytes | IO[bytes], *, target: str = "", **arguments: str) -> str | Refused:
    """Build a context (an uncompressed tar); the id of the image, or why there is none. A failure leaves no image."""
    answer = daemon.client.api.build(
        fileobj=io.BytesIO(files) if isinstance(files, bytes) else files, custom_context=True, target=target,
        buildargs=arguments, network_mode="none", rm=True, forcerm=True, nocache=True, decode=True, timeout=_SECONDS,
    )  # fmt: skip
    messages, error = said(answer)
    ids = [str(one["aux"]["ID"]) for one in messages if "ID" in (one.get("aux") or {})]
    if ids and not error:
        return ids[-1]
    text = [str(one.get("stream", "")) for one in messages]
    _remove_last(daemon, text, given=tuple(arguments.values()))
    details: list[dict[str, Any]] = [one["errorDetail"] for one in messages if "errorDetail" in one]
    status = re.search(r"returned a non-zero code: (\d+)", error)
    code = details[0].get("code") if details else None
    return Refused(int(status[1]) if status else code, f"{error}: {''.join(text)[-800:].strip()}")


def _remove_last(daemon: Daemon, text: list[str], *, given: tuple[str, ...]) -> None:
    """The steps before the one that failed have made images, which nobody has a name for."""
    import docker.errors

    made = [found[1] for line in text if (found := _IMAGE.search(line))]
    last = inspect(daemon, made[-1]) if made else None
    named = last is None or last.get("RepoTags") or last.get("RepoDigests") or last["Id"] in given
    if last is not None and not named:
        with contextlib.suppress(docker.errors.APIError):  # Something stands on it, then it is not ours to remove.
            daemon.client.api.remove_image(last["Id"])
