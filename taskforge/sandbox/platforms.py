"""What machines a compiled environment runs on."""

from __future__ import annotations

import platform

__all__ = ["here"]

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def here() -> str:
    """The platform of this host, which its environments are for: ``linux/amd64``."""
    return f"linux/{_MACHINES.get(platform.machine(), platform.machine())}"
