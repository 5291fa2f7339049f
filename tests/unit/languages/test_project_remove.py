"""Removals of Python definitions: files before and after, each hazard beside a twin without it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from taskforge.languages import Mode, Plan, Project, SkippedFile, language

PYTHON = language("python")


def read(files: Mapping[str, bytes] | bytes) -> Project:
    if isinstance(files, bytes):
        files = {"m.py": files}
    return PYTHON.project(files, is_product=lambda path: not PYTHON.is_test_path(path))


def plan(files: Mapping[str, bytes] | bytes, *keys: str, mode: Mode = "remove", **more: object) -> Plan:
    project = read(files)
    return project.plan(mode, [it if "::" in it else f"m.py::{it}" for it in keys], **more)  # type: ignore[arg-type]


def removed(source: bytes, *names: str) -> bytes | None:
    return plan(source, *names).changes["m.py"]


EDITS = {
    "blank lines": (b"a = 1\n\n\ndef gone():\n    pass\n\n\nb = 2\n", b"a = 1\n\n\nb = 2\n"),
    "the last in the file": (b"a = 1\n\n\ndef gone():\n    pass\n", b"a = 1\n"),
    "the last, without a newline": (b"a = 1\ndef gone(): pass", b"a = 1\n"),
    "the first in the file": (b"def gone(): pass\n\n\nb = 2\n", b"b = 2\n"),
    "fewer blank lines below": (b"a = 1\n\n\ndef gone(): pass\n\nb = 2\n", b"a = 1\n\n\nb = 2\n"),
    "its comment": (b"a = 1\n# halves\n# and halves\ndef gone(): pass\nb = 2\n", b"a = 1\nb = 2\n"),
    "a heading": (b"a = 1\n\n# --- public ---\ndef gone(): pass\n\nb = 2\n", b"a = 1\n\n# --- public ---\n\nb = 2\n"),
    "a heading, then its comment": (b"# ====\n# how\ndef gone(): pass\nb = 2\n", b"# ====\nb = 2\n"),
    "a comment apart": (b"# on b and c\n\ndef gone(): pass\n\nb = 2\n", b"# on b and c\n\nb = 2\n"),
    "a licence": (b"# (c) me\ndef gone(): pass\nb = 2\n", b"# (c) me\nb = 2\n"),
    "an instruction": (b"a = 1\n# fmt: off\ndef gone(): pass\nb = 2\n", b"a = 1\n# fmt: off\nb = 2\n"),
    "comments in and behind its block": (
        b"def gone():\n    return 1  # one\n    # two\n\n    # three\n# next\nb = 2\n",
        b"# next\nb = 2\n",
    ),
    "decorators": (b"import x\n@x.y\n@x.z(\n  1)\ndef gone(): pass\nb = x\n", b"import x\nb = x\n"),
    "crlf": (b"a = 1\r\n\r\n\r\ndef gone():\r\n  pass\r\n\r\n\r\nb = 2\r\n", b"a = 1\r\n\r\n\r\nb = 2\r\n"),
    "bom": (b"\xef\xbb\xbfdef gone(): pass\nb = '\xc3\xa9'\n", b"\xef\xbb\xbfb = '\xc3\xa9'\n"),
    "latin-1": (b"# coding: latin-1\n\nE = '\xe9'\ndef gone(): '\xe9'\nb = '\xe9'\n", b"# coding: latin-1\n\nE = '\xe9'\nb = '\xe9'\n"),
    "form feed between": (b"a = 1\n\x0c\ndef gone(): pass\n\x0c\nb = 2\n", b"a = 1\n\x0c\n\x0c\nb = 2\n"),
    "neighbours that go together": (
        b"a = 1\n\n\ndef gone(): return _x\n\n\n_x = 3\n\n\ndef b(): pass\n",
        b"a = 1\n\n\ndef b(): pass\n",
    ),
    "one of a line": (b"import os; import re\ndef gone(): re.x\nos.y\n", b"import os\nos.y\n"),
    "the first of a line": (b"import re; import os\ndef gone(): re.x\nos.y\n", b"import os\nos.y\n"),
    "all of a line": (b"import re; import os  # both\ndef gone(): re.x, os\nb = 2\n", b"b = 2\n"),
    "in a block": (b"if x:\n    def gone(): pass\n    y = 1\n", b"if x:\n    y = 1\n"),
    "all of a block": (b"if x:\n    def gone(): pass\nelse:\n    y = 1\n", b"if x:\n    pass\nelse:\n    y = 1\n"),
    "all of all blocks": (b"if x:\n    def gone(): pass\nelif z:\n    gone = 1\nelse:\n    gone = 2\nb = 2\n", b"b = 2\n"),
    "a block on one line": (b"if x: gone = 1\nelse: y = 1\ndef gone(): pass\n", b"if x: pass\nelse: y = 1\n"),
    "what is set on it": (b"def gone(): pass\ngone.x = 1\ngone.y.z = 2\nb = 2\n", b"b = 2\n"),
    "what wraps it": (b"import f\ndef gone(): pass\ngone = f(gone)\nb = f\n", b"import f\nb = f\n"),
    "recursion": (b"def gone(): return gone()\nb = 2\n", b"b = 2\n"),
    "callers stay": (b"def gone(): pass\ndef b(): return gone()\n", b"def b(): return gone()\n"),
}


@pytest.mark.parametrize("name", EDITS)
def test_a_function_goes(name: str) -> None:
    before, after = EDITS[name]
    assert removed(before, "gone") == after


JOINED = {
    "a helper": (b"def _h(): pass\ndef gone(): _h()\nb = 2\n", b"b = 2\n", ["_h"]),
    "a helper in use": (b"def _h(): pass\ndef gone(): _h()\ndef b(): _h()\n", b"def _h(): pass\ndef b(): _h()\n", []),
    "a public helper": (b"def h(): pass\ndef gone(): h()\n", b"def h(): pass\n", []),
    "helpers of helpers": (b"_c = 1\ndef _g(): _c\ndef _h(): _g()\ndef gone(): _h()\nb = 2\n", b"b = 2\n", ["_c", "_g", "_h"]),
    "helpers that call each other": (
        b"def _g(): _h()\ndef _h(): _g()\ndef gone(): _h()\nb = 2\n", b"b = 2\n", ["_g", "_h"],
    ),
    "helpers that call each other, one in use": (
        b"def _g(): _h()\ndef _h(): _g()\ndef gone(): _h()\nb = _g\n", b"def _g(): _h()\ndef _h(): _g()\nb = _g\n", [],
    ),
    "a helper that was idle before": (b"def _idle(): pass\ndef gone(): pass\n", b"def _idle(): pass\n", []),
    "a registered helper": (b"@app.on\ndef _h(): pass\ndef gone(): _h()\n", b"@app.on\ndef _h(): pass\n", []),
    "a helper named by a string": (
        b"def _h(): pass\ndef gone(): _h()\nb = globals()['_h']\n", b"def _h(): pass\nb = globals()['_h']\n", [],
    ),
    "a helper that may be an attribute": (
        b"def _h(): pass\ndef gone(): _h()\ndef b(m): m._h\n", b"def _h(): pass\ndef b(m): m._h\n", [],
    ),
    "a constant and its annotation": (b"_A: int = 1\ndef gone(): _A\nb = 2\n", b"b = 2\n", ["_A"]),
    "a constant made in two steps": (b"_A = []\n_A += [1]\ndef gone(): _A\nb = 2\n", b"b = 2\n", ["_A"]),
    "a constant of two names": (b"_A, b = 1, 2\ndef gone(): _A\n", b"_A, b = 1, 2\n", []),
    "a class": (b"class _K:\n    x = 1\n    def m(self): pass\ndef gone(): _K()\nb = 2\n", b"b = 2\n", ["_K"]),
    "a class that is told of its heirs": (
        b"class R:\n    def __init_subclass__(cls): pass\nclass _K(R): pass\ndef gone(): _K()\n",
        b"class R:\n    def __init_subclass__(cls): pass\nclass _K(R): pass\n", [],
    ),
    "a type variable": (
        b"import typing\nT = typing.TypeVar('T')\ndef gone(x: T): pass\nb = typing\n", b"import typing\nb = typing\n", ["T"],
    ),
    "what __all__ does not list": (
        b"__all__ = ['gone', 'b']\nhalf = 2\ndef gone(): half\nb = 2\n", b"__all__ = ['b']\nb = 2\n", ["half"],
    ),
    "what __all__ lists": (
        b"__all__ = ['gone', '_h']\ndef _h(): pass\ndef gone(): _h()\n", b"__all__ = ['_h']\ndef _h(): pass\n", [],
    ),
    "dunder names": (b"__version__ = 1\ndef gone(): __version__\n", b"__version__ = 1\n", []),
    "a local of the same name": (
        b"_h = 1\ndef gone(): _h\ndef b():\n    _h = 2\n    return _h\n", b"def b():\n    _h = 2\n    return _h\n", ["_h"],
    ),
    "a global statement": (
        b"_h = 1\ndef gone(): _h\ndef b():\n    global _h\n    _h = 2\n",
        b"_h = 1\ndef b():\n    global _h\n    _h = 2\n", [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", JOINED)
def test_what_existed_only_for_it_goes_along(name: str) -> None:
    before, after, names = JOINED[name]
    made = plan(before, "gone")
    assert made.changes == {"m.py": after}
    assert sorted(made.joined) == [f"m.py::{it}" for it in sorted(names)]
    assert made.deleted == ("m.py::gone",)


MEMBERS = {
    "a method": (b"class C:\n    x = 1\n\n    def gone(self):\n        pass\n\n\nb = 2\n", b"class C:\n    x = 1\n\n\nb = 2\n"),
    "the only one": (b"class C:\n    # how\n    def gone(self):\n        pass\n", b"class C:\n    pass\n"),
    "the only one, on its line": (b"class C: gone = 1\ndef b(): pass\n", b"class C: gone = 1\ndef b(): pass\n"),
    "the only one below a docstring": (b"class C:\n    'doc'\n    def gone(self): pass\n", b"class C:\n    'doc'\n"),
    "the first": (b"class C:\n    def gone(self): pass\n\n    x = 1\n", b"class C:\n    x = 1\n"),
    "a property": (
        b"class C:\n    @property\n    def gone(self): pass\n    @gone.setter\n    def gone(self, v): pass\n    x = 1\n",
        b"class C:\n    x = 1\n",
    ),
    "its private method": (
        b"class C:\n    def gone(self): self._h()\n    def _h(self): pass\n    x = 1\n", b"class C:\n    x = 1\n",
    ),
    "a private method that an heir uses": (
        b"class C:\n    def gone(self): self._h()\n    def _h(self): pass\nclass D(C):\n    def b(self): self._h()\n",
        b"class C:\n    def _h(self): pass\nclass D(C):\n    def b(self): self._h()\n",
    ),
    "a private method of another class": (
        b"class C:\n    def gone(self): self._h()\n    def _h(self): pass\n    x = 1\n"
        b"class D:\n    def _h(self): pass\n    def b(self): self._h()\n",
        b"class C:\n    x = 1\nclass D:\n    def _h(self): pass\n    def b(self): self._h()\n",
    ),
    "a private method that anything may have": (
        b"class C:\n    def gone(self): self._h()\n    def _h(self): pass\ndef b(c): c._h()\n",
        b"class C:\n    def _h(self): pass\ndef b(c): c._h()\n",
    ),
    "a private constant": (b"class C:\n    _x = 1\n    y = 2\n    def gone(self): self._x\n", b"class C:\n    y = 2\n"),
    "a field": (b"class C:\n    _x: int\n    def gone(self): self._x\n", b"class C:\n    _x: int\n"),
    "a member of an enumeration": (
        b"class C(Enum):\n    _x = 1\n    def gone(self): self._x\n", b"class C(Enum):\n    _x = 1\n",
    ),
    "an abstract base asks for it": (
        b"class B:\n    @abc.abstractmethod\n    def gone(self): pass\n"
        b"class C(B):\n    def gone(self): return 1\n    x = 1\n",
        b"class B:\n    @abc.abstractmethod\n    def gone(self): pass\n"
        b"class C(B):\n    def gone(self): raise NotImplementedError\n    x = 1\n",
    ),
    "a base has it, too": (
        b"class B:\n    def gone(self): pass\nclass C(B):\n    def gone(self): return 1\n    x = 1\n",
        b"class B:\n    def gone(self): pass\nclass C(B):\n    x = 1\n",
    ),
    "an alias needs it": (
        b"class C:\n    def gone(self): return 1\n    other = gone\n",
        b"class C:\n    def gone(self): raise NotImplementedError\n    other = gone\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MEMBERS)
def test_a_method_goes(name: str) -> None:
    before, after = MEMBERS[name]
    if "C.gone" not in {it.qualname for it in read(before).units.values()}:
        # An attribute of a class is no unit.
        assert before == after
        return
    assert removed(before, "C.gone") == after


EXPORTS = {
    "list": (b"__all__ = ['a', 'gone', 'b']\n", b"__all__ = ['a', 'b']\n"),
    "the last": (b"__all__ = ['a', 'gone']\n", b"__all__ = ['a']\n"),
    "the only one": (b"__all__ = ['gone']\n", b"__all__ = []\n"),
    "lines": (b"__all__ = [\n    'a',  # one\n    'gone',  # two\n    'b',\n]\n", b"__all__ = [\n    'a',  # one\n    'b',\n]\n"),
    "lines, no last comma": (b"__all__ = [\n    'a',\n    'gone'\n]\n", b"__all__ = [\n    'a',\n]\n"),
    "tuple": (b"__all__ = ('a', 'gone')\n", b"__all__ = ('a',)\n"),
    "tuple of one": (b"__all__ = ('gone',)\n", b"__all__ = ()\n"),
    "bare tuple": (b"__all__ = 'a', 'gone', 'b'\n", b"__all__ = 'a', 'b'\n"),
    "bare tuple, one left": (b"__all__ = 'a', 'gone'\n", b"__all__ = 'a',\n"),
    "bare tuple, the first": (b"__all__ = 'gone', 'a', 'b'\n", b"__all__ = 'a', 'b'\n"),
    "bare tuple, none left": (b"__all__ = 'gone',\n", b"__all__ = ()\n"),
    "sum": (b"__all__ = ['a'] + ['gone', 'b'] + c\n", b"__all__ = ['a'] + ['b'] + c\n"),
    "sorted": (b"__all__ = sorted(['a', 'gone'])\n", b"__all__ = sorted(['a'])\n"),
    "unpacked": (b"__all__ = [*c, 'gone']\n", b"__all__ = [*c]\n"),
    "+=": (b"__all__ = ['a']\n__all__ += ['gone']\n", b"__all__ = ['a']\n__all__ += []\n"),
    "extend": (b"__all__ = ['a']\n__all__.extend(('gone', 'b'))\n", b"__all__ = ['a']\n__all__.extend(('b',))\n"),
    "append": (b"__all__ = ['a']\n__all__.append('gone')\nz = 1\n", b"__all__ = ['a']\nz = 1\n"),
    "remove": (b"__all__ = ['a', 'gone']\n__all__.remove('gone')\n", b"__all__ = ['a']\n"),
    "annotated": (b"__all__: list[str] = ['gone', 'a']\n", b"__all__: list[str] = ['a']\n"),
    "in a block": (b"__all__ = ['a']\nif x:\n    __all__ += ['gone']\n", b"__all__ = ['a']\nif x:\n    __all__ += []\n"),
    "other strings stay": (b"__all__ = ['a', 'gone']\nw = ['gone']\n", b"__all__ = ['a']\nw = ['gone']\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", EXPORTS)
def test_it_leaves_all_in_every_form(name: str) -> None:
    before, after = EXPORTS[name]
    assert removed(before + b"def gone(): pass\n", "gone") == after


IMPORTS = {
    "from": (b"from .m import a, gone, b\n", b"from .m import a, b\n"),
    "from, the last": (b"from .m import a, gone\n", b"from .m import a\n"),
    "from, the only one": (b"from .m import gone\nx = 1\n", b"x = 1\n"),
    "renamed": (b"from .m import gone as g, a\n", b"from .m import a\n"),
    "in brackets": (b"from .m import (a, gone)\n", b"from .m import (a)\n"),
    "on lines": (b"from .m import (\n    a,\n    gone,  # it\n    b,\n)\n", b"from .m import (\n    a,\n    b,\n)\n"),
    "continued": (b"from .m import a, \\\n    gone\n", b"from .m import a\n"),
    "continued, the first": (b"from .m import gone, \\\n    a\n", b"from .m import a\n"),
    "absolute": (b"from p.m import gone\nx = 1\n", b"x = 1\n"),
    "by a re-export": (b"from p import gone\nx = 1\n", b"x = 1\n"),
    "by the module": (b"from p import m\ndef f(): m.gone()\n", b"from p import m\ndef f(): m.gone()\n"),
    "within a function": (b"def f():\n    from .m import gone\n", b"def f():\n    from .m import gone\n"),
    "guarded": (
        b"try:\n    from .m import gone\nexcept ImportError:\n    gone = None\n",
        b"try:\n    from .m import gone\nexcept ImportError:\n    gone = None\n",
    ),
    "guarded, used at once": (
        b"try:\n    from .m import gone\nexcept (ImportError, OSError):\n    gone = None\nT = [gone]\n",
        b"try:\n    from .m import gone\nexcept (ImportError, OSError):\n    gone = None\nT = [gone]\n",
    ),
    "in a handler": (
        b"try:\n    from fast import gone\nexcept ImportError:\n    from .m import gone\n",
        b"try:\n    from fast import gone\nexcept ImportError:\n    pass\n",
    ),
    "guarded against something else": (
        b"try:\n    from .m import gone\nexcept OSError:\n    gone = None\n",
        b"try:\n    pass\nexcept OSError:\n    gone = None\n",
    ),
    "for type checkers alone": (
        b"from __future__ import annotations\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n"
        b"    from .m import gone\ndef f(x: gone): pass\n",
        b"from __future__ import annotations\ndef f(x: gone): pass\n",
    ),
    "for type checkers, among others": (
        b"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .m import gone, a\n",
        b"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .m import a\n",
    ),
    "with other names of a line": (b"import q; from .m import gone\nq.x\n", b"import q\nq.x\n"),
    "a name of another module": (b"from .n import gone\n", b"from .n import gone\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", IMPORTS)
def test_imports_of_it_go_everywhere(name: str) -> None:
    before, after = IMPORTS[name]
    files = {
        "p/__init__.py": b"from .m import gone\n",
        "p/m.py": b"a = b = 0\ndef gone(): pass\nz = 1\n",
        "p/n.py": b"def gone(): pass\n",
        "p/u.py": before,
    }
    changes = plan(files, "p/m.py::gone").changes
    expected = {"p/__init__.py": b"", "p/m.py": b"a = b = 0\nz = 1\n"}
    assert changes == (expected if before == after else {**expected, "p/u.py": after})


UNUSED = {
    "unused then": (b"import os\nimport re\ndef gone(): re.x\nos.y\n", b"import os\nos.y\n"),
    "one of a from": (b"from os import a, b\ndef gone(): b()\na()\n", b"from os import a\na()\n"),
    "idle before": (b"import os\ndef gone(): pass\n", b"import os\n"),
    "the future": (b"from __future__ import annotations\ndef gone(): annotations\n", b"from __future__ import annotations\n"),
    "a re-export": (b"from os import a as a\ndef gone(): a()\n", b"from os import a as a\n"),
    "listed": (b"from os import a\n__all__ = ['a']\ndef gone(): a()\n", b"from os import a\n__all__ = ['a']\n"),
    "guarded": (
        b"try:\n    import fast as j\nexcept ImportError:\n    import json as j\ndef gone(): j.x\nb = 2\n", b"b = 2\n",
    ),
    "guarded, told": (
        b"try:\n    import j\n    HAS = True\nexcept ImportError:\n    HAS = False\ndef gone(): j.x\n",
        b"try:\n    HAS = True\nexcept ImportError:\n    HAS = False\n",
    ),
    "in an annotation": (b"from q import T, U\ndef gone(x: T): pass\ndef b(x: U): pass\n", b"from q import U\ndef b(x: U): pass\n"),
    "in a quoted annotation": (
        b"from q import T, U\ndef gone(x: 'T'): pass\ndef b(x: 'list[U]'): pass\n",
        b"from q import U\ndef b(x: 'list[U]'): pass\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNUSED)
def test_imports_that_nothing_uses_then_go(name: str) -> None:
    before, after = UNUSED[name]
    assert removed(before, "gone") == after


def test_an_import_that_a_test_patches_stays() -> None:
    files = {"p/__init__.py": b"", "p/m.py": b"import time\ndef gone(): time.x\ny = 1\n"}
    assert plan(files, "p/m.py::gone").changes == {"p/m.py": b"y = 1\n"}
    patched = {**files, "tests/test_m.py": b"def test(mp): mp.setattr('p.m.time.x', 1)\n"}
    assert plan(patched, "p/m.py::gone").changes == {"p/m.py": b"import time\ny = 1\n"}


STUBBED = {
    "decorator": (b"def gone(f): return f\n@gone\ndef b(): pass\n", "runs_at_import"),
    "called": (b"def gone(): return 1\nT = gone()\n", "runs_at_import"),
    "called in a default": (b"def gone(): return 1\ndef b(x=gone()): pass\n", "runs_at_import"),
    "value": (b"def gone(): return 1\nT = {'a': gone}\n", "as a value"),
    "default": (b"def gone(): return 1\ndef b(x=gone): pass\n", "as a value"),
    "lambda": (b"def gone(): return 1\nT = lambda: gone()\n", ""),
    "main block": (b"def gone(): return 1\nif __name__ == '__main__':\n    gone()\n", ""),
    "caller": (b"def gone(): return 1\ndef b(): gone()\n", ""),
    "base": (b"class gone:\n    def m(self): return 1\nclass B(gone): pass\n", "as a base class"),
    "annotation": (b"class gone:\n    def m(self): return 1\ndef b(x: gone): pass\n", "in an annotation"),
    "deferred annotation": (
        b"from __future__ import annotations\nclass gone:\n    def m(self): return 1\ndef b(x: gone): pass\n", "",
    ),
    "deferred annotation that a base reads": (
        b"from __future__ import annotations\nclass gone:\n    def m(self): return 1\nclass B(Model):\n    x: gone\n",
        "in an annotation",
    ),
    "deferred annotation of a dataclass": (
        b"from __future__ import annotations\nclass gone:\n    def m(self): return 1\n@dataclass\nclass B:\n    x: gone\n",
        "",
    ),
    "annotation of a local": (b"class gone:\n    def m(self): return 1\ndef b():\n    x: gone = 1\n", ""),
    "class body": (b"def gone(): return 1\nclass B:\n    m = gone\n", "as a value"),
    "deleted": (b"def gone(): return 1\ndel gone\n", "as a value"),
}  # fmt: skip


@pytest.mark.parametrize("name", STUBBED)
def test_what_is_needed_at_import_stays_as_a_stub(name: str) -> None:
    before, why = STUBBED[name]
    if why == "runs_at_import":
        with pytest.raises(SkippedFile) as caught:
            plan(before, "gone")
        assert caught.value.reason == why
        assert read(before).units["m.py::gone"].at_import
        return
    made = plan(before, "gone")
    data = made.changes["m.py"]
    assert data is not None
    if why:
        assert data == before.replace(b"return 1", b"raise NotImplementedError")
        assert why in made.stubbed["m.py::gone"]
        assert (made.deleted, dict(made.removed)) == ((), {read(before).units["m.py::gone"].symbols[0].key: b"return 1"})
    else:
        assert b"def gone" not in data
        assert b"class gone" not in data
        assert (dict(made.stubbed), made.deleted) == ({}, ("m.py::gone",))


def test_what_the_caller_pins_stays_as_a_stub_and_its_helpers_go() -> None:
    source = b"def _h(): pass\ndef gone():\n    'Doc.'\n    return _h()\n"
    made = plan(source, "gone", pinned={"m.py::gone": "a test imports it"})
    assert made.changes == {"m.py": b"def gone():\n    'Doc.'\n    raise NotImplementedError\n"}
    assert (dict(made.stubbed), made.joined) == ({"m.py::gone": "a test imports it"}, ("m.py::_h",))
    assert dict(made.removed) == {"m.py::gone:2": b"return _h()", "m.py::_h:1": b"def _h(): pass"}


def test_a_class_that_makes_its_heirs_keeps_how_it_does() -> None:
    source = (
        b"class gone:\n    def __init_subclass__(cls): cls.x = 1\n    def __init__(self): self.y = 1\n"
        b"    def m(self): return 1\nclass B(gone): pass\n"
    )
    assert removed(source, "gone") == source.replace(b"self.y = 1", b"raise NotImplementedError").replace(
        b"return 1", b"raise NotImplementedError"
    )
    called = source + b"ONE = gone()\n"
    assert removed(called, "gone") == called.replace(b"return 1", b"raise NotImplementedError")


INDIRECT = {
    "through a function": (b"def gone(): return 1\ndef b(): return gone()\nT = b()\n", True),
    "through an inner function": (b"def gone(): return 1\ndef b():\n    def c(): return gone()\n    return c()\nT = b()\n", True),
    "in a wrapper that is called later": (
        b"def gone(): return 1\ndef b(f):\n    def c(): return gone()\n    return c\n@b\ndef e(): pass\n", False,
    ),
    "in the decorator that a factory makes": (
        b"def gone(): return 1\ndef b(x):\n    def c(f): return gone()\n    return c\n@b(1)\ndef e(): pass\n", True,
    ),
    "in the making of an instance": (
        b"def gone(): return 1\nclass B:\n    def __init__(self): self.x()\n    def x(self): gone()\nT = B()\n", True,
    ),
    "in a method that nobody calls": (
        b"def gone(): return 1\nclass B:\n    def __init__(self): self.y()\n    def x(self): gone()\n    def y(self): pass\nT = B()\n", False,
    ),
    "in a method called on an instance": (
        b"def gone(): return 1\nclass B:\n    def x(self): gone()\nT = B()\nT.x()\n", True,
    ),
    "in a function that goes too": (b"def gone(): return _b()\ndef _b(): return 2\n", False),
}  # fmt: skip


@pytest.mark.parametrize("name", INDIRECT)
def test_what_runs_at_import_through_others_is_kept(name: str) -> None:
    source, runs = INDIRECT[name]
    project = read(source)
    assert project.units["m.py::gone"].at_import is runs
    if not runs:
        assert project.plan("remove", ["m.py::gone"]).deleted == ("m.py::gone",)
        return
    with pytest.raises(SkippedFile) as caught:
        project.plan("remove", ["m.py::gone"])
    assert caught.value.reason == "runs_at_import"


def test_what_was_seen_to_run_at_import_is_kept() -> None:
    source = b"def gone(): return 1\ndef other(): return 2\n"
    made = plan(source, "gone", "other", mode="cluster", running=["m.py::other", "m.py::no_unit"])
    assert made.changes == {"m.py": b"def other(): return 2\n"}
    assert made.notes == ("m.py::other is kept: other was seen to run at import",)
    assert plan(source, "gone", "other", mode="cluster").changes == {"m.py": b""}


def test_what_has_no_body_and_must_stay_is_no_removal() -> None:
    with pytest.raises(SkippedFile) as caught:
        plan(b"class gone(Exception): pass\nclass B(gone): pass\n", "gone")
    assert caught.value.reason == "nothing_removed"
    assert removed(b"class gone(Exception): pass\nb = 2\n", "gone") == b"b = 2\n"


def test_of_several_units_those_that_run_at_import_are_kept_and_said() -> None:
    source = b"def gone(): pass\ndef d(f): return f\n@d\ndef b(): pass\n"
    made = plan(source, "gone", "d", mode="cluster")
    assert made.changes == {"m.py": b"def d(f): return f\n@d\ndef b(): pass\n"}
    assert made.deleted == ("m.py::gone",)
    assert "m.py::d is kept: m.py:3 uses d as a decorator while it is imported" in made.notes
    assert plan(source, "gone", "d", "b", mode="cluster").changes == {"m.py": b""}


def test_removed_holds_the_answer_and_no_more() -> None:
    source = (
        b"_A = 5\n\n\ndef _h(x):\n    '''How.'''\n    return x\n\n\n@w\ndef gone(a):\n    '''What.'''\n"
        b"    # by hand\n    return _h(a) + _A\n\n\nclass K:\n    '''What.'''\n\n    x = 3\n\n    def m(self):\n        return 4\n"
    )
    made = plan(source, "gone", "K")
    assert made.changes == {"m.py": b""}
    assert dict(made.removed) == {
        "m.py::gone:9": b"    # by hand\n    return _h(a) + _A",
        "m.py::_h:4": b"def _h(x):\n    '''How.'''\n    return x",
        "m.py::_A:1": b"_A = 5",
        "m.py::K.x:19": b"x = 3",
        "m.py::K.m:21": b"return 4",
    }


def test_what_a_gone_module_handed_on_goes_from_the_list() -> None:
    files = {
        "p/__init__.py": b"from .api import K, f\n__all__ = ['K', 'f', 'p']\np = 1\n",
        "p/api.py": b"from .k import K\ndef f(): return K()\n",
        "p/k.py": b"class K: pass\n",
    }
    assert read(files).plan("module", [], ["p/api.py"]).changes == {
        "p/__init__.py": b"__all__ = ['p']\np = 1\n",
        "p/api.py": None,
    }
    # Somebody needs what it hands on.
    needed = {**files, "p/u.py": b"from . import K\nclass L(K): pass\n"}
    made = read(needed).plan("module", [], ["p/api.py"])
    assert made.changes == {
        "p/__init__.py": b"from .api import K\n__all__ = ['K', 'p']\np = 1\n",
        "p/api.py": b"from .k import K\n",
    }
    assert made.notes == ("p/api.py stays, without its definitions: p/u.py:2 uses K as a base class while it is imported",)


def test_strings_that_name_it_are_noted() -> None:
    made = plan(b"def gone(): pass\ndef b(m): return getattr(m, 'gone')\n", "gone")
    assert made.notes == ("m.py:2 holds gone in a string",)
    assert plan(b"def gone(): pass\ndef b(m): return 'gone for good'\n", "gone").notes == ()


@pytest.mark.parametrize(
    ("keys", "files", "reason"),
    [(["m.py::no"], [], "unit_unknown"), ([], ["no.py"], "unit_unknown"), ([], [], "nothing_removed")],
)
def test_what_cannot_be_planned_has_a_reason(keys: list[str], files: list[str], reason: str) -> None:
    project = read(b"def gone(): pass\n")
    for mode in ("remove", "module"):
        with pytest.raises(SkippedFile) as caught:
            project.plan(mode, keys, files)
        assert caught.value.reason == reason
