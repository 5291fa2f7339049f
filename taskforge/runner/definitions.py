"""Where a collected test is written down, as pytest knows it.

A test's id names where it was collected; an inherited one is written in its base class, which may lie in another file.
Each place told is a claim that the host holds against the file. Nothing here instantiates a test class: a suite could
notice.
"""
# mypy: disallow-any-generics=False, warn-unreachable=False, warn-return-any=False

import inspect
import os
import sys
from typing import Any  # noqa: F401 - in type comments, for Python 3.8

ROOT = "/workspace/"


def places(item):
    # type: (Any) -> list
    """Places ``[path in the workspace, first line or 0, qualname]``, the best first; none for what is no function.

    The qualname of a doctest is empty: its unit is the file.
    """
    try:
        if hasattr(item, "dtest"):
            path = _path(getattr(item.dtest, "filename", None))
            return [[path, 0, ""]] if path else []
        name = getattr(item, "originalname", None) or item.name
        owner = getattr(item, "cls", None)
        if owner is not None:
            return _of_method(owner, name)
        module = getattr(item, "module", None)
        if module is None:
            return []
        return _of_function(vars(module).get(name), _source(module), name)
    except Exception:
        return []  # Objects of strangers' making: what cannot be told has no place.


def _of_method(owner, name):
    # type: (Any, str) -> list
    for base in inspect.getmro(owner):
        if name in vars(base):
            found = vars(base)[name]
            module = sys.modules.get(base.__module__)
            return _of_function(getattr(found, "__func__", found), _source(module), base.__qualname__ + "." + name)
    return []


def _of_function(function, path, qualname):
    # type: (Any, str, str) -> list
    """By the code of what was decorated, then by name, for decorators that do not tell what they wrap."""
    found = []
    inner = inspect.unwrap(function) if function is not None else None  # type: Any
    code = getattr(inner, "__code__", None)
    if code is not None:
        where = _path(code.co_filename)
        if where:
            found.append([where, code.co_firstlineno, str(inner.__qualname__)])
    if path:
        found.append([path, 0, qualname])
    return found


def _source(module):
    # type: (Any) -> str
    return _path(getattr(module, "__file__", None))


def _path(name):
    # type: (Any) -> str
    """Relative to the workspace, empty for what lies outside of it."""
    whole = os.path.abspath(name) if isinstance(name, str) else ""
    return whole[len(ROOT) :] if whole.startswith(ROOT) else ""
