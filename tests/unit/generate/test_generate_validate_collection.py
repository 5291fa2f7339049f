"""Which failures tell of nothing but a missing name."""

from __future__ import annotations

import pytest

from taskforge.generate.validate_collection import import_only, removed_names
from taskforge.languages import language
from taskforge.model import Candidate
from taskforge.sandbox import TestReport as Report


def failing(cause: str, reason: str, *, broken: bool = False) -> bool:
    report = Report(id="t", file="t.py", outcome="failed", seconds=0.0, reason=reason, cause=cause)
    return bool(import_only(["t"], {"t": reason} if broken else {}, {"t": report}, ["parse", "Reader"]))


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        ("NameError", "    x = parse()\nE   NameError: name 'parse' is not defined"),
        ("AttributeError", "E   AttributeError: 'Box' object has no attribute 'parse'. Did you mean: 'pars'?"),
        ("AttributeError", "E   AttributeError: parse"),
        ("ImportError", "E   ImportError: cannot import name 'Reader' from 'pkg' (/workspace/pkg/__init__.py)"),
        ("ModuleNotFoundError", "E   ModuleNotFoundError: No module named 'pkg.parse'"),
        ("Wrapped(AttributeError)", "E   Wrapped(AttributeError): at x\nE   'Box' object has no attribute 'parse'"),
        ("NameError", "name 'parse' is not defined\nNameError: name 'parse' is not defined"),
    ],
)
def test_a_missing_name(cause: str, reason: str) -> None:
    assert failing(cause, reason)
    assert failing("", reason, broken=True)
    # The same of another name, and the same words in another error.
    assert not failing(cause, reason.replace("parse", "parser").replace("Reader", "Readers"))
    assert not failing("AssertionError", reason)


def test_the_source_that_is_shown_is_no_error() -> None:
    assert not failing("NameError", "    raise NameError: parse\nE   NameError: name 'other' is not defined")


def test_names_of_units_functions_and_files() -> None:
    symbol = language("python").index("m.py", b"class A:\n    def f(self): pass\n")[0]
    candidate = Candidate(mode="cluster", symbols=(symbol,), units=("pkg/x.py::B", "pkg/x.py::C.g"), files=("pkg/mod.py",))
    assert removed_names(candidate) == {"f", "B", "g", "mod"}
