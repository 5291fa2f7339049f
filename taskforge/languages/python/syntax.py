"""Small questions about libcst nodes, shared by what reads them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import cache

import libcst as cst

__all__ = ["bound_names", "children", "dotted", "is_string", "local_names", "parameters", "suites", "targets"]

_LAYOUT = ("whitespace", "leading", "trailing", "lines_after")
_BRACKETS = frozenset(["lpar", "rpar", "lbracket", "rbracket", "lbrace", "rbrace", "start", "end", "indent"])
_MARKS = frozenset(["comma", "semicolon", "operator", "dot", "colon", "equal", "first_colon", "second_colon"])
_LINES = frozenset(["header", "footer", "newline", "asynchronous"])


@cache
def _fields(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    named = (it.name for it in fields(kind))
    return tuple(it for it in named if not it.startswith(_LAYOUT) and it not in _BRACKETS | _MARKS | _LINES)


def children(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Those with meaning, in order; libcst's own list holds every space and comma, and takes twice as long."""
    for name in _fields(type(node)):
        value = getattr(node, name)
        # Not by asking for CSTNode: that is an abstract class, and asking is slow.
        if isinstance(value, (tuple, list)):
            yield from value
        elif value is not None and not isinstance(value, (str, bool, cst.MaybeSentinel)):
            yield value


def dotted(node: cst.BaseExpression | cst.CSTNode) -> tuple[str, ...]:
    """``a.b.c`` as a tuple; empty when it is anything else."""
    names: list[str] = []
    while isinstance(node, cst.Attribute):
        names.append(node.attr.value)
        node = node.value
    if not isinstance(node, cst.Name):
        return ()
    return (node.value, *reversed(names))


def is_string(node: cst.CSTNode) -> bool:
    return isinstance(node, (cst.SimpleString, cst.ConcatenatedString, cst.FormattedString))


def targets(node: cst.CSTNode) -> Iterator[cst.Name]:
    """The names that an assignment's left side binds."""
    if isinstance(node, cst.Name):
        yield node
    elif isinstance(node, (cst.Tuple, cst.List)):
        for element in node.elements:
            yield from targets(element.value)


def suites(node: cst.CSTNode) -> Iterator[cst.BaseSuite]:
    """The blocks of a compound statement that run in its own scope."""
    if isinstance(node, (cst.If, cst.For, cst.While, cst.Try, cst.TryStar, cst.With)):
        yield node.body
    if isinstance(node, (cst.Try, cst.TryStar)):
        for handler in node.handlers:
            yield handler.body
    if isinstance(node, (cst.If, cst.For, cst.While, cst.Try, cst.TryStar)) and node.orelse is not None:
        if isinstance(node.orelse, cst.If):
            yield from suites(node.orelse)
        else:
            yield node.orelse.body
    if isinstance(node, (cst.Try, cst.TryStar)) and node.finalbody is not None:
        yield node.finalbody.body
    if isinstance(node, cst.Match):
        for case in node.cases:
            yield case.body


def local_names(function: cst.FunctionDef | cst.Lambda) -> set[str]:
    """Names of a function's own scope: parameters and whatever its body binds."""
    found = {it.name.value for it in parameters(function.params)}
    body = function.body
    outer: set[str] = set()
    bound_names(body, found, outer)
    return found - outer


def parameters(params: cst.Parameters) -> Iterator[cst.Param]:
    yield from params.posonly_params
    yield from params.params
    if isinstance(params.star_arg, cst.Param):
        yield params.star_arg
    yield from params.kwonly_params
    if params.star_kwarg is not None:
        yield params.star_kwarg


def bound_names(node: cst.CSTNode, found: set[str], outer: set[str]) -> None:
    """Add to ``found`` what ``node`` binds in its own scope, to ``outer`` what it declares global or nonlocal."""
    if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
        found.add(node.name.value)
        return
    if isinstance(node, (cst.Lambda, cst.Name, cst.Attribute, cst.SimpleString, cst.Annotation)):
        return
    if isinstance(node, (cst.AssignTarget, cst.AnnAssign, cst.AugAssign, cst.For, cst.NamedExpr)):
        found.update(it.value for it in targets(node.target))
    elif isinstance(node, cst.AsName):
        found.update(it.value for it in targets(node.name))
    elif isinstance(node, cst.ImportAlias):
        if node.asname is None:
            found.add(dotted(node.name)[0])
            return
    elif isinstance(node, (cst.MatchAs, cst.MatchStar)) and node.name is not None:
        found.add(node.name.value)
    elif isinstance(node, cst.MatchMapping) and node.rest is not None:
        found.add(node.rest.value)
    elif isinstance(node, (cst.Global, cst.Nonlocal)):
        outer.update(it.name.value for it in node.names)
        return
    elif isinstance(node, cst.Del):
        found.update(it.value for it in targets(node.target))
    elif isinstance(node, cst.TypeAlias):
        found.add(node.name.value)
    for child in children(node):
        if isinstance(node, cst.CompFor) and child is node.target:
            continue
        bound_names(child, found, outer)
