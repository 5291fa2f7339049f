"""Images of environments on their way: into a file and out of it, to a registry and from it.

Nothing that arrives is called by the name that sandboxes start from before its digest was compared with the pin.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from taskforge.errors import CorpusError, SandboxFault, StoreFault, UsageError
from taskforge.model import Image
from taskforge.sandbox.docker_daemon import faults
from taskforge.sandbox.docker_image import Images
from taskforge.sandbox.oci import BLOCK, Layout, Stored, Watch
from taskforge.sandbox.oci_write import Spool, write_layout

__all__ = ["Loaded", "differs", "held", "load", "present", "save", "set_aside", "told"]

log = logging.getLogger("taskforge.sandbox")

#: Seconds until an export's first byte: the daemon writes all of it on its own disk before.
_EXPORT_TIMEOUT = 3600.0
_IDLE = re.compile(r"\.(\d+)\.[0-9a-f]+\.tmp$")


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """Environments by what became of them."""

    loaded: tuple[str, ...] = ()
    present: tuple[str, ...] = ()
    """The daemon had the same image already."""
    absent: tuple[str, ...] = ()
    """Wanted, but not in the archive."""


def held(images: Images, environment: str, digest: str) -> bool:
    """Whether the daemon has the image of an environment, and it is the one of that digest.

    Raises:
        SandboxFault: when the daemon fails.
    """
    return present(images, environment) == digest


def present(images: Images, environment: str) -> str:
    """Digest of what the daemon has as the image of an environment; empty when it has none of ours."""
    try:
        return images.facts(images.name(environment)).digest
    except SandboxFault as fault:
        if fault.kind != "docker_image":
            raise
        return ""


@contextlib.contextmanager
def set_aside(images: Images, environment: str) -> Iterator[None]:
    """What the daemon has as the image of an environment does not pass for it inside: it has to be made anew.

    For the making of pins, which must not take over what somebody changed. Comes back when the block fails.
    """
    import docker.errors
    import requests

    name = images.name(environment)
    repository, _, tag = name.partition(":")
    aside = f"{tag}-aside"
    api = images.daemon.client.api
    with faults(f"setting {name} aside"):
        try:
            api.tag(name, repository, aside)
        except docker.errors.NotFound:
            aside = ""
        else:
            # As long as it has another name the daemon only takes this one away, whoever uses the image.
            api.remove_image(name)
    try:
        yield
    except BaseException:
        if aside:
            with faults(f"bringing {name} back"):
                api.tag(f"{repository}:{aside}", repository, tag)
        raise
    finally:
        if aside:
            with faults(f"removing {repository}:{aside}"):
                try:
                    api.remove_image(f"{repository}:{aside}")
                except docker.errors.NotFound:
                    log.info("%s:%s is gone already", repository, aside)
                except docker.errors.APIError as error:
                    if error.status_code != requests.codes.conflict:
                        raise
                    log.warning("%s:%s stays, a container uses it", repository, aside)


# -- into a file ------------------------------------------------------------------------------------------------------


def save(images: Images, pins: Mapping[str, Image], target: Path, watch: Watch) -> tuple[Stored, ...]:
    """Write the images of environments into one archive, whole or not at all.

    Args:
        pins: by environment.
        target: the file; one that is there is replaced.

    Returns:
        What is in it.

    Raises:
        SandboxFault: the daemon lacks one of them, or has another than the pinned one.
        StoreFault: when this host's disk refuses.
    """
    for environment, pin in pins.items():
        found = present(images, environment)
        if found != pin.digest:
            raise differs(environment, pin.digest, found, f"the daemon has {'another' if found else 'no'} image")
    names = {images.name(environment): environment for environment in pins}
    total = sum(pin.size for pin in pins.values())
    with _placed(target) as (out, folder):
        spool = Spool(folder)
        with _export(images, sorted(names)) as export:
            spool.take(export, lambda done: watch("reading images", done, max(total, done)))
        stored = spool.images(names)
        for one in stored:
            if one.config.digest != pins[one.environment].digest:
                raise differs(one.environment, pins[one.environment].digest, one.config.digest, "the daemon exports it")
        missing = sorted(set(pins) - {one.environment for one in stored})
        if missing:
            raise SandboxFault(
                f"the daemon has not exported the image of environment {missing[0][:12]}", kind="docker_export"
            )
        write_layout(out, stored, spool.blobs)
    return stored


def differs(environment: str, wanted: str, found: str, how: str) -> SandboxFault:
    """The fault for an image that is not the pinned one, or is not there."""
    has = f" ({found[7:19]})" if found else ""
    return SandboxFault(
        f"environment {environment[:12]} is pinned to image {wanted[7:19]}, but {how}{has}",
        kind="image_differs" if found else "docker_image",
        hint="get the pinned one with `taskforge images load`, `pull` or `build`, or replace the pin on purpose with"
        " `taskforge images build --replace`",
        retryable=False,
    )


@contextlib.contextmanager
def _placed(target: Path) -> Iterator[tuple[IO[bytes], Path]]:
    """A file that gets its name when all went well, and a folder beside it until then."""
    if target.exists() and not target.is_file():
        raise UsageError(f"{target} is no file, and is not replaced by one", hint="name a file with --to")
    folder = target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for left in target.parent.glob(f".{target.name}.*.tmp"):
            owner = _IDLE.search(left.name)
            if owner and not Path("/proc", owner[1]).exists():
                shutil.rmtree(left, ignore_errors=True)
        folder.mkdir()
        try:
            with (folder / "archive").open("wb") as out:
                yield out, folder
                out.flush()
                os.fsync(out.fileno())
            (folder / "archive").replace(target)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        raise StoreFault(
            f"cannot write {target}: {error.strerror or error}", kind="disk",
            hint="make room there, or name another place with --to",
        ) from error  # fmt: skip


@contextlib.contextmanager
def _export(images: Images, names: list[str]) -> Iterator[IO[bytes]]:
    """Several images at once, so that what they share comes once: the client's own function takes only one."""
    import docker.errors
    import requests

    with faults("exporting images"):
        api = images.daemon.client.api
        response = api.get(
            f"{api.base_url}/v{api.api_version}/images/get",
            params={"names": names}, stream=True, timeout=_EXPORT_TIMEOUT,
        )  # fmt: skip
        try:
            response.raise_for_status()
        except requests.HTTPError as error:
            docker.errors.create_api_error_from_http_exception(error)
    try:
        yield io.BufferedReader(_Body(response.iter_content(BLOCK)), BLOCK)
    finally:
        response.close()


