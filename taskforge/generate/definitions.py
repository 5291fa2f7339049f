"""Where tests are defined: what the runner told, held against the files."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable
from functools import lru_cache

from taskforge.model import Tree

__all__ = ["Definitions", "classes", "imported_names", "literals", "parsed", "top_level"]


def parsed(source: bytes) -> ast.Module | None:
    """The syntax tree of a file, or None when this interpreter cannot read it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


class Definitions:
    """Functions that are written in a tree's files, each file read once.

    A test whose function was made by another function, or stands nowhere in the file that was told, has no definition:
    cutting out what merely bears its name could leave it in sight.
    """

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._lines: dict[str, dict[str, set[int]]] = {}

    def of(self, places: Iterable[tuple[str, int, str]]) -> str:
        """``path::qualname`` of the first of ``places`` that is true, or an empty string.

        Args:
            places: ``(path, first line or 0 for any, qualname)``.
        """
        for path, line, qualname in places:
            if not qualname and path in self.tree:
                return f"{path}::"
            lines = self._functions(path).get(qualname, set())
            if line in lines or (lines and not line):
                return f"{path}::{qualname}"
        return ""

    def _functions(self, path: str) -> dict[str, set[int]]:
        """Qualname -> first lines, decorators included, of the functions in modules and classes of a file."""
        if path not in self._lines:
            entry = self.tree.get(path)
            module = parsed(entry.data) if entry is not None and entry.kind != "link" else None
            found: dict[str, set[int]] = {}
            if module is not None:
                _visit(module, "", found)
            self._lines[path] = found
        return self._lines[path]


def _visit(node: ast.AST, prefix: str, found: dict[str, set[int]]) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            line = min([child.lineno, *(one.lineno for one in child.decorator_list)])
            found.setdefault(prefix + child.name, set()).add(line)
        elif isinstance(child, ast.ClassDef):
            _visit(child, f"{prefix}{child.name}.", found)
        elif not isinstance(child, ast.expr):
            _visit(child, prefix, found)


# What follows is asked of the same files for every task of a snapshot.


@lru_cache(maxsize=8192)
def top_level(source: bytes) -> frozenset[str]:
    """Names of the functions and classes of a module."""
    module = parsed(source)
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return frozenset(node.name for node in module.body if isinstance(node, kinds)) if module else frozenset()


@lru_cache(maxsize=8192)
def classes(source: bytes) -> frozenset[str]:
    """Qualnames of the classes that a module, or such a class, holds."""
    found: set[str] = set()
    waiting: list[tuple[str, ast.AST | None]] = [("", parsed(source))]
    while waiting:
        prefix, node = waiting.pop()
        for child in ast.iter_child_nodes(node) if node is not None else ():
            if isinstance(child, ast.ClassDef):
                found.add(prefix + child.name)
                waiting.append((f"{prefix}{child.name}.", child))
    return frozenset(found)


@lru_cache(maxsize=8192)
def imported_names(source: bytes) -> frozenset[str]:
    """Last parts of the names of all modules that a file may import, whatever they are relative to."""
    names: set[str] = set()
    module = parsed(source)
    for node in ast.walk(module) if module is not None else ():
        if isinstance(node, ast.Import):
            names |= {alias.name.rpartition(".")[2] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {(node.module or "").rpartition(".")[2], *(alias.name for alias in node.names)}
    return frozenset(names - {""})


@lru_cache(maxsize=8192)
def literals(source: bytes) -> tuple[str, ...]:
    """Its string and byte literals, parts of formatted strings included, in no certain order."""
    module = parsed(source)
    values = [node.value for node in ast.walk(module) if isinstance(node, ast.Constant)] if module is not None else []
    texts = [value.decode("latin-1") if isinstance(value, bytes) else value for value in values]
    return tuple(text for text in texts if isinstance(text, str))
