"""The configuration of our images: the same bytes for the same layers and facts, whatever stores the image.

Its digest is the image's identity. Docker's classic store calls an image by it; containerd's store does not, and a
registry has names of its own. So what a daemon says of an image is turned back into these bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from taskforge.model import Image
from taskforge.model.base import canonical_json
from taskforge.sandbox import ENV
from taskforge.sandbox.docker_daemon import KIND

__all__ = ["FORMAT", "LABEL", "as_image", "configuration", "digest", "pure", "told"]

#: Raise it when the same base and environment would give another image.
FORMAT = "2"
LABEL = "taskforge."
_EPOCH = "1970-01-01T00:00:00Z"


def configuration(
    kind: str,
    layers: Sequence[str],
    labels: Mapping[str, str],
    *,
    platform: str,
    config: Mapping[str, Any] | None = None,
) -> bytes:
    """The configuration's bytes.

    Args:
        kind: ``environment`` or ``base``.
        layers: digests of the uncompressed layers, the lowest first.
        labels: by their names without our prefix.
        config: what a daemon told of it instead of what we write: whatever differs changes the digest.
    """
    system, _, machine = platform.partition("/")
    machine, _, variant = machine.partition("/")
    ours = {
        "Entrypoint": [f"{ENV}/bin/python"],
        "Labels": {KIND: kind, **{LABEL + name: value for name, value in {"format": FORMAT, **labels}.items()}},
    }
    return canonical_json({
        "architecture": machine, **({"variant": variant} if variant else {}), "os": system, "created": _EPOCH,
        "config": ours if config is None else config, "rootfs": {"type": "layers", "diff_ids": list(layers)},
    })  # fmt: skip


def digest(data: bytes) -> str:
    """``sha256:…`` of bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def told(found: Mapping[str, Any]) -> bytes:
    """The configuration of an image as a daemon's inspection tells it; all that is not empty counts."""
    config = {name: value for name, value in (found.get("Config") or {}).items() if value}
    layers = (found.get("RootFS") or {}).get("Layers") or []
    return configuration("", layers, {}, platform=_platform(found), config=config)


def pure(found: Mapping[str, Any], *, kind: str, layers: int, **labels: str) -> bool:
    """Whether an image has the form of ours, with these labels: as many layers, nothing configured that we do not."""
    have = (found.get("Config") or {}).get("Labels") or {}
    ours = {name.removeprefix(LABEL): value for name, value in have.items() if name != KIND}
    stack = (found.get("RootFS") or {}).get("Layers") or []
    wanted = {"format": FORMAT, **labels}
    return (
        len(stack) == layers
        and all(ours.get(name) == value for name, value in wanted.items())
        and told(found) == configuration(kind, stack, ours, platform=_platform(found))
    )


def _platform(found: Mapping[str, Any]) -> str:
    return "/".join(filter(None, (found.get("Os"), found.get("Architecture"), found.get("Variant"))))


def as_image(found: Mapping[str, Any], *, base: str = "", reference: str = "") -> Image | None:
    """What a daemon's inspection tells as a pin; None when it is no image of ours, or lacks what ours say."""
    labels = (found.get("Config") or {}).get("Labels") or {}
    size = labels.get(f"{LABEL}size", "")
    layers = tuple((found.get("RootFS") or {}).get("Layers") or ())
    if labels.get(f"{LABEL}format") != FORMAT or not size.isdigit() or not layers:
        return None
    return Image(
        digest=digest(told(found)),
        platform=_platform(found),
        layers=layers,
        python=labels.get(f"{LABEL}python", ""),
        size=int(size),
        base=base,
        reference=reference,
    )
