"""Reports from the field: the kinds of source edits that broke other tools, each beside a twin that must pass."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import pytest

from taskforge.languages import Plan, Project, SkippedFile, language
from taskforge.languages.python.project.documents import without_bodies
from taskforge.languages.python.project.metadata import without_entry_points

PYTHON = language("python")


def read(files: Mapping[str, bytes]) -> Project:
    return PYTHON.project(files, is_product=lambda path: not PYTHON.is_test_path(path))


def plan(source: bytes, name: str) -> Plan:
    return read({"m.py": source}).plan("remove", [f"m.py::{name}"])


def run(source: bytes | None) -> dict[str, Any]:
    assert source is not None
    space: dict[str, Any] = {"__name__": "m"}
    exec(compile(source, "m.py", "exec", dont_inherit=True), space)
    return space


DECORATED = (
    b"from dataclasses import dataclass\nfrom typing import overload\n\n\n@dataclass\nclass Q:\n    n: int = 0\n\n"
    b"    @property\n    def size(self):\n        return self.n\n\n    @size.setter\n    def size(self, value):\n"
    b"        self.n = value\n\n    @overload\n    def at(self, k: int) -> int: ...\n    @overload\n"
    b"    def at(self, k: str) -> str: ...\n    def at(self, k):\n        return k\n\n    def plain(self):\n        return 1\n"
)


@pytest.mark.parametrize("name", ["Q.size", "Q.at", "Q.plain"])
def test_s1_groups_go_as_one_and_leave_no_decorator(name: str) -> None:
    made = run(plan(DECORATED, name).changes["m.py"])["Q"]
    assert not hasattr(made, name.removeprefix("Q."))
    assert made() == made(0)
    assert len(read({"m.py": DECORATED}).units[f"m.py::{name}"].spans) == {"Q.size": 2, "Q.at": 3, "Q.plain": 1}[name]


@pytest.mark.parametrize(
    ("head", "flag"),
    [
        (b"async def rows():\n    yield 1\n", inspect.isasyncgenfunction),
        (b"async def rows():\n    return 1\n", inspect.iscoroutinefunction),
        (b"def rows():\n    yield 1\n", inspect.isgeneratorfunction),
        (b"def rows():\n    return 1\n", inspect.isfunction),
    ],
)
def test_s2_a_stub_keeps_its_kind(head: bytes, flag: Any) -> None:
    project = read({"m.py": head})
    for made in (
        project.plan("stub", ["m.py::rows"]),
        project.plan("remove", ["m.py::rows"], pinned={"m.py::rows": "a test needs it"}),
    ):
        before, after = run(head)["rows"], run(made.changes["m.py"])["rows"]
        assert flag(before)
        assert inspect.isasyncgenfunction(before) == inspect.isasyncgenfunction(after)
        assert inspect.iscoroutinefunction(before) == inspect.iscoroutinefunction(after)
        assert inspect.isgeneratorfunction(before) == inspect.isgeneratorfunction(after)


@pytest.mark.parametrize(
    "source",
    [
        b"def gone():\n    return 1\nTABLE = gone()\n",
        b"def gone():\n    return 1\ndef f(t=gone()): pass\n",
        b"class B:\n    def __init_subclass__(cls):\n        gone()\ndef gone(): return 1\nclass C(B): pass\n",
    ],
)
def test_s3_what_runs_at_import_is_refused(source: bytes) -> None:
    with pytest.raises(SkippedFile) as caught:
        plan(source, "gone")
    assert caught.value.reason == "runs_at_import"
    later = source.replace(b"TABLE = gone()", b"def t(): gone()").replace(b"t=gone()", b"t=None").replace(b"(B)", b"")
    assert b"def gone" not in (plan(later, "gone").changes["m.py"] or b"")


def test_s5_exports_go_with_the_definition_and_the_future_stays() -> None:
    files = {
        "p/__init__.py": b"from __future__ import annotations\nfrom .io import *\nfrom typing import TYPE_CHECKING\n"
        b"if TYPE_CHECKING:\n    from .io import kept\n",
        "p/io.py": b"__all__ = []\n__all__ += ['gone', 'kept']\ndef gone(): pass\ndef kept(): pass\n",
    }
    assert read(files).plan("remove", ["p/io.py::gone"]).changes == {
        "p/io.py": b"__all__ = []\n__all__ += ['kept']\ndef kept(): pass\n"
    }


def test_s6_foreign_comments_stay_and_blocks_are_not_empty() -> None:
    source = b"x = 1\n\n\n# --- public API ---\ndef gone():\n    pass\n\n\ny = 2\n"
    assert plan(source, "gone").changes["m.py"] == source.replace(b"def gone():\n    pass\n", b"")
    sole = b"class K:\n    def gone(self):\n        pass\n\n\ny = 2\n"
    assert plan(sole, "K.gone").changes["m.py"] == b"class K:\n    pass\n\n\ny = 2\n"


@pytest.mark.parametrize(
    "bad",
    [b"def f(x):\n\t if x:\n\t\t return 1\n", b"#\x80\ndef f(): pass\n", b"def f(:\n", b"# coding: klingon\nx = 1\n"],
)
def test_s7_a_file_that_cannot_be_read_is_recorded(bad: bytes) -> None:
    project = read({"bad.py": bad, "good.py": b"def gone(): return 1\n"})
    assert project.skipped.keys() == {"bad.py"}
    assert project.plan("remove", ["good.py::gone"]).changes == {"good.py": b""}


@pytest.mark.parametrize(
    "source",
    [
        b"# -*- coding: latin-1 -*-\nE = '\xe9'\ndef gone():\n    return '\xe9'\nF = '\xe9\xe9'\n",
        b"\xef\xbb\xbfE = 1\ndef gone():\n    return 2\nF = 3\n",
        b"E = 1\r\ndef gone():\r\n    return 2\r\nF = 3\r\n",
        b"E = 1\r\ndef gone():\n    return 2\nF = 3\r\n",
        b"E = 1\n\x0c\ndef gone():\n    return 2\nF = 3\n",
        b"E = 1\n# \xc3\xa9 \xe2\x80\xa8\ndef gone():\n    return '\xe2\x80\xa8'\nF = 3",
    ],
)
def test_s8_bytes_outside_the_edit_are_the_same(source: bytes) -> None:
    start = source.index(b"def gone")
    above = source.find(b"# \xc3\xa9")
    end = source.index(b"F = ")
    assert plan(source, "gone").changes["m.py"] == source[: above if above > 0 else start] + source[end:]


@pytest.mark.parametrize(
    "source",
    [
        b"class Box[T: int]:\n    x: T\ndef gone[T](a: T) -> T:\n    return a\n",
        b"type P[T] = list[T]\ndef gone(a: P[int]):\n    return f'{a + f'{1}'}'\n",
        b"try:\n    x = 1\nexcept* ValueError:\n    x = 2\ndef gone(a):\n    match a:\n        case {'k': v}: return v\n",
    ],
)
def test_s10_new_syntax_is_edited_or_recorded(source: bytes) -> None:
    project = read({"m.py": source})
    if project.skipped:
        assert dict(project.skipped) == {"m.py": "parser_refuses"}
    else:
        assert project.plan("remove", ["m.py::gone"]).changes["m.py"] == source[: source.index(b"def gone")]


def test_entry_points_go_by_their_one_line() -> None:
    toml = (
        b'[project]\nname = "x"\n[project.scripts]\n# how\na = "m:gone"  # it\n"b" = "m:kept"\r\n'
        b'[project.entry-points."p.q"]\na = "m:gone.x"\n[tool.z]\na = "m:gone"\n'
    )
    data, notes = without_entry_points("pyproject.toml", toml, lambda module, name: (module, name[:4]) == ("m", "gone"))
    assert data == toml.replace(b'a = "m:gone"  # it\n', b"", 1).replace(b'a = "m:gone.x"\n', b"")
    assert len(notes) == 2
    inline = b'[project]\nscripts = {a = "m:gone", b = "m:kept"}\n'
    data, notes = without_entry_points("pyproject.toml", inline, lambda _module, name: name == "gone")
    assert (data, len(notes)) == (inline, 1)
    assert "is left" in notes[0]
    cfg = b"[options.entry_points]\nconsole_scripts =\n  a = m:gone\n  b = m:kept\n[x]\na = m:gone\n"
    data, notes = without_entry_points("setup.cfg", cfg, lambda _module, name: name == "gone")
    assert data == cfg.replace(b"  a = m:gone\n", b"", 1)
    for broken in (b"[project\n", b"\xff"):
        assert without_entry_points("pyproject.toml", broken, lambda _module, _name: True) == (broken, ())


def test_passages_that_show_the_body_go_from_documents() -> None:
    body = b"    a = 1\n    b = 2\n    # why\n    c = 3\n    return a\n"
    shown = b"# Doc\r\n\r\n>>> a = 1\n... b = 2\n\n... # why\n... c = 3\n\nThe end: a = 1\n"
    assert without_bodies(shown, [body]) == b"# Doc\r\n\r\n\nThe end: a = 1\n"
    for other in (b"a = 1\nb = 2\n", b"a = 1\nx\nb = 2\nx\nc = 3\n", b"a = 1\n"):
        assert without_bodies(other, [body]) is other


def test_stub_files_lose_the_same_names() -> None:
    files = {
        "m.py": b"import os\ndef gone(p): return os.x(p)\nclass K:\n    def m(self): return 1\n    def n(self): return 2\n",
        "m.pyi": b"from typing import IO, Any\ndef gone(p: IO) -> Any: ...\nclass K:\n    def m(self) -> int: ...\n    def n(self) -> Any: ...\n",
    }
    project = read(files)
    assert project.plan("cluster", ["m.py::gone", "m.py::K.m"]).changes["m.pyi"] == (
        b"from typing import Any\nclass K:\n    def n(self) -> Any: ...\n"
    )
    assert project.plan("module", [], ["m.py"]).changes == {"m.py": None, "m.pyi": None}


@pytest.mark.parametrize(
    ("source", "stubbed"),
    [
        (b"def gone(a):\n    '''Doc.'''\n    return a\n", b"def gone(a):\n    raise NotImplementedError\n"),
        (b"def gone(a): 'Doc.'; return a\n", b"def gone(a): raise NotImplementedError\n"),
        (b"def gone(a):\n    # above\n    'Doc.'\n\n    yield a\n", b"def gone(a):\n    # above\n    raise NotImplementedError\n    yield\n"),
        (b"def gone(a):\n    return a\n", b"def gone(a):\n    raise NotImplementedError\n"),
    ],
)
def test_a_stub_may_lose_its_docstring(source: bytes, stubbed: bytes) -> None:
    project = read({"m.py": source})
    symbols = PYTHON.index("m.py", source)
    assert PYTHON.stub(source, symbols, keep_docstrings=False) == stubbed
    for made in (
        project.plan("stub", ["m.py::gone"], keep_docstrings=False),
        project.plan("remove", ["m.py::gone"], pinned={"m.py::gone": "why"}, keep_docstrings=False),
    ):
        assert made.changes == {"m.py": stubbed}
        assert all(b"Doc" not in it for it in made.removed.values())
    kept = project.plan("stub", ["m.py::gone"]).changes["m.py"]
    assert kept is not None
    assert (b"Doc." in kept) == (b"Doc." in source)
