"""Which Python a snapshot's tests run on, of those that this host has."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import uv
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from taskforge import process
from taskforge.errors import EnvironmentBuildError

__all__ = ["Interpreter", "available", "find"]

#: 3.12 first: it has the cheap recorder, and most projects run on it.
_PREFERENCE = ("3.12", "3.13", "3.14", "3.11", "3.10", "3.9", "3.8")

_QUERY = (
    "import json, os, sys; print(json.dumps([sys.implementation.name, list(sys.version_info), sys.base_prefix, "
    "os.path.realpath(sys.executable)]))"
)


@dataclass(frozen=True)
class Interpreter:
    """A base CPython on this host, no virtual environment."""

    path: Path
    """Symlinks resolved."""
    version: str
    """Full, such as ``3.12.1``."""
    base_prefix: Path

    @property
    def minor(self) -> str:
        """Such as ``3.12``."""
        return ".".join(self.version.split(".")[:2])


def find(requires: str | None, wanted: str | None) -> Interpreter:
    """The best interpreter for a project.

    Args:
        requires: the project's ``requires-python``; one that does not parse asks for nothing.
        wanted: a version such as ``3.11`` or ``3.11.7``, or a path, that overrides the preference and ``requires``.

    Raises:
        EnvironmentBuildError: when none fits; the message lists what there is.
    """
    if wanted and "/" in wanted:
        asked = _query(wanted)
        if asked is None:
            raise EnvironmentBuildError(f"{wanted} is no CPython 3.8 or newer", hint="name another with --python")
        return asked
    found = available()
    if wanted:
        fitting = [one for one in found if one.version == wanted or one.minor == wanted]
    else:
        try:
            allowed = SpecifierSet(requires or "")
        except InvalidSpecifier:
            allowed = SpecifierSet()
        fitting = [one for one in found if one.minor in _PREFERENCE and allowed.contains(one.version)]
    if not fitting:
        there = ", ".join(one.version for one in found) or "none"
        needed = wanted or requires or ">=3.8"
        raise EnvironmentBuildError(
            f"no Python {needed} on this host; there is {there}",
            hint="install one that fits, for example with `uv python install 3.12`",
        )
    known = {minor: rank for rank, minor in enumerate(_PREFERENCE)}
    return min(fitting, key=lambda one: (known.get(one.minor, len(known)), [-n for n in Version(one.version).release]))


def available() -> tuple[Interpreter, ...]:
    """Every final CPython from 3.8 on that this host has, each real binary once, newest first."""
    found = {one.path: one for path in _candidates() if (one := _query(path)) is not None}
    return tuple(sorted(found.values(), key=lambda one: (Version(one.version), str(one.path)), reverse=True))


def _candidates() -> Iterator[str]:
    base = getattr(sys, "_base_executable", None) or sys.executable
    yield base
    yield from map(str, sorted(Path.home().glob(".pyenv/versions/*/bin/python3.[0-9]*")))
    yield from _known_to_uv()


@functools.cache
def _known_to_uv() -> tuple[str, ...]:
    """Asked once a process: uv starts every interpreter that it finds, which takes a second or more."""
    argv = [uv.find_uv_bin(), "python", "list", "--only-installed", "--output-format", "json", "--no-python-downloads"]
    try:
        # What it says of interpreters that do not start goes to its standard error, and is no concern here.
        listing = process.run(argv, timeout=60, cwd=Path("/"))
        rows = json.loads(listing.stdout or b"[]")
    except (ValueError, OSError):
        rows = []
    return tuple(row["path"] for row in rows if row.get("implementation") == "cpython" and row.get("path"))


def _query(path: str) -> Interpreter | None:
    real = os.path.realpath(path)
    try:
        changed = Path(real).stat().st_mtime_ns
    except OSError:
        return None
    return _ask(real, changed)


@functools.lru_cache(maxsize=256)
def _ask(path: str, _changed: int) -> Interpreter | None:
    if path.endswith("-config"):
        return None
    try:
        answer = process.run([path, "-I", "-S", "-c", _QUERY], timeout=20, cwd=Path("/"))
        implementation, version, prefix, executable = json.loads(answer.stdout)
    except (ValueError, OSError):
        return None
    major, minor, patch, level = version[:4]
    if answer.returncode or implementation != "cpython" or level != "final" or (major, minor) < (3, 8):
        return None
    return Interpreter(Path(executable), f"{major}.{minor}.{patch}", Path(prefix).resolve())
