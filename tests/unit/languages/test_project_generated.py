"""Generated modules: whatever their style, a removal cuts whole definitions and nothing else, and the rest compiles."""

from __future__ import annotations

import ast
import tempfile
from pathlib import Path

from hypothesis import configuration, given, settings
from hypothesis import strategies as st

from taskforge.languages import Plan, SkippedFile, language

# Not into the current folder, where pytest would stumble over it.
configuration.set_hypothesis_home_dir(Path(tempfile.gettempdir()) / "taskforge-hypothesis")

PYTHON = language("python")

BODIES = st.sampled_from(
    ["return 1", "x = '''a\n# b\n'''", "return helper()", "# only words\n{m}{i}pass", "yield (1,\n2)", "'doc'", "return É"]
)
ABOVE = st.sampled_from(["", "\n", "\n\n", "\n{m}# its own\n", "\n{m}# --- rule ---\n", "{m}# one\n\n{m}# two\n", "\x0c\n"])
FRAMES = st.sampled_from(
    [
        "{m}def {n}(a=1):\n{m}{i}{b}\n",
        "{m}@deco\n{m}@deco.er(\n{m}  1)\n{m}def {n}(a): {s}\n",
        "{m}async def {n}(self):  # head\n{m}{i}{b}\n{m}{i}# foot\n",
        "{m}class {n}:\n{m}{i}'''Doc.'''\n{m}{i}def method(self):\n{m}{i}{i}return 2\n",
        "{m}if a:\n{m}{i}def {n}(): {s}\n{m}else:\n{m}{i}def {n}(): pass\n",
        "{m}try:\n{m}{i}from fast import {n}\n{m}except ImportError:\n{m}{i}{n} = None\n{m}def {n}(): {s}\n",
        "{m}def {n}(): {s}\n{m}{n}.mark = 1; other = 2\n",
    ]
)
LOOSE = st.sampled_from(
    ["{m}import os, re as r\n", "{m}x = [\n  1,\n]\n", "{m}# a word\n", "\n", "{m}y = 1; z = 2  # two\n", "{m}'text'\n"]
)


@st.composite
def modules(draw: st.DrawFn) -> tuple[bytes, list[str]]:
    indent = draw(st.sampled_from(["    ", "\t", " "]))
    names: list[str] = []
    parts = ["a = 0\ndef deco(f): return f\ndeco.er = lambda n: deco\n"]

    def block(margin: str, prefix: str, count: int) -> None:
        for _ in range(count):
            if draw(st.integers(0, 3)) == 0:
                parts.append(draw(LOOSE).format(m=margin))
                continue
            name = f"n{len(names)}"
            names.append(prefix + name)
            frame = draw(ABOVE) + draw(FRAMES)
            body = draw(BODIES).format(m=margin, i=indent)
            parts.append(frame.format(m=margin, i=indent, n=name, b=body, s="return 3"))

    block("", "", draw(st.integers(1, 4)))
    if draw(st.booleans()):
        parts.append("class C:\n")
        block(indent, "C.", draw(st.integers(1, 3)))
        parts.append(f"{indent}last = 1\n" if draw(st.booleans()) or not parts[-1].strip() else "")
    block("", "", draw(st.integers(0, 2)))
    text = "".join(parts)
    if draw(st.booleans()):
        text = text.rstrip("\n")
    encoding = draw(st.sampled_from(["utf-8", "utf-8-sig", "latin-1"]))
    if encoding == "latin-1":
        text = "# coding: latin-1\n" + text
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"]))).encode(encoding), names


def _compiles(source: bytes) -> bool:
    try:
        compile(source, "m.py", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


def _plan(source: bytes, chosen: list[str]) -> Plan | None:
    project = PYTHON.project({"m.py": source}, is_product=lambda _path: True)
    assert not project.skipped
    try:
        return project.plan("cluster", [f"m.py::{it}" for it in chosen])
    except SkippedFile as problem:
        if problem.reason not in {"nothing_removed", "runs_at_import"}:
            raise
        return None


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(modules(), st.data())
def test_only_the_chosen_goes_and_the_rest_compiles(made: tuple[bytes, list[str]], data: st.DataObject) -> None:
    source, names = made
    if not names or not _compiles(source):
        return
    chosen = data.draw(st.lists(st.sampled_from(names), unique=True, min_size=1))
    plan = _plan(source, chosen)
    if plan is None:
        return
    result = plan.changes["m.py"]
    assert result is not None
    assert _compiles(result)
    assert plan.deleted == tuple(f"m.py::{it}" for it in names if it in chosen)
    before, after = _names(source), _names(result)
    assert after == [it for it in before if it not in chosen and it.rpartition(".")[0] not in chosen]
    # Every line that is left is a line of the original, in its order, but for what keeps a block from being empty.
    rest = iter(source.splitlines(keepends=True))
    for line in result.splitlines(keepends=True):
        if line.strip() != b"pass" and not line.strip().startswith(b"other = 2"):
            assert any(line == it or line.rstrip(b"\r\n") == it.rstrip(b"\r\n") for it in rest), line
    if b"\r\n" in source:
        assert b"\n" not in result.replace(b"\r\n", b"")
    assert result.startswith(b"\xef\xbb\xbf") == source.startswith(b"\xef\xbb\xbf")


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(modules())
def test_everything_goes_and_comes_back(made: tuple[bytes, list[str]]) -> None:
    source, names = made
    if not names or not _compiles(source):
        return
    plan = _plan(source, names)
    if plan is not None:
        assert plan.changes.keys() == {"m.py"}
        for body in plan.removed.values():
            assert body in source


def _names(source: bytes) -> list[str]:
    """Of functions and classes, at the module's and at class C's own level, in blocks too, in order."""
    found: dict[str, None] = {}

    def walk(body: list[ast.stmt], prefix: str) -> None:
        for it in body:
            if isinstance(it, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                if it.name.startswith("n"):
                    found[prefix + it.name] = None
                if it.name == "C" and isinstance(it, ast.ClassDef):
                    walk(it.body, "C.")
            elif isinstance(it, (ast.If, ast.Try)):
                walk([*it.body, *it.orelse], prefix)

    walk(ast.parse(source).body, "")
    return list(found)
