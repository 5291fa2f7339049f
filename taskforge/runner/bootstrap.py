"""Makes the runner's sources importable as ``taskforge_runner`` and enters one of them. Executed as text, never
imported.

``SOURCES`` (name -> source), ``MAIN`` (module to enter) and ``BLOB`` (the sources as they came) are given by whoever
executes it.
"""
# ruff: noqa: ARG002, S102
# mypy: disallow-any-generics=False, warn-unreachable=False, warn-return-any=False

import importlib.abc
import importlib.util
import sys
from typing import Any  # noqa: F401 - in type comments, for Python 3.8

_SOURCES = globals()["SOURCES"]
_PREFIX = "taskforge_runner"


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        # type: (str, Any, Any) -> Any
        if name == _PREFIX or (name.startswith(_PREFIX + ".") and name[len(_PREFIX) + 1 :] in _SOURCES):
            return importlib.util.spec_from_loader(name, self, is_package=name == _PREFIX)
        return None

    def create_module(self, spec):
        # type: (Any) -> None
        return None

    def exec_module(self, module):
        # type: (Any) -> None
        name = module.__name__
        if name != _PREFIX:
            source = _SOURCES[name[len(_PREFIX) + 1 :]]
            exec(compile(source, "<taskforge %s>" % name[len(_PREFIX) + 1 :], "exec"), module.__dict__)


sys.meta_path.insert(0, _Finder())
_main = importlib.import_module(_PREFIX + "." + globals()["MAIN"])
_main.main(*([globals()["BLOB"]] if globals()["MAIN"] == "supervisor" else []))
