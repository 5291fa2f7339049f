"""Files and symbols that Python's index must refuse, each beside a twin that it must not; and paths."""

from __future__ import annotations

import ast

import pytest

from taskforge.languages import SkippedFile, language
from taskforge.model import Symbol

PYTHON = language("python")


def index(source: bytes) -> dict[str, Symbol]:
    return {symbol.qualname: symbol for symbol in PYTHON.index("m.py", source)}


def stub(source: bytes, *names: str) -> bytes:
    symbols = PYTHON.index("m.py", source)
    return PYTHON.stub(source, [it for it in symbols if not names or it.qualname in names])


def indexed_or_skipped(source: bytes) -> tuple[list[Symbol], str]:
    try:
        return PYTHON.index("m.py", source), ""
    except SkippedFile as skipped:
        return [], skipped.reason


@pytest.mark.parametrize(
    "source",
    [
        b"class A:\n\x0c    x = 1\n    def f(self): return 1\n",
        b"def f(x):\n\t if x:\n\t\t return 1\n",
        b"#\x80\ndef f(): pass\n",
    ],
)
def test_a_file_that_the_parser_may_refuse_is_skipped_or_right(source: bytes) -> None:
    """S7, S8: legal for some interpreter; never an unknown error, never a byte outside the body."""
    symbols, reason = indexed_or_skipped(source)
    if reason:
        assert reason in {"parser_refuses", "undecodable", "not_round_trip"}
        return
    (symbol,) = symbols
    result = PYTHON.stub(source, symbols)
    assert result == source[: symbol.body.start] + b"raise NotImplementedError" + source[symbol.body.end :]
    ast.parse(result)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (b"def f(:\n", "parser_refuses"),
        (b"#\x80\ndef f(): pass\n", "undecodable"),
        (b"# coding: no-such\ndef f(): pass\n", "undecodable"),
        (b"\x0cdef f(): return 1\n", "not_round_trip"),
        (b"x = " + b"(" * 5000 + b")" * 5000 + b"\n", "too_deep"),
        (b"x = " + b"[" * 5000, "too_deep"),
        (b"x = " + b"-" * 20000 + b"1\n", "too_deep"),
        (b"x = " + b"lambda: " * 20000 + b"1\n", "too_deep"),
        (b"x = 1" + b" and 1" * 20000 + b"\n", "too_deep"),
        (b"x = 1" + b"+1" * 1500 + b"\n", "too_deep"),
        (b"if a: pass\n" + b"elif a: pass\n" * 1000, "too_deep"),
    ],
)
def test_skipped_files_say_why(source: bytes, reason: str) -> None:
    with pytest.raises(SkippedFile) as caught:
        PYTHON.index("m.py", source)
    assert caught.value.reason == reason


def test_a_path_that_no_json_can_hold_is_skipped() -> None:
    with pytest.raises(SkippedFile) as caught:
        PYTHON.index("caf\udce9.py", b"def f(): return 1\n")
    assert caught.value.reason == "path_not_utf8"


@pytest.mark.parametrize(
    "source",
    [
        b"class Box[T: int = int]:\n    def f(self):\n        return 1\n",
        b"def f[T](a: T) -> T:\n    return a\n",
        b"type X = int\ndef f(a):\n    match a:\n        case 1: return 2\n",
        b"def f(a):\n    try: pass\n    except* ValueError: return 2\n",
    ],
)
def test_new_syntax_is_edited_rightly_or_skipped(source: bytes) -> None:
    """S10: whether or not this interpreter knows the syntax."""
    symbols, reason = indexed_or_skipped(source)
    if reason:
        assert reason == "parser_refuses"
        return
    (symbol,) = symbols
    expected = source[: symbol.body.start] + b"raise NotImplementedError" + source[symbol.body.end :]
    assert PYTHON.stub(source, symbols) == expected
    assert expected.endswith(
        b":\n" + source[:0] + b" " * (8 if b"class" in source else 4) + b"raise NotImplementedError\n"
    )


def test_a_body_that_is_only_a_docstring_cannot_be_stubbed() -> None:
    source = b"def f():\n    'doc'\ndef g(): 'doc'\n"
    assert {name: (it.body_lines, it.statements) for name, it in index(source).items()} == {"f": (0, 0), "g": (0, 0)}
    for name in ("f", "g"):
        with pytest.raises(SkippedFile) as caught:
            stub(source, name)
        assert caught.value.reason == "empty_body"


def test_an_index_of_another_file_is_refused() -> None:
    symbols = PYTHON.index("m.py", b"def f():\n    return 1\n")
    with pytest.raises(SkippedFile) as caught:
        PYTHON.stub(b"x = 1\n", symbols)
    assert caught.value.reason == "stale_index"
    with pytest.raises(SkippedFile) as caught:
        PYTHON.stub(b"x = (1,\n  2, 3, 4)  # more\n", symbols)
    assert caught.value.reason == "stub_does_not_parse"


def test_surrogates_in_a_docstring_do_not_break_the_index() -> None:
    assert index(b"def f():\n    '\\ud800 x'\n    return 1\n")["f"].docstring == "? x"


@pytest.mark.parametrize(
    ("path", "is_test", "is_config"),
    [
        ("test_a.py", True, False),
        ("src/a_test.py", True, False),
        ("conftest.py", True, True),
        ("tests/data/x.json", True, False),
        ("pkg/testing/tools.py", True, False),
        ("pkg/core.py", False, False),
        ("test", False, False),
        ("pkg/attest.py", False, False),
        ("pkg/pytest.ini", False, True),
        ("a/b.pth", False, True),
        ("setup.py", False, True),
        ("pyproject.toml", False, True),
        ("sitecustomize.py", False, True),
        (".coveragerc", False, True),
        ("docs/setup.cfg.txt", False, False),
    ],
)
def test_paths(path: str, is_test: bool, is_config: bool) -> None:
    assert PYTHON.is_test_path(path) is is_test
    assert PYTHON.is_config_path(path) is is_config
    assert PYTHON.is_source(path) is path.endswith(".py")
