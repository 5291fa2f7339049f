"""Index and stub of Python, each hazard beside a twin without it."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any

import pytest

from taskforge.errors import UsageError
from taskforge.languages import LANGUAGES, language
from taskforge.model import Symbol

PYTHON = language("python")


def index(source: bytes) -> dict[str, Symbol]:
    return {symbol.qualname: symbol for symbol in PYTHON.index("m.py", source)}


def stub(source: bytes, *names: str) -> bytes:
    symbols = PYTHON.index("m.py", source)
    return PYTHON.stub(source, [it for it in symbols if not names or it.qualname in names])


def run(source: bytes) -> dict[str, Any]:
    space: dict[str, Any] = {"__name__": "m"}
    exec(compile(source, "m.py", "exec", dont_inherit=True), space)
    return space


def test_the_table_names_what_there_is() -> None:
    assert list(LANGUAGES) == ["python"]
    assert language("python") is PYTHON
    with pytest.raises(UsageError, match="no language 'cobol'") as caught:
        language("cobol")
    assert "python" in caught.value.hint


def test_a_symbol_says_what_it_is() -> None:
    source = (
        b"import functools\n\n\n@functools.cache\n@other(\n    1)\ndef area(\n    a, b=2,  # widths\n) -> int:\n"
        b'    """Area.\n\n    Of it.\n    """\n    # by hand\n    if a and b:\n\n        return a * b\n'
        b"    return 0  # none\n"
    )
    symbol = index(source)["area"]
    assert symbol.key == "m.py::area:4"
    assert symbol.kind == "function"
    assert symbol.signature == "def area(\n    a, b=2,  # widths\n) -> int:"
    assert symbol.docstring == "Area.\n\nOf it."
    assert symbol.decorators == ("@functools.cache", "@other(\n    1)")
    assert source[symbol.span.start : symbol.span.end] == source[source.index(b"@func") : -1]
    assert source[symbol.body.start : symbol.body.end] == source[source.index(b"    # by") : -1]
    assert (symbol.body_lines, symbol.statements, symbol.complexity) == (3, 3, 3)


def test_names_and_lines_are_those_of_the_code_objects() -> None:
    source = (
        b"def f():\n    def inner(): return 1\n    class C:\n        def hidden(self): pass\n    return inner\n\n"
        b"class A:\n    class B:\n        @staticmethod\n        def g(): return 2\n    if True:\n"
        b"        async def h(self): pass\n"
        b"    try:\n        def i(self): pass\n    except E:\n        def j(self): pass\n\n"
        b"if x:\n    def k(): pass\nelse:\n    def k(): return 0\n"
    )
    symbols = PYTHON.index("m.py", source)
    found = [(it.qualname, it.line, it.kind) for it in symbols]
    assert found == [
        ("f", 1, "function"),
        ("A.B.g", 9, "method"),
        ("A.h", 12, "method"),
        ("A.i", 14, "method"),
        ("A.j", 16, "method"),
        ("k", 19, "function"),
        ("k", 21, "function"),
    ]


@pytest.mark.parametrize(
    ("name", "public"),
    [
        ("f", True),
        ("_f", False),
        ("__f", False),
        ("__init__", True),
        ("____", False),
        ("_C.f", False),
        ("C.__eq__", True),
    ],
)
def test_public_names(name: str, public: bool) -> None:
    outer, _, inner = name.rpartition(".")
    source = f"class {outer}:\n  def {inner}(self): pass\n" if outer else f"def {inner}(): pass\n"
    assert index(source.encode())[name].public is public


def test_overloads_and_abstract_methods_are_one_statement_at_most() -> None:
    source = (
        b"@typing.overload\ndef f(a: int) -> int:\n    x = 1\n    return x\n"
        b"class A:\n    @abstractmethod\n    def g(self):\n        'doc'\n        ...\n"
        b"    @abc.abstractmethod\n    def h(self): pass\n"
    )
    assert {name: symbol.statements for name, symbol in index(source).items()} == {"f": 1, "A.g": 1, "A.h": 1}


STYLES = {
    "block": (b"def f(a):\n    x = a\n    return x\n", b"def f(a):\n    raise NotImplementedError\n"),
    "one line": (b"def f(a): return a\n", b"def f(a): raise NotImplementedError\n"),
    "one line, no newline": (b"def f(a): return a", b"def f(a): raise NotImplementedError"),
    "one line, docstring": (b"def f(a): 'doc'; return a\n", b"def f(a): 'doc'; raise NotImplementedError\n"),
    "one line, comment": (b"def f(a): return a  # keep\n", b"def f(a): raise NotImplementedError  # keep\n"),
    "docstring and more": (
        b"def f(a):\n    'doc'; x = a\n    return x\n",
        b"def f(a):\n    'doc'; raise NotImplementedError\n",
    ),
    "tabs": (b"def f(a):\n\tif a:\n\t\treturn a\n\treturn 1\n", b"def f(a):\n\traise NotImplementedError\n"),
    "crlf": (
        b"def f(a):\r\n  x = a\r\n  return x\r\n# end\r\n",
        b"def f(a):\r\n  raise NotImplementedError\r\n# end\r\n",
    ),
    "no final newline": (b"def f(a):\n  return a", b"def f(a):\n  raise NotImplementedError"),
    "bom": (
        b"\xef\xbb\xbf# \xc3\xa9\ndef f(a):\n  return a\n",
        b"\xef\xbb\xbf# \xc3\xa9\ndef f(a):\n  raise NotImplementedError\n",
    ),
    "form feed between": (
        b"x = 1\n\x0c\ndef f(a):\n  return a\n\x0c\ny = 2\n",
        b"x = 1\n\x0c\ndef f(a):\n  raise NotImplementedError\n\x0c\ny = 2\n",
    ),
    "latin-1": (
        b"# -*- coding: latin-1 -*-\nE = '\xe9\xe9'\ndef f(a):\n  '\xe9'\n  return '\xe9'\nz = '\xe9'\n",
        b"# -*- coding: latin-1 -*-\nE = '\xe9\xe9'\ndef f(a):\n  '\xe9'\n  raise NotImplementedError\nz = '\xe9'\n",
    ),
    "comments that tell": (
        (
            b"def f(a):  # head\n    # first halve it\n\n    x = a\n    return x  # done\n\n    # the end\n"
            b"# --- public ---\ny = 1\n"
        ),
        b"def f(a):  # head\n    raise NotImplementedError\n# --- public ---\ny = 1\n",
    ),
    "comment in the margin": (
        b"def f(a):\n# margin\n      x = a\n      return x\n",
        b"def f(a):\n      raise NotImplementedError\n",
    ),
    "a hash that ends a docstring": (
        b"def f(a):\n    '''doc\n    # not a comment'''\n    # one\n    return a\n",
        b"def f(a):\n    '''doc\n    # not a comment'''\n    raise NotImplementedError\n",
    ),
    "generator": (b"def f(a):\n  yield a\n", b"def f(a):\n  raise NotImplementedError\n  yield\n"),
    "generator, comment above": (
        b"def f(a):\n  # c\n  yield a\n",
        b"def f(a):\n  raise NotImplementedError\n  yield\n",
    ),
    "generator, one line": (b"def f(a): yield a\n", b"def f(a): raise NotImplementedError; yield\n"),
    "generator, crlf": (b"def f(a):\r\n  yield a\r\n", b"def f(a):\r\n  raise NotImplementedError\r\n  yield\r\n"),
    "decorated first": (
        b"def f(a):\n    @w\n    def g(): yield 1\n    return g\n",
        b"def f(a):\n    raise NotImplementedError\n",
    ),
    "semicolon": (b"def f(a):\n    return a;  # so\n", b"def f(a):\n    raise NotImplementedError\n"),
}


@pytest.mark.parametrize("style", STYLES)
def test_a_stub_leaves_every_byte_outside_the_body(style: str) -> None:
    source, expected = STYLES[style]
    compile(source, "m.py", "exec", dont_inherit=True)
    assert stub(source, "f") == expected
    space = run(expected.replace(b"@w\n", b""))
    with pytest.raises(NotImplementedError):
        list(space["f"](1))


def test_a_stub_keeps_the_kind_of_function() -> None:
    """S2."""
    source = (
        b"def plain():\n    f = lambda: (yield)\n    def g(): yield\n    return f, g\n"
        b"def gen():\n    'doc'\n    if 0: x = yield from ()\n    return 1\n"
        b"async def co(): return await x\nasync def agen():\n    async for i in x:\n        yield i\n"
    )
    before, after = run(source), run(stub(source))
    assert {name: it.flavour for name, it in index(source).items()} == {
        "plain": "plain",
        "gen": "generator",
        "co": "coroutine",
        "agen": "async_generator",
    }
    for name in ("plain", "gen", "co", "agen"):
        assert isinstance(after[name], FunctionType)
        for is_kind in (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction):
            assert is_kind(before[name]) == is_kind(after[name]), name
    assert after["gen"].__doc__ == "doc"


def test_decorated_code_keeps_its_decorators_and_the_module_imports() -> None:
    """S1: properties, overloads and dataclasses."""
    source = (
        b"import dataclasses, typing\n@dataclasses.dataclass\nclass Q:\n    n: int = 0\n"
        b"    @property\n    def size(self):\n"
        b"        x = self.n\n        return x\n    @size.setter\n    def size(self, value):\n        self.n = value\n"
        b"    def twice(self):\n        x = self.n\n        return 2 * x\n"
        b"@typing.overload\ndef f(a: int) -> int: ...\n@typing.overload\ndef f(a: str) -> str: ...\n"
        b"def f(a): return a\n"
    )
    symbols = PYTHON.index("m.py", source)
    assert [(it.qualname, it.line) for it in symbols] == [
        ("Q.size", 5),
        ("Q.size", 9),
        ("Q.twice", 12),
        ("f", 15),
        ("f", 17),
        ("f", 19),
    ]
    for symbol in symbols:
        result = PYTHON.stub(source, [symbol])
        space = run(result)
        assert isinstance(space["Q"].size, property)
        assert space["Q"].size.fset is not None
        heads = [line for line in result.splitlines() if line.strip().startswith(b"@")]
        assert heads == [line for line in source.splitlines() if line.strip().startswith(b"@")]
    assert "Q.twice" in {it.qualname for it in symbols}


def test_neighbours_stay() -> None:
    """S6."""
    source = (
        b"x = 1\n# --- public API ---\ndef gone():\n    return 1\n\n\n# about kept\ndef kept(): return 2\n"
        b"class C:\n    def only(self): return 3\n"
    )
    result = stub(source, "gone", "C.only")
    assert result == source.replace(b"return 1", b"raise NotImplementedError").replace(
        b"return 3", b"raise NotImplementedError"
    )
    assert run(result)["kept"]() == 2


@pytest.mark.parametrize(
    ("source", "forwards"),
    [
        (b"def f(a, b): return g(a, b)", True),
        (b"def f(a):\n x = g(a)\n return x\n", True),
        (b"def f(self, *a, **k):\n 'd'\n return self._y.f(*a, **k)\n", True),
        (b"async def f(a): return await g(a)\n", True),
        (b"def f(a): yield from g(a)\n", True),
        (b"def f(self, a): super().f(a)\n", True),
        (b"def f(a): return g(a + 1)", False),
        (b"def f(a): return g(b)", False),
        (b"def f(a): return a\n", False),
        (b"def f(a):\n  if a: return g(a)\n", False),
        (b"def f(a):\n  x = g(a)\n  return y\n", False),
        (b"def f(a):\n  x = g(a)\n  return h(x)\n", False),
    ],
)
def test_pass_throughs_are_told(source: bytes, forwards: bool) -> None:
    assert index(source)["f"].forwards is forwards
