"""What taskforge's images take of a daemon's disk, and making room there.

Only images that carry our label count, and only those of no other name are removed. What several share is counted
once. The daemon itself refuses to remove what a container uses, so that a race loses.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from taskforge.sandbox.docker_daemon import KIND, faults
from taskforge.sandbox.docker_image import REPOSITORY, Images

__all__ = ["Pruned", "Stay", "prune", "stays", "taken"]

_OURS = (f"{REPOSITORY}:", "taskforge-clean:")
_BUSY = "already running"
_TRIES = 50


@dataclass(frozen=True, kw_only=True)
class Stay:
    """One of taskforge's images in a daemon. Sizes in bytes, times in seconds since the epoch."""

    id: str
    kind: str
    """``environment``, or ``base``: an interpreter without what vendors other projects, on which environments lie."""
    environment: str
    """Digest of the environment; empty for a base."""
    python: str
    names: tuple[str, ...]
    layers: tuple[str, ...]
    size: int
    shared: int
    """Of ``size``, what other images have too."""
    arrived: float
    """When it got its name here; 0 when the daemon does not say."""
    last_used: float | None
    """By this host; None when it never did."""
    containers: int
    leased: bool
    """A process of this host uses it."""

    @property
    def own(self) -> int:
        """What removing it alone would free."""
        return self.size - self.shared

    @property
    def name(self) -> str:
        """For people."""
        return self.names[0] if self.names else self.id.removeprefix("sha256:")[:12]

    @property
    def kept(self) -> str:
        """Why it must stay; empty when it may go."""
        foreign = [name for name in self.names if not name.startswith((*_OURS, f"{REPOSITORY}@"))]
        tags = [name for name in foreign if "@" not in name]
        if self.containers:
            return "1 container uses it" if self.containers == 1 else f"{self.containers} containers use it"
        if self.leased:
            return "a process of this host uses it"
        return f"somebody called it {tags[0]}" if tags else ""


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """What became of the images."""

    before: int
    """Bytes that taskforge's images took."""
    after: int
    removed: tuple[Stay, ...]
    kept: tuple[tuple[Stay, str], ...]
    """Those that would have had to go, and why they did not."""


def stays(images: Images) -> list[Stay]:
    """All of taskforge's images in the daemon, the one used longest ago first.

    Raises:
        SandboxFault: when the daemon fails.
    """
    import docker.errors

    with faults("asking what images there are"):
        api = images.daemon.client.api
        ours = {str(one["Id"]) for one in api.images(filters={"label": KIND})}
        usage = {str(one["Id"]): one for one in _usage(api) if one["Id"] in ours}
        using: dict[str, int] = {}
        for container in api.containers(all=True):
            using[container["ImageID"]] = using.get(container["ImageID"], 0) + 1
        found = []
        for name, used in usage.items():
            try:
                told = api.inspect_image(name)
            except docker.errors.ImageNotFound:
                continue
            found.append(_stay(images, told, used, using.get(name, 0)))
    return sorted(found, key=lambda one: (bool(one.names), one.last_used or one.arrived, one.id))


def _usage(api: Any) -> list[Mapping[str, Any]]:
    """The daemon counts for one at a time, and refuses the others meanwhile."""
    import docker.errors

    for left in range(_TRIES, -1, -1):
        try:
            return list(api.df()["Images"] or ())
        except docker.errors.APIError as error:
            if _BUSY not in str(error.explanation or error) or not left:
                raise
            time.sleep(0.2)
    raise AssertionError("the last try returns or raises")


def _stay(images: Images, told: Mapping[str, Any], used: Mapping[str, Any], containers: int) -> Stay:
    labels = told["Config"].get("Labels") or {}
    size = int(used["Size"])
    return Stay(
        id=str(told["Id"]), kind=labels.get(KIND, ""), environment=labels.get("taskforge.environment", ""),
        python=labels.get("taskforge.python", ""),
        names=tuple(name for name in [*(told.get("RepoTags") or ()), *(told.get("RepoDigests") or ())]
                    if not name.startswith("<none>")),
        layers=tuple((told.get("RootFS") or {}).get("Layers") or ()), size=size,
        shared=max(0, min(size, int(used.get("SharedSize") or 0))),
        arrived=_seconds((told.get("Metadata") or {}).get("LastTagTime")), last_used=images.last_used(str(told["Id"])),
        containers=containers, leased=images.leased(str(told["Id"])),
    )  # fmt: skip


def _seconds(told: Any) -> float:
    """Of a time as daemons write it; year 1 means never."""
    text = str(told or "")
    return 0.0 if not text or text.startswith("0001") else dt.datetime.fromisoformat(text).timestamp()


def taken(images: Iterable[Stay]) -> int:
    """Bytes that they take together. What some share is counted once; every image is a bottom and one layer on it."""
    bottoms: dict[tuple[str, ...], int] = {}
    tops: dict[tuple[str, ...], int] = {}
    for one in images:
        if one.kind == "base":
            bottoms[one.layers] = max(bottoms.get(one.layers, 0), one.size)
        else:
            bottoms[one.layers[:-1]] = max(bottoms.get(one.layers[:-1], 0), one.shared)
            tops[one.layers] = one.size
    for layers, size in tops.items():
        tops[layers] = size - min(bottoms[layers[:-1]], size)
    return sum(bottoms.values()) + sum(tops.values())


def prune(images: Images, budget: int, *, dry_run: bool = False) -> Pruned:
    """Remove images of environments, the one used longest ago first, until all take no more than ``budget`` bytes;
    then bases on which no environment is left.

    Raises:
        SandboxFault: when the daemon fails.
    """
    found = stays(images)
    left = [one for one in found if one.kind in {"environment", "base"}]
    before = taken(left)
    removed: list[Stay] = []
    kept: list[tuple[Stay, str]] = []

    def drop(one: Stay) -> None:
        if why := one.kept or ("" if dry_run else _remove(images, one)):
            kept.append((one, why))
        else:
            left.remove(one)
            removed.append(one)

    for one in [one for one in left if one.kind == "environment"]:
        if taken(left) <= budget:
            break
        drop(one)
    for one in _bare(left) if before > budget else ():
        drop(one)
    return Pruned(before=before, after=taken(left), removed=tuple(removed), kept=tuple(kept))


def _bare(left: Sequence[Stay]) -> list[Stay]:
    """Bases on which nothing lies."""
    needed = {one.layers[:-1] for one in left if one.kind == "environment"}
    return [one for one in left if one.kind == "base" and one.layers not in needed]


def _remove(images: Images, one: Stay) -> str:
    """Without force, and not while a process makes or takes it. Returns why it stays; empty when it is gone."""
    import docker.errors
    import requests

    tags = [name for name in one.names if name.startswith(_OURS)]
    # Our own name last: as long as there is another, the daemon takes a name away and does not ask who uses it.
    order = [*(name for name in one.names if name not in tags), *tags] or [one.id]
    lock = f"image-{tags[-1].partition(':')[2]}" if tags and one.kind == "environment" else f"prune-{one.id[7:19]}"
    with faults(f"removing image {one.name}"), images.daemon.locked(lock):
        why = replace(one, leased=images.leased(one.id)).kept
        if why:
            return why
        for name in order:
            try:
                images.daemon.client.api.remove_image(name)
            except docker.errors.ImageNotFound:
                continue
            except docker.errors.APIError as error:
                if error.status_code != requests.codes.conflict:
                    raise
                return f"the daemon keeps it: {str(error.explanation or error).strip()}"
    return ""


