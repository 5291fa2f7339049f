"""From a built project's metadata to the requirement lines of its tests."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass

from packaging.markers import default_environment
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from taskforge.errors import EnvironmentBuildError
from taskforge.generate.acquire_metadata import headers
from taskforge.generate.interpreters import Interpreter

__all__ = ["Metadata", "applies", "metadata_of", "runtime"]


@dataclass(frozen=True)
class Metadata:
    """Of a wheel's METADATA. ``name`` and ``extras`` are normalised."""

    name: str
    version: str
    requires: tuple[str, ...]
    extras: tuple[str, ...]


def metadata_of(wheel: bytes) -> Metadata:
    """Read it from a wheel.

    Raises:
        EnvironmentBuildError: when the wheel has none.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
            names = [name for name in archive.namelist() if name.count("/") == 1]
            (path,) = [name for name in names if name.endswith(".dist-info/METADATA")]
            found = headers(archive.read(path))
    except (ValueError, zipfile.BadZipFile, OSError, NotImplementedError, RuntimeError) as error:
        raise EnvironmentBuildError(
            f"building the project made a wheel without metadata: {error}", hint="look at the project's build backend"
        ) from None
    single = dict(reversed(found))
    return Metadata(
        name=str(canonicalize_name(single.get("name", ""))),
        version=single.get("version", ""),
        requires=tuple(value for key, value in found if key == "requires-dist"),
        extras=tuple(str(canonicalize_name(value)) for key, value in found if key == "provides-extra"),
    )


def applies(requirement: Requirement, python: Interpreter, extras: Sequence[str] = ()) -> bool:
    """Whether a requirement's marker holds for ``python`` on this host, with any of ``extras`` or with none."""
    if requirement.marker is None:
        return True
    environment = {key: str(value) for key, value in default_environment().items()} | {
        "python_version": python.minor,
        "python_full_version": python.version,
        "implementation_version": python.version,
    }
    return any(requirement.marker.evaluate({**environment, "extra": extra}) for extra in ("", *extras))


def runtime(metadata: Metadata, extras: Sequence[str], python: Interpreter) -> list[str]:
    """Requirement lines of the project with ``extras``; extras that name other extras of the project are followed."""
    wanted = list(extras)
    lines: dict[str, None] = {}
    done: set[str] = set()
    while True:
        for text in metadata.requires:
            try:
                requirement = Requirement(text)
            except InvalidRequirement:
                continue
            if not applies(requirement, python, wanted):
                continue
            if canonicalize_name(requirement.name) == metadata.name:
                wanted += [str(canonicalize_name(e)) for e in requirement.extras if canonicalize_name(e) not in wanted]
                continue
            requirement.marker = None
            lines[str(requirement)] = None
        if set(wanted) == done:
            return list(lines)
        done = set(wanted)
