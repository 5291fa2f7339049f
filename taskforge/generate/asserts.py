"""Which tests check anything in their own body: a feature that only others enter is hardly asked for."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Final

from taskforge.generate.definitions import parsed
from taskforge.model import TestMap, Tree

__all__ = ["asserting"]

_CHECKS: Final = ("assert", "check", "expect", "verify", "raises", "warns", "fail", "approve")


def asserting(tree: Tree, test_map: TestMap) -> Callable[[str], bool]:
    """A function that tells of an id whether its definition asserts, or calls what sounds like it.

    A test whose definition is not known, or cannot be read, counts as one that does.
    """
    defined = {record.id: record.defined for record in test_map.tests}
    by_path: dict[str, frozenset[str] | None] = {}

    def told(test: str) -> bool:
        path, _, name = defined.get(test, "").partition("::")
        if not name or path not in tree:
            return True
        if path not in by_path:
            by_path[path] = _silent(tree[path].data)
        silent = by_path[path]
        return silent is None or name not in silent

    return told


def _silent(source: bytes) -> frozenset[str] | None:
    """Qualified names of functions that check nothing; None for a file that cannot be read."""
    module = parsed(source)
    if module is None:
        return None
    found: set[str] = set()

    def within(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                within(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not any(map(_checks, ast.walk(node))):
                found.add(prefix + node.name)

    within(module.body, "")
    return frozenset(found)


def _checks(node: ast.AST) -> bool:
    if isinstance(node, ast.Assert):
        return True
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name.lower().lstrip("_").startswith(_CHECKS)
