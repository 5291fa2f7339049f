"""The image of an environment, as a corpus pins it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from taskforge.model.base import Value

__all__ = ["Image"]

_DIGEST = r"\Asha256:[0-9a-f]{64}\z"


class Image(Value):
    """``image.json``: which image an environment's tasks were proven in. ``digest`` is its identity.

    Two hosts that make it of the same base and environment get the same digest, whatever stores it.
    """

    schema_version: Literal[1] = 1
    digest: str = Field(pattern=_DIGEST)
    """SHA-256 of the image's configuration, which holds ``layers``; Docker's image id in its classic store."""
    platform: str = Field(pattern=r"\A[a-z0-9]+/[a-z0-9_]+(/[a-z0-9]+)?\z")
    """Such as ``linux/amd64``."""
    layers: tuple[str, ...] = Field(min_length=1)
    """Digests of the uncompressed layers, the lowest first."""
    python: str
    """Full version of its interpreter, such as ``3.12.1``."""
    size: int = Field(ge=0)
    """Bytes of the files in all layers."""
    base: str = ""
    """What it was made from: name, ``@`` and id. Empty where nobody here knows; no part of the digest."""
    reference: str = Field(default="", pattern=r"\A(|[^\s@]+@sha256:[0-9a-f]{64})\z")
    """Where a registry has it, as ``registry/repository@sha256:…``; empty when it was never pushed."""
