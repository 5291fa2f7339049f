"""Test requirements, from every place where projects write them down."""

from __future__ import annotations

import configparser
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from taskforge.model import Tree

__all__ = ["group_lines", "ini_lines", "requirement_files", "tool_lines"]

_FILE = r"(?:requirements/)?(?:requirements[-_.])?(?:{names})(?:[-_.]?requirements)?\.(?:txt|in)\Z"
_TEST_FILE = re.compile(_FILE.format(names="testing|tests|test"))
_DEV_FILE = re.compile(_FILE.format(names="dev|develop|development"))


def requirement(text: str) -> str | None:
    """``text`` as a PEP 508 line, or None when it is none, or names a path or URL: those do not come from an index."""
    text = re.split(r"\s#|\s--hash|\s--", text, maxsplit=1)[0].strip().rstrip("\\").strip()
    try:
        parsed = Requirement(text)
    except InvalidRequirement:
        return None
    return None if parsed.url else str(parsed)


def group_lines(table: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Requirements of the PEP 735 groups called ``names``, their ``include-group`` followed."""
    groups = table.get("dependency-groups")
    if not isinstance(groups, dict):
        return []
    by_name = {str(canonicalize_name(name)): items for name, items in groups.items()}
    found: list[str] = []
    seen: set[str] = set()

    def take(name: str) -> None:
        if name in seen or not isinstance(by_name.get(name), list):
            return
        seen.add(name)
        for item in by_name[name]:
            if isinstance(item, dict) and isinstance(item.get("include-group"), str):
                take(str(canonicalize_name(item["include-group"])))
            elif isinstance(item, str):
                found.extend(filter(None, [requirement(item)]))

    for name in names:
        take(name)
    return found


def tool_lines(table: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Requirements in the tables of poetry, PDM, uv and hatch, which had groups of their own before PEP 735.

    Poetry's version ranges are not PEP 508: its requirements come without.
    """
    tool = _dict(table, "tool")
    found: list[str] = []
    poetry = _dict(tool, "poetry")
    tables = [_dict(_dict(_dict(poetry, "group"), name), "dependencies") for name in names]
    if "dev" in names:
        tables.append(_dict(poetry, "dev-dependencies"))
    found += [name for one in tables for name in one if name != "python"]
    pdm = _dict(_dict(tool, "pdm"), "dev-dependencies")
    found += [line for name in names for line in _list(pdm.get(name))]
    if "dev" in names:
        found += _list(_dict(tool, "uv").get("dev-dependencies"))
    environments = _dict(_dict(tool, "hatch"), "envs")
    hatch = [*names, "hatch-test"] if "test" in names else ["default"]
    for name in hatch:
        environment = _dict(environments, name)
        found += [*_list(environment.get("dependencies")), *_list(environment.get("extra-dependencies"))]
    return _requirements(found)


def ini_lines(setup: configparser.ConfigParser) -> list[str]:
    """setup.cfg's ``tests_require``."""
    text = setup.get("options", "tests_require", fallback="")
    return _requirements(part for line in text.splitlines() for part in line.split(";;"))


def requirement_files(tree: Tree, table: Mapping[str, Any], *, dev: bool) -> list[str]:
    """Requirements of files named after tests (or, with ``dev``, after development) and of tox's ``deps``."""
    pattern = _DEV_FILE if dev else _TEST_FILE
    found = [line for path in tree if pattern.match(path) for line in _file(tree, path, set())]
    if not dev:
        found += _tox(tree, table)
    return list(dict.fromkeys(found))


def _file(tree: Tree, path: str, seen: set[str]) -> Iterator[str]:
    path = posixpath.normpath(path)
    entry = tree.get(path)
    if entry is None or entry.kind == "link" or path in seen:
        return
    seen.add(path)
    text = re.sub(r"\\\r?\n", " ", entry.data.decode("utf-8", "replace"))
    for line in text.splitlines():
        yield from _line(tree, line.strip(), posixpath.dirname(path), seen)


def _line(tree: Tree, line: str, folder: str, seen: set[str]) -> Iterator[str]:
    include = re.match(r"(?:-r|--requirement)[\s=]*(\S+)", line)
    if include:
        yield from _file(tree, posixpath.join(folder, include[1]), seen)
    elif line and not line.startswith(("#", "-", ".", "/")):
        yield from filter(None, [requirement(line)])


def _tox(tree: Tree, table: Mapping[str, Any]) -> list[str]:
    legacy = _dict(_dict(table, "tool"), "tox").get("legacy_tox_ini")
    texts = [tree["tox.ini"].data.decode("utf-8", "replace")] if "tox.ini" in tree else []
    texts += [legacy] if isinstance(legacy, str) else []
    found: list[str] = []
    for text in texts:
        parser = configparser.ConfigParser(interpolation=None, strict=False)
        try:
            parser.read_string(text)
        except configparser.Error:
            continue
        for line in parser.get("testenv", "deps", fallback="").splitlines():
            # Lines with substitutions, or for one factor only, are for some other environment.
            stripped = line.strip()
            if "{" not in stripped and not re.match(r"[\w!,.-]+\s*:\s", stripped):
                found += _line(tree, stripped, "", set())
    return found


def _requirements(lines: Iterable[str]) -> list[str]:
    return [found for line in lines if (found := requirement(line)) is not None]


def _dict(value: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _list(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
