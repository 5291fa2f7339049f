"""Generated modules: whatever their style, a stub changes nothing outside its spans, and compiles."""

from __future__ import annotations

import ast
import tempfile
from pathlib import Path

from hypothesis import configuration, given, settings
from hypothesis import strategies as st

from taskforge.languages import language

# Not into the current folder, where pytest would stumble over it.
configuration.set_hypothesis_home_dir(Path(tempfile.gettempdir()) / "taskforge-hypothesis")

PYTHON = language("python")

STATEMENTS = st.sampled_from(
    [
        "x = 1",
        "return",
        "pass",
        "yield x",
        "if a:\n{i}x = 2\nelse:\n{i}# dead end\n{i}pass",
        "for y in a:\n{i}print(y)",
        "# only words",
        "'a # string'",
        "s = '''two\n  # lines'''",
        "def inner():\n{i}yield 5",
        "x = (1,\n2)",
        "assert a; x = 3",
        "@w\nclass K:\n{i}def m(self): return 1",
        "é = 'é'",
        "f = lambda: (yield)",
        "",
    ]
)
DOCSTRINGS = st.sampled_from(["", "'doc'", '"""Doc.\n\n# not a comment"""', "'a' 'b'", "r'é \\d'"])
HEADS = st.sampled_from(
    ["def {n}(a):", "@w\ndef {n}(a, *, b=':'):", "def {n}(\n    a,  # ): \n) -> 'x:y':  # head", "def {n}(a):  "]
)


@st.composite
def functions(draw: st.DrawFn, name: str, indent: str, margin: str) -> str:
    head = "".join(
        margin * (at == 0 or line.startswith(("def", "@"))) + line for at, line in enumerate(_lines(draw(HEADS)))
    )
    body = [
        draw(DOCSTRINGS),
        *draw(st.lists(STATEMENTS, max_size=5)),
        draw(st.sampled_from(["return", "yield", "x = 0  # end"])),
    ]
    lines = [head.format(n=name)]
    inside_string = 0
    for statement in body:
        for line in statement.replace("{i}", indent).split("\n") if statement else []:
            lines.append(line if inside_string % 2 else margin + indent + line)
            inside_string += line.count("'''") + line.count('"""')
    if draw(st.booleans()):
        lines.append(margin + indent + "# foot")
    if draw(st.booleans()):
        lines.append(draw(st.sampled_from(["", "# --- neighbour ---", margin + "# margin"])))
    return "\n".join(lines)


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


@st.composite
def modules(draw: st.DrawFn) -> bytes:
    indent = draw(st.sampled_from(["    ", "\t", " ", "  \t"]))
    parts = ["w = lambda f: f", draw(functions("f0", indent, "")), "class C:", draw(functions("f1", indent, indent))]
    if draw(st.booleans()):
        parts += ["def one(a): return a  # é", draw(functions("f2", indent, ""))]
    text = "\n".join(parts) + draw(st.sampled_from(["", "\n", "\n\x0c\nz = 1\n", "\n# end"]))
    encoding = draw(st.sampled_from(["utf-8", "utf-8-sig", "latin-1"]))
    if encoding == "latin-1":
        text = "# coding: latin-1\n" + text
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"]))).encode(encoding)


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(modules(), st.data())
def test_bytes_outside_the_spans_are_unchanged_and_the_result_compiles(source: bytes, data: st.DataObject) -> None:
    before = compile(source, "m.py", "exec", dont_inherit=True)
    symbols = PYTHON.index("m.py", source)
    assert {it.qualname for it in symbols} >= {"f0", "C.f1"}
    chosen = [symbol for symbol in symbols if data.draw(st.booleans())]
    result = PYTHON.stub(source, chosen)
    after = compile(result, "m.py", "exec", dont_inherit=True)
    position = 0
    at = 0
    for symbol in chosen:
        kept = source[position : symbol.body.start]
        assert result[at : at + len(kept)] == kept
        at += len(kept)
        generator = symbol.flavour == "generator"
        tail = result[at:].lstrip(b" \t")
        assert tail.startswith(b"raise NotImplementedError")
        at = result.index(b"yield" if generator else b"NotImplementedError", at) + len(
            b"yield" if generator else b"NotImplementedError"
        )
        position = symbol.body.end
    assert result[at:] == source[position:]
    assert _flags(before) == _flags(after)
    assert [ast.get_docstring(it) for it in _functions(source)] == [ast.get_docstring(it) for it in _functions(result)]


def _functions(source: bytes) -> list[ast.FunctionDef]:
    tops = ast.parse(source).body
    inner = [it for top in tops if isinstance(top, ast.ClassDef) for it in top.body]
    return [it for it in [*tops, *inner] if isinstance(it, ast.FunctionDef)]


def _flags(code: object) -> dict[str, int]:
    """Generator flags of module-level functions and methods."""
    found = {}
    for it in getattr(code, "co_consts", ()):
        if hasattr(it, "co_flags") and it.co_name in {"f0", "f1", "f2", "one", "C"}:
            found[it.co_name] = it.co_flags & 0x20
            found |= _flags(it) if it.co_name == "C" else {}
    return found
