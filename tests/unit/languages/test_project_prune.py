"""Test modules without some of their tests."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from taskforge.languages import Pruned, SkippedFile, language

PYTHON = language("python")
PRODUCT = {"p/__init__.py": b"from .m import f, K\n", "p/m.py": b"def f(): pass\ndef g(): pass\nclass K:\n    def m(self): pass\n"}


def prune(files: Mapping[str, bytes], path: str, *names: str, **also: Collection[str]) -> Pruned:
    project = PYTHON.project(
        {**PRODUCT, **files}, is_product=lambda it: not PYTHON.is_test_path(it)
    )
    return project.prune(path, names, also={f"tests/{key}.py": value for key, value in also.items()})


CASES = {
    "a test and its helper": (
        b"from p import f, K\n\nN = 3\n\n\ndef helper(): return N\n\n\ndef test_a():\n    assert f() == helper()\n\n\n"
        b"def test_b():\n    K()\n",
        b"from p import K\n\n\ndef test_b():\n    K()\n",
        {"N", "helper"},
    ),
    "a helper that another test uses": (
        b"def helper(): return 1\ndef test_a(): helper()\ndef test_b(): helper()\n",
        b"def helper(): return 1\ndef test_b(): helper()\n",
        set(),
    ),
    "its fixture": (
        b"import pytest\n@pytest.fixture\ndef box(): return 1\ndef test_a(box): pass\ndef test_b(): pytest.x\n",
        b"import pytest\ndef test_b(): pytest.x\n",
        {"box"},
    ),
    "a fixture that another test asks for": (
        b"import pytest\n@pytest.fixture\ndef box(): return 1\ndef test_a(box): pass\ndef test_b(box): pass\n",
        b"import pytest\n@pytest.fixture\ndef box(): return 1\ndef test_b(box): pass\n",
        set(),
    ),
    "a fixture of a fixture": (
        b"import pytest\n@pytest.fixture\ndef lid(): return 1\n@pytest.fixture()\ndef box(lid): return lid\n"
        b"def test_a(box): pass\ndef test_b(): pass\n",
        b"def test_b(): pass\n",
        {"box", "lid"},
    ),
    "a fixture that another test names": (
        b"import pytest\n@pytest.fixture\ndef box(): return 1\ndef test_a(box): pass\n"
        b"@pytest.mark.usefixtures('box')\ndef test_b(): pass\n",
        b"import pytest\n@pytest.fixture\ndef box(): return 1\n@pytest.mark.usefixtures('box')\ndef test_b(): pass\n",
        set(),
    ),
    "a fixture that it names": (
        b"import pytest\n@pytest.fixture\ndef box(): return 1\n@pytest.mark.usefixtures('box')\ndef test_a(): pass\n"
        b"def test_b(): pass\n",
        b"def test_b(): pass\n",
        {"box"},
    ),
    "a fixture that always runs": (
        b"import pytest\n@pytest.fixture(autouse=True)\ndef box(): return 1\ndef test_a(box): pass\ndef test_b(): pass\n",
        b"import pytest\n@pytest.fixture(autouse=True)\ndef box(): return 1\ndef test_b(): pass\n",
        set(),
    ),
    "its parameters": (
        b"import pytest\nROWS = [1]\nOTHER = [2]\n@pytest.mark.parametrize('x', ROWS)\ndef test_a(x): pass\n"
        b"@pytest.mark.parametrize('x', OTHER)\ndef test_b(x): pass\n",
        b"import pytest\nOTHER = [2]\n@pytest.mark.parametrize('x', OTHER)\ndef test_b(x): pass\n",
        {"ROWS"},
    ),
    "a helper that was idle before": (
        b"def helper(): pass\ndef test_a(): pass\ndef test_b(): pass\n", b"def helper(): pass\ndef test_b(): pass\n", set(),
    ),
    "set up": (
        b"from p import f\ndef setup_module(): f()\ndef test_a(): f()\ndef test_b(): pass\n",
        b"from p import f\ndef setup_module(): f()\ndef test_b(): pass\n",
        set(),
    ),
    "a helper class": (
        b"class Fake:\n    x = 1\nclass Other(Fake): pass\ndef test_a(): Other()\ndef test_b(): pass\n",
        b"def test_b(): pass\n",
        {"Fake", "Other"},
    ),
    "a guarded import": (
        b"try:\n    import numpy as np\nexcept ImportError:\n    np = None\ndef test_a(): np.x\ndef test_b(): pass\n",
        b"def test_b(): pass\n",
        {"np"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_test_goes_with_what_only_it_used(name: str) -> None:
    before, after, gone = CASES[name]
    made = prune({"tests/test_m.py": before}, "tests/test_m.py", "test_a")
    assert made.data == after
    assert set(made.gone) == gone


CLASSES = {
    "one of two": (
        b"class TestA:\n    x = 1\n\n    def test_a(self): pass\n\n    def test_b(self): pass\n",
        b"class TestA:\n    x = 1\n\n    def test_b(self): pass\n",
    ),
    "the last of a class": (
        b"class TestA:\n    x = 1\n    def setup_method(self): pass\n    def test_a(self): pass\ndef test_b(): pass\n",
        b"def test_b(): pass\n",
    ),
    "the last of a class that others derive from": (
        b"class TestA:\n    def test_a(self): pass\nclass TestB(TestA):\n    def test_b(self): pass\n",
        b"class TestA:\n    pass\nclass TestB(TestA):\n    def test_b(self): pass\n",
    ),
    "inherited alone": (
        b"class TestA:\n    def test_a(self): pass\nclass TestB(TestA):\n    x = 1\ndef test_b(): pass\n",
        b"def test_b(): pass\n",
    ),
    "unittest": (
        b"import unittest\nclass A(unittest.TestCase):\n    def test_a(self): self.help()\n    def help(self): pass\n"
        b"class B(unittest.TestCase):\n    def test_b(self): pass\n",
        b"import unittest\nclass B(unittest.TestCase):\n    def test_b(self): pass\n",
    ),
    "inherits tests from elsewhere": (
        b"from lib import Suite\nclass TestA(Suite):\n    def test_a(self): pass\n",
        b"from lib import Suite\nclass TestA(Suite):\n    pass\n",
    ),
}


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_goes_with_its_last_test(name: str) -> None:
    before, after = CLASSES[name]
    first = "A.test_a" if name == "unittest" else "TestA.test_a"
    assert prune({"tests/test_m.py": before}, "tests/test_m.py", first).data == after


def test_nothing_of_use_is_left() -> None:
    source = b"import pytest\nN = 1\ndef helper(): pass\ndef test_a(): helper()\nclass TestB:\n    def test_b(self): pass\n"
    assert prune({"tests/test_m.py": source}, "tests/test_m.py", "test_a", "TestB.test_b").data is None
    used = {"tests/test_m.py": source, "tests/test_n.py": b"from test_m import N\ndef test_c(): N\n"}
    left = prune(used, "tests/test_m.py", "test_a", "TestB.test_b")
    assert left.data == b"import pytest\nN = 1\n"


def test_shared_fixtures_go_only_when_nobody_asks_for_them() -> None:
    files = {
        "tests/conftest.py": (
            b"import pytest\n@pytest.fixture\ndef box(): return 1\n@pytest.fixture\ndef lid(): return 1\n"
            b"@pytest.fixture\ndef idle(): return 1\ndef pytest_configure(): pass\n"
        ),
        "tests/test_m.py": b"def test_a(box, lid): pass\ndef test_b(): pass\n",
        "tests/test_n.py": b"def test_c(lid): pass\n",
    }
    made = prune(files, "tests/conftest.py", test_m=["test_a"])
    assert made.gone == ("box",)
    assert made.data == files["tests/conftest.py"].replace(b"@pytest.fixture\ndef box(): return 1\n", b"")
    both = prune(files, "tests/conftest.py", test_m=["test_a"], test_n=["test_c"])
    assert set(both.gone) == {"box", "lid"}


def test_helpers_of_other_files() -> None:
    files = {
        "tests/__init__.py": b"",
        "tests/help.py": b"def one(): pass\ndef two(): pass\n",
        "tests/test_m.py": b"from tests.help import one, two\ndef test_a(): one()\ndef test_b(): two()\n",
    }
    assert prune(files, "tests/test_m.py", "test_a").data == b"from tests.help import two\ndef test_b(): two()\n"
    assert prune(files, "tests/help.py", test_m=["test_a"]).data == b"def two(): pass\n"


def test_what_is_not_there_or_cannot_be_read_has_a_reason() -> None:
    files = {"tests/test_m.py": b"def test_a(): pass\n", "tests/test_bad.py": b"def test_a(x):\n\t if x:\n\t\t return 1\n"}
    for path, name, reason in [
        ("tests/test_m.py", "test_z", "unit_unknown"),
        ("tests/test_no.py", "test_a", "file_unknown"),
        ("tests/test_bad.py", "test_a", "parser_refuses"),
    ]:
        with pytest.raises(SkippedFile) as caught:
            prune(files, path, name)
        assert caught.value.reason == reason


NEEDED = {
    "from": (b"from p.m import f\n", {"p/m.py::f"}),
    "by a re-export": (b"from p import f\n", {"p/m.py::f"}),
    "by attribute, called in a test": (b"import p.m\ndef test(): p.m.f()\n", set()),
    "by attribute, in parameters": (b"import p.m\n@mark.parametrize('x', [p.m.f])\ndef test(x): x()\n", {"p/m.py::f"}),
    "in a test": (b"def test():\n    from p import f\n", set()),
    "guarded": (b"try:\n    from p import f\nexcept ImportError:\n    f = None\n", set()),
    "as a base": (b"import p\nclass X(p.K): pass\n", {"p/m.py::K"}),
    "everything": (b"from p import *\n", set()),
    "through a helper": (b"from help import x\n", {"p/m.py::g"}),
}


@pytest.mark.parametrize("name", NEEDED)
def test_what_a_test_module_needs_when_it_is_imported(name: str) -> None:
    source, needed = NEEDED[name]
    files = {**PRODUCT, "tests/test_m.py": source, "tests/help.py": b"from p.m import g\nx = 1\n"}
    project = PYTHON.project(files, is_product=lambda it: not PYTHON.is_test_path(it))
    assert project.top_level_imports("tests/test_m.py") == needed
    above = {**files, "tests/conftest.py": b"from p import K\n"}
    project = PYTHON.project(above, is_product=lambda it: not PYTHON.is_test_path(it))
    assert project.top_level_imports("tests/test_m.py") == needed | {"p/m.py::K"}