class _Body(io.RawIOBase):
    """An answer of the daemon as a stream. Only what the connection raises is the daemon's fault, not the disk's."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._left:
            with faults("exporting images"):
                self._left = memoryview(next(self._blocks, b""))
        count = min(len(buffer), len(self._left))
        buffer[:count] = self._left[:count]
        self._left = self._left[count:]
        return count


# -- out of a file ----------------------------------------------------------------------------------------------------


def load(images: Images, layout: Layout, pins: Mapping[str, Image] | None, watch: Watch) -> Loaded:
    """Give a daemon the images of an archive that it lacks, each proven to be what its corpus pins.

    Args:
        pins: by environment; others in the archive are passed over. None: all, held against themselves alone.

    Raises:
        CorpusError: when the archive is damaged.
        SandboxFault: when an image is not the pinned one, or the daemon refuses it; then it was given nothing.
    """
    wanted = [one for one in layout.images if pins is None or one.environment in pins]
    for one in wanted:
        if one.name != images.name(one.environment):
            raise CorpusError(
                f"{layout.path} calls the image of environment {one.environment[:12]} {one.name!r}",
                hint="write the archive again with `taskforge images save`",
            )
        pin = pins[one.environment].digest if pins is not None else one.config.digest
        if one.config.digest != pin:
            raise differs(one.environment, pin, one.config.digest, "the archive has another")
    there = [one for one in wanted if held(images, one.environment, one.config.digest)]
    missing = [one for one in wanted if one not in there]
    layout.verify(missing, watch)
    if missing:
        _give(images, layout, missing, watch)
    for one in missing:
        found = present(images, one.environment)
        if found != one.config.digest:
            raise differs(one.environment, one.config.digest, found, "the daemon made something else of it")
    return Loaded(
        loaded=tuple(one.environment for one in missing),
        present=tuple(one.environment for one in there),
        absent=tuple(sorted(set(pins or ()) - {one.environment for one in wanted})),
    )


def _give(images: Images, layout: Layout, missing: list[Stored], watch: Watch) -> None:
    total = sum({layer.digest: layer.size for one in missing for layer in one.layers}.values())

    def sent(blocks: Iterator[bytes]) -> Iterator[bytes]:
        done = 0
        for block in blocks:
            yield block
            done += len(block)
            watch("loading", min(done, total), total)

    with faults("loading images"):
        api = images.daemon.client.api
        said = told(api.load_image(sent(layout.archive(missing))), lambda _event: None)
        if said:
            raise SandboxFault(
                f"the daemon refuses the images: {said}", kind="docker_refused",
                hint="see the daemon's log; `docker image prune` makes room", retryable=False,
            )  # fmt: skip
        for one in missing:
            # Loading leaves no time of arrival, by which pruning goes as long as nobody has used the image.
            repository, _, tag = one.name.partition(":")
            api.tag(one.name, repository, tag)


def told(events: Iterator[Any], heard: Callable[[Mapping[str, Any]], None]) -> str:
    """Hear a daemon's events to their end. Returns the first error among them, empty if there was none."""
    said = ""
    for event in events:
        if isinstance(event, Mapping):
            heard(event)
            said = said or str(event.get("error") or "")
    return said.strip()
