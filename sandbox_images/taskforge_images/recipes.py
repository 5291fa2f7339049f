"""What lies beside this module: Dockerfiles with what they copy, and references of bases by Python's version."""

from __future__ import annotations

import io
import tarfile
import tomllib
from collections.abc import Mapping
from importlib.resources import files

__all__ = ["CLEAN", "FACTS", "NO_PYTHON", "context", "debian_suite", "reference"]

#: The stage of ``python/Dockerfile`` that cleans.
CLEAN = "clean"
#: Where that stage leaves what it found, one JSON object: ``python``, ``interpreter``, ``machine``.
FACTS = ".taskforge/facts.json"
#: Exit status of the cleaning step where a base has no Python of the minor version.
NO_PYTHON = 96
_EPOCH = 946684800


def context(dockerfile: str, *names: str, more: Mapping[str, bytes] | None = None) -> bytes:
    """A build context as an uncompressed tar, the same bytes for the same files.

    Args:
        dockerfile: of the folder ``python``; it becomes ``Dockerfile``.
        names: further files of that folder.
        more: further files by name.
    """
    folder = files("taskforge_images") / "python"
    contents = {"Dockerfile": (folder / dockerfile).read_bytes()}
    contents |= {name: (folder / name).read_bytes() for name in names}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in sorted({**contents, **(more or {})}.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(data), _EPOCH
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


def reference(minor: str) -> str:
    """The base image of a Python from a hub, with its digest where one is known: ``python:3.12-slim@sha256:…``."""
    return str(_minors().get(minor, {}).get("image", f"python:{minor}-slim"))


def debian_suite(minor: str) -> str | None:
    """The Debian release whose own Python is of this minor version; None where none is known."""
    return _minors().get(minor, {}).get("debian")


def _minors() -> dict[str, dict[str, str]]:
    text = (files("taskforge_images") / "python" / "bases.toml").read_text(encoding="utf-8")
    found: dict[str, dict[str, str]] = tomllib.loads(text)["minor"]
    return found
