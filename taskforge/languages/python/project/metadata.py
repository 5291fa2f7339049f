"""Entry points in a project's metadata: the one line, proven by parsing before and after."""

from __future__ import annotations

import configparser
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

__all__ = ["without_entry_points"]

_OBJECT = re.compile(r"\s*([\w.]+)\s*(?::\s*([\w.]+))?")


def without_entry_points(
    path: str, source: bytes, is_gone: Callable[[str, str], bool]
) -> tuple[bytes, tuple[str, ...]]:
    """``pyproject.toml`` or ``setup.cfg`` without the entry points that lead to what is gone.

    Args:
        is_gone: of a module's dotted name and of the object in it (``""``: the module itself).

    Returns:
        The bytes, and a note for each line: taken out, or left where that could not be done with certainty.
    """
    read = _read_toml if path.endswith(".toml") else _read_cfg
    before = read(source)
    if before is None:
        return source, ()
    notes = []
    for place, value in before.items():
        found = _OBJECT.match(value)
        if not found or not is_gone(found[1], found[2] or ""):
            continue
        name = place[-1]
        # The key at the start of a line, its value behind it on the same line.
        line = re.compile(
            rb"^[ \t]*[\"']?" + re.escape(name.encode()) + rb"[\"']?[ \t]*=[^\r\n]*" + re.escape(found[1].encode())
            + rb"[^\r\n]*(?:\r\n|\r|\n|\Z)",
            re.MULTILINE,
        )  # fmt: skip
        wanted = {key: it for key, it in before.items() if key != place}
        for hit in line.finditer(source):
            result = source[: hit.start()] + source[hit.end() :]
            if read(result) == wanted:
                source, before = result, wanted
                notes.append(f"{path}: the entry point {name} = {value} is gone")
                break
        else:
            notes.append(f"{path}: the entry point {name} = {value} is left, since its line cannot be told")
    return source, tuple(notes)


def _read_toml(source: bytes) -> dict[tuple[str, ...], str] | None:
    """All entry points, by their place; with all else, so that nothing else can change."""
    try:
        data = tomllib.loads(source.decode())
    except (UnicodeError, tomllib.TOMLDecodeError):
        return None
    return dict(_flat(data, ()))


def _flat(data: Mapping[str, Any], place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    for key, value in data.items():
        here = (*place, key)
        if isinstance(value, dict):
            yield from _flat(value, here)
        elif isinstance(value, str) and _is_entry(place):
            yield here, value
        else:
            # Marked, so that it is compared and yet never taken for an object.
            yield here, f"={value!r}"


def _is_entry(place: tuple[str, ...]) -> bool:
    if place[:1] == ("project",):
        return place[1:] in {("scripts",), ("gui-scripts",)} or place[1:2] == ("entry-points",)
    return place[:1] == ("tool",) and place[-1:] in {("scripts",), ("plugins",)}


def _read_cfg(source: bytes) -> dict[tuple[str, ...], str] | None:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(source.decode())
    except (UnicodeError, configparser.Error):
        return None
    found: dict[tuple[str, ...], str] = {}
    for section in parser.sections():
        for key, value in parser.items(section):
            if section != "options.entry_points":
                found[section, key] = f"={value!r}"
                continue
            for number, line in enumerate(value.splitlines()):
                name, equals, target = line.partition("=")
                if equals:
                    found[section, key, name.strip()] = target.strip()
                elif line.strip():
                    found[section, key, str(number)] = f"={line!r}"
    return found
