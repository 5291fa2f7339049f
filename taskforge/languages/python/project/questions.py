"""What a piece of code says about when, and whether, something is evaluated."""

from __future__ import annotations

import libcst as cst

from taskforge.languages.python.index import last_name
from taskforge.languages.python.project.known import is_harmless_decorator, is_reading_base
from taskforge.languages.python.project.parts import Node
from taskforge.languages.python.syntax import dotted

__all__ = ["awaits_import_error", "has_future", "is_blind", "is_main", "reads_annotations"]


def has_future(module: cst.Module) -> bool:
    """Whether annotations are never evaluated."""
    for statement in module.body:
        for small in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
            if isinstance(small, cst.ImportFrom) and small.module and dotted(small.module) == ("__future__",):
                names = small.names if not isinstance(small.names, cst.ImportStar) else ()
                if any(dotted(it.name) == ("annotations",) for it in names):
                    return True
    return False


def is_blind(decorator: cst.Decorator) -> bool:
    """Whether it is known not to read the annotations of what it decorates."""
    inner = decorator.decorator
    return is_harmless_decorator(last_name(inner.func if isinstance(inner, cst.Call) else inner))


def reads_annotations(owner: Node) -> bool:
    """Whether a base or a decorator of a class may evaluate its annotations."""
    decorators = [it for binding in owner.bindings for it in binding.decorators]
    if not all(is_harmless_decorator(it.rpartition(".")[2]) for it in decorators):
        return True
    return any(not it or is_reading_base(it[-1]) for it in owner.bases)


def awaits_import_error(handler: cst.ExceptHandler | cst.ExceptStarHandler) -> bool:
    """Whether the failure of an import ends there."""
    if handler.type is None:
        return True
    kinds = [it.value for it in handler.type.elements] if isinstance(handler.type, cst.Tuple) else [handler.type]
    awaited = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}
    return any(dotted(it)[-1:] and dotted(it)[-1] in awaited for it in kinds)


def is_main(test: cst.BaseExpression) -> bool:
    """``__name__ == "__main__"``, either way round."""
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return False
    sides = (test.left, test.comparisons[0].comparator)
    return any(isinstance(it, cst.Name) and it.value == "__name__" for it in sides)
