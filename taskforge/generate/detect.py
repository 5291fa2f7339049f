"""What a tree says of itself, read without running any of it: its Python, its build, and what its tests need."""

from __future__ import annotations

import configparser
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from packaging.utils import canonicalize_name

from taskforge.generate.acquire_metadata import headers, pyproject
from taskforge.generate.detect_imports import test_imports
from taskforge.generate.detect_requirements import group_lines, ini_lines, requirement_files, tool_lines
from taskforge.model import Tree

__all__ = ["LEGACY_BACKEND", "Detected", "detect", "read_ini", "test_extras"]

LEGACY_BACKEND = "setuptools.build_meta:__legacy__"

_TEST_NAMES = ("test", "tests", "testing")

#: What developers run on a project rather than what its tests import. Pulled in by a runtime requirement, they stay.
_TOOLING = frozenset({
    "black", "build", "bump2version", "bumpversion", "flake8", "hatch", "isort", "nox", "pip", "pip-tools", "poetry",
    "pre-commit", "ruff", "setuptools", "tox", "twine", "uv", "wheel",
})  # fmt: skip


@dataclass(frozen=True)
class Detected:
    """Requirement lines are PEP 508."""

    name: str
    """Normalised project name, empty where none is declared statically."""
    requires_python: str | None
    installable: bool
    """Whether there is a project for a build backend to install."""
    build_requires: tuple[str, ...]
    backend: str
    """As PEP 517 writes it, ``module:object``."""
    backend_path: tuple[str, ...]
    extras: tuple[str, ...]
    """Declared extras that tests are known by; the built metadata has the last word."""
    dev: bool
    """Nothing is named after tests, so that an extra or group called ``dev`` counts."""
    groups: tuple[str, ...]
    """Requirements of dependency groups and of the build tools' own tables."""
    pinned: tuple[str, ...]
    """Requirements of requirements files and tox; their versions are given up when they conflict."""
    imports: frozenset[str]
    """Top-level modules that test files import unconditionally and neither the tree nor the standard library has."""
    notes: tuple[str, ...] = field(default=())


def detect(tree: Tree) -> Detected:
    """Read ``tree``. Files that do not parse count as absent, and are named in ``notes``."""
    table = pyproject(tree)
    notes = ("pyproject.toml does not parse",) if "pyproject.toml" in tree and not table else ()
    setup = read_ini(tree, "setup.cfg")
    info = headers(tree["PKG-INFO"].data) if "PKG-INFO" in tree else []
    project = _table(table, "project")
    build = _table(table, "build-system")
    provided = [value for key, value in info if key == "provides-extra"]
    provided += _table(project, "optional-dependencies")
    if setup.has_section("options.extras_require"):
        provided += setup.options("options.extras_require")
    named = [*group_lines(table, _TEST_NAMES), *tool_lines(table, _TEST_NAMES), *ini_lines(setup)]
    pinned = requirement_files(tree, table, dev=False)
    extras = test_extras(provided, dev=False)
    dev = not (named or pinned or extras)
    if dev:
        named = [*group_lines(table, ("dev",)), *tool_lines(table, ("dev",))]
        pinned = requirement_files(tree, table, dev=True)
        extras = test_extras(provided, dev=True)
    name = dict(reversed(info)).get("name") or project.get("name") or setup.get("metadata", "name", fallback="")
    return Detected(
        name=str(canonicalize_name(name)) if isinstance(name, str) else "",
        requires_python=_requires_python(info, project, setup),
        installable=bool(build or project) or "setup.py" in tree or setup.has_section("metadata"),
        build_requires=tuple(_strings(build.get("requires"))) if build else ("setuptools",),
        backend=build.get("build-backend") or LEGACY_BACKEND,
        backend_path=tuple(_strings(build.get("backend-path"))),
        extras=extras,
        dev=dev,
        groups=_without_tooling(named),
        pinned=_without_tooling(pinned),
        imports=test_imports(tree),
        notes=notes,
    )


def test_extras(provided: Iterable[str], *, dev: bool) -> tuple[str, ...]:
    """Of a project's extras, those that tests need: ``test``, ``tests``, ``testing``; else, with ``dev``, that."""
    known = {str(canonicalize_name(extra)) for extra in provided}
    chosen = tuple(name for name in _TEST_NAMES if name in known)
    return chosen or (("dev",) if dev and "dev" in known else ())


test_extras.__test__ = False  # type: ignore[attr-defined]


def read_ini(tree: Tree, path: str) -> configparser.ConfigParser:
    """An INI file of the tree, without interpolation; empty when it is missing or does not parse."""
    parser = configparser.ConfigParser(interpolation=None, strict=False, default_section="\0none")
    entry = tree.get(path)
    if entry is not None and entry.kind != "link":
        try:
            parser.read_string(entry.data.decode("utf-8", "replace"))
        except configparser.Error:
            return configparser.ConfigParser(interpolation=None)
    return parser


def _requires_python(
    info: list[tuple[str, str]], project: Mapping[str, Any], setup: configparser.ConfigParser
) -> str | None:
    for value in (
        dict(info).get("requires-python"),
        project.get("requires-python"),
        setup.get("options", "python_requires", fallback=None),
    ):
        if isinstance(value, str) and value.strip():
            return value.strip()
    return None


def _without_tooling(lines: Iterable[str]) -> tuple[str, ...]:
    from packaging.requirements import Requirement

    kept = {line: canonicalize_name(Requirement(line).name) for line in lines}
    return tuple(line for line, name in kept.items() if name not in _TOOLING)


def _table(value: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _strings(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
