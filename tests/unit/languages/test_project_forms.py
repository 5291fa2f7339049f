"""A package with every form of reference, really imported before and after each removal, in a process of its own."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from taskforge import process
from taskforge.languages import Mode, Plan, SkippedFile, language

PYTHON = language("python")
ROOT = Path(__file__).parents[2] / "repos" / "forms"
FILES = {it.relative_to(ROOT).as_posix(): it.read_bytes() for it in sorted(ROOT.rglob("*")) if it.is_file() and "__pycache__" not in it.parts}  # fmt: skip
PROJECT = PYTHON.project(FILES, is_product=lambda path: not PYTHON.is_test_path(path))
UNITS = [key for key, unit in PROJECT.units.items() if unit.kind != "constant"]

#: Imports every module and everything of each; prints what failed.
LOOK = """
import importlib, json, pkgutil, sys
sys.path.insert(0, "src")
failed = {}
names = json.loads(sys.argv[1])
for name in names:
    try:
        importlib.import_module(name)
        exec(f"from {name} import *", {})
    except BaseException as error:
        failed[name] = f"{type(error).__name__}: {error}"
print(json.dumps(failed))
"""


#: Lines that name it and stay: what only looks like an entry point, and what happens within functions.
KEPT = (b'draw = "draw"', b"    from forms import draw as by_hand", b"    return (draw or by_hand)(pair.left)")


def modules(files: Mapping[str, bytes]) -> list[str]:
    names = [path.removeprefix("src/").removesuffix(".py").replace("/", ".") for path in files if path.startswith("src/")]
    return sorted(it.removesuffix(".__init__") for it in names if not it.endswith((".pyi", "__main__")))


def failures(files: Mapping[str, bytes], folder: Path) -> dict[str, str]:
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    argv = [sys.executable, "-I", "-B", "-W", "error", "-c", LOOK, json.dumps(modules(files))]
    done = process.run(argv, timeout=60, cwd=folder)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def attempt(mode: Mode, units: list[str], files: Sequence[str] = ()) -> Plan | str:
    """The plan, or the reason why there is none."""
    try:
        return PROJECT.plan(mode, units, files)
    except SkippedFile as problem:
        return problem.reason


def after(plan: Plan) -> dict[str, bytes]:
    files = {**FILES, **plan.changes}
    return {path: data for path, data in files.items() if data is not None}


def test_it_can_be_imported_as_it_is(tmp_path: Path) -> None:
    assert modules(FILES) == [
        "forms", "forms._impl", "forms.compat", "forms.dispatch", "forms.lazy", "forms.models", "forms.registry",
        "forms.shapes", "forms.sub", "forms.sub.deep", "forms.sub.star", "forms.typed",
    ]  # fmt: skip
    assert failures(FILES, tmp_path) == {}
    # The check itself can fail.
    broken = {**FILES, "src/forms/sub/deep.py": b"__all__ = ['no']\n"}
    assert "forms.sub.deep" in failures(broken, tmp_path / "broken")


@pytest.mark.parametrize("key", UNITS)
def test_what_remains_can_be_imported(key: str, tmp_path: Path) -> None:
    plan = attempt("remove", [key])
    if isinstance(plan, str):
        assert plan in {"runs_at_import", "nothing_removed"}
        assert PROJECT.units[key].at_import
        return
    files = after(plan)
    assert failures(files, tmp_path) == {}
    assert plan.deleted == (key,) or list(plan.stubbed) == [key]
    for name, body in plan.removed.items():
        assert len(body.split()) < 4 or body not in files.get(name.partition("::")[0], b"")


@pytest.mark.parametrize("path", [it for it in FILES if it.startswith("src/") and not it.endswith((".pyi", "py.typed"))])
def test_whole_modules_go(path: str, tmp_path: Path) -> None:
    plan = attempt("module", [], [path])
    if isinstance(plan, str):
        assert plan in {"runs_at_import", "nothing_removed"}
        return
    files = after(plan)
    assert (path not in files) or any(path in it for it in plan.notes)
    assert failures(files, tmp_path) == {}


CLUSTERS = {
    "shapes and what draws them": ["src/forms/shapes.py::Circle", "src/forms/_impl.py::draw", "src/forms/models.py::Store.save"],
    "everything that may go": UNITS,
}


@pytest.mark.parametrize("name", CLUSTERS)
def test_clusters_go(name: str, tmp_path: Path) -> None:
    plan = PROJECT.plan("cluster", CLUSTERS[name])
    assert failures(after(plan), tmp_path) == {}
    assert len({it.partition("::")[0] for it in plan.deleted}) > 1


def test_everything_that_spoke_of_it_is_gone() -> None:
    plan = PROJECT.plan("remove", ["src/forms/_impl.py::draw"])
    changed = {path: data for path, data in after(plan).items() if data != FILES[path]}
    assert sorted(changed) == [
        "README.md", "pyproject.toml", "setup.cfg", "src/forms/__init__.py", "src/forms/_impl.py",
        "src/forms/_impl.pyi", "src/forms/sub/star.py", "src/forms/typed.py",
    ]  # fmt: skip
    for path, data in changed.items():
        for line in data.splitlines():
            # Callers, and the passage that tells what it does, stay.
            assert not re.search(rb"\bdraw\b(?!\(|`|:)", line) or line in KEPT, (path, line)
    assert plan.joined == ("src/forms/_impl.py::_pen", "src/forms/_impl.py::_INK")
    assert changed["setup.cfg"] == FILES["setup.cfg"].replace(b"    draw = forms._impl:draw\n", b"")
    assert changed["pyproject.toml"] == FILES["pyproject.toml"].replace(b'draw = "forms:draw"  # the pen\n', b"")


def test_units_say_what_they_are() -> None:
    kinds = {it.qualname: it.kind for it in PROJECT.units.values()}
    expected = {
        "draw": "function", "Circle": "class", "Circle.area": "property", "Circle.scale": "overloads", "show": "dispatch",
        "fast": "conditional", "Store.save": "method", "_INK": "constant",
    }  # fmt: skip
    assert {name: kinds[name] for name in expected} == expected
    show = next(it for it in PROJECT.units.values() if it.qualname == "show")
    assert [it.qualname for it in show.symbols] == ["show", "_", "show_text"]
    assert len(show.spans) == 3
    draw = PROJECT.units["src/forms/_impl.py::draw"]
    assert draw.uses == ("src/forms/_impl.py::_pen",)
    assert set(draw.used_by) == {"src/forms/models.py::Store.save", "src/forms/typed.py::paint"}
    assert (draw.fan_in, draw.fan_out, draw.public, draw.at_import) == (3, 1, True, False)
    assert PROJECT.units["src/forms/registry.py::register"].at_import
    assert PROJECT.units["src/forms/shapes.py::Circle"].signature == "@dataclass\nclass Circle(Shape):"


def test_one_bad_file_does_not_end_a_project() -> None:
    files = {**FILES, "src/forms/bad.py": b"def f(x):\n\t if x:\n\t\t return 1\n", "src/forms/worse.py": b"def f(:\n"}
    project = PYTHON.project(files, is_product=lambda path: not PYTHON.is_test_path(path))
    assert dict(project.skipped) == {"src/forms/bad.py": "parser_refuses", "src/forms/worse.py": "parser_refuses"}
    assert project.units.keys() == PROJECT.units.keys()


@pytest.mark.parametrize("mode", ["stub", "remove"])
def test_a_plan_is_the_same_each_time(mode: Mode) -> None:
    again = PYTHON.project(dict(reversed(FILES.items())), is_product=lambda path: not PYTHON.is_test_path(path))
    for key in UNITS:
        try:
            plan = PROJECT.plan(mode, [key])
        except SkippedFile:
            continue
        other = again.plan(mode, [key])
        assert (dict(plan.changes), dict(plan.removed)) == (dict(other.changes), dict(other.removed))
