"""``__all__`` in its forms, and what a cut in it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from taskforge.languages.python.layout import Layout
from taskforge.languages.python.project.parts import Module
from taskforge.languages.python.syntax import children, dotted, suites

__all__ = ["export_calls", "export_statements", "read_exports", "string_elements"]

_CALLS = {"append", "extend", "remove", "insert"}


def read_exports(module: Module, layout: Layout) -> None:
    """Fill in ``module.exports``: the strings of lists, tuples and sets in whatever is assigned or added, and the
    arguments of ``append`` and its like."""
    for statement in export_statements(layout.module.body):
        module.has_all = True
        value = statement.value
        if value is None:
            continue
        for name, element in export_calls(statement):
            module.exports.append((layout.start(element), name, layout.start(statement)))
        for name, element in string_elements(value):
            module.exports.append((layout.start(element), name, -1))


def export_statements(body: Iterable[cst.CSTNode]) -> Iterator[cst.Assign | cst.AugAssign | cst.AnnAssign | cst.Expr]:
    """Those that make ``__all__``, at any depth of the module's own scope."""
    for statement in body:
        if isinstance(statement, cst.SimpleStatementLine):
            yield from export_statements(statement.body)
        elif isinstance(statement, cst.Assign):
            if any(dotted(it.target) == ("__all__",) for it in statement.targets):
                yield statement
        elif isinstance(statement, (cst.AugAssign, cst.AnnAssign)):
            if dotted(statement.target) == ("__all__",):
                yield statement
        elif isinstance(statement, cst.Expr):
            if isinstance(statement.value, cst.Call):
                path = dotted(statement.value.func)
                if len(path) == 2 and path[0] == "__all__" and path[1] in _CALLS:
                    yield statement
        else:
            for suite in suites(statement):
                yield from export_statements(suite.body)


def export_calls(
    statement: cst.Assign | cst.AugAssign | cst.AnnAssign | cst.Expr,
) -> Iterator[tuple[str, cst.SimpleString]]:
    """The name of ``__all__.append("name")``: there the whole statement goes."""
    if isinstance(statement, cst.Expr) and isinstance(statement.value, cst.Call):
        for argument in statement.value.args:
            if isinstance(argument.value, cst.SimpleString):
                yield _text(argument.value), argument.value


def string_elements(node: cst.CSTNode) -> Iterator[tuple[str, cst.SimpleString]]:
    """The strings that are elements of lists, tuples and sets in ``node``."""
    if isinstance(node, (cst.List, cst.Tuple, cst.Set)):
        for element in node.elements:
            if isinstance(element.value, cst.SimpleString):
                yield _text(element.value), element.value
            else:
                yield from string_elements(element.value)
        return
    for child in children(node):
        yield from string_elements(child)


def _text(node: cst.SimpleString) -> str:
    value = node.evaluated_value
    return value if isinstance(value, str) else ""
