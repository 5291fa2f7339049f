"""Functions that only hand their arguments on: nothing to build."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

__all__ = ["forwards"]


def forwards(parameters: cst.Parameters, statements: Sequence[cst.CSTNode]) -> bool:
    """Whether ``statements`` are one call of plain arguments, or name its result and return that.

    ``return f(a, b)``, ``x = f(a); return x``, ``self._y.f(*a, **k)``, ``yield from f(a)`` and ``await`` of one count.

    Args:
        statements: of the body, after the docstring; simple ones as lines or singly.
    """
    small = [it for statement in statements for it in _small(statement)]
    if not 1 <= len(small) <= 2 or len(small) < len(statements):
        return False
    first, last = small[0], small[-1]
    if len(small) == 2:
        if not (isinstance(first, cst.Assign) and len(first.targets) == 1 and isinstance(last, cst.Return)):
            return False
        target = first.targets[0].target
        if not (isinstance(target, cst.Name) and isinstance(last.value, cst.Name) and last.value.value == target.value):
            return False
    elif not isinstance(first, (cst.Return, cst.Expr)):
        return False
    return first.value is not None and _hands_on(first.value, _names(parameters))


def _small(statement: cst.CSTNode) -> Sequence[cst.CSTNode]:
    return statement.body if isinstance(statement, cst.SimpleStatementLine) else [statement]


def _names(parameters: cst.Parameters) -> frozenset[str]:
    every = [*parameters.posonly_params, *parameters.params, *parameters.kwonly_params]
    every += [it for it in (parameters.star_arg, parameters.star_kwarg) if isinstance(it, cst.Param)]
    return frozenset(it.name.value for it in every)


def _hands_on(value: cst.BaseExpression, names: frozenset[str]) -> bool:
    if isinstance(value, cst.Await):
        return _hands_on(value.expression, names)
    if isinstance(value, cst.Yield) and isinstance(value.value, cst.From):
        return _hands_on(value.value.item, names)
    if not isinstance(value, cst.Call) or not _is_path(value.func):
        return False
    return all(isinstance(it.value, cst.Name) and it.value.value in names for it in value.args)


def _is_path(value: cst.BaseExpression) -> bool:
    """A dotted name, or an attribute of ``super()``."""
    while isinstance(value, cst.Attribute):
        value = value.value
    if isinstance(value, cst.Call):
        return isinstance(value.func, cst.Name) and value.func.value == "super" and not value.args
    return isinstance(value, cst.Name)
