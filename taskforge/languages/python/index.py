"""Functions and methods of a Python file, by bytes."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import libcst as cst

from taskforge.languages import SkippedFile
from taskforge.languages.python.forwards import forwards
from taskforge.languages.python.layout import Layout
from taskforge.languages.python.syntax import children, suites
from taskforge.model import Symbol
from taskforge.model.feature import Span

__all__ = ["class_head", "decorated_start", "index_layout", "index_module", "last_name"]

_BRANCHES = (
    cst.If,
    cst.IfExp,
    cst.For,
    cst.While,
    cst.ExceptHandler,
    cst.ExceptStarHandler,
    cst.BooleanOperation,
    cst.CompFor,
    cst.CompIf,
    cst.MatchCase,
)


def index_module(path: str, source: bytes) -> list[Symbol]:
    """See :meth:`taskforge.languages.Language.index`. Functions within functions are part of the outer one."""
    try:
        path.encode()
    except UnicodeError as problem:
        raise SkippedFile("path_not_utf8", f"{path!r} is not UTF-8") from problem
    return index_layout(path, Layout(source))


def index_layout(path: str, layout: Layout) -> list[Symbol]:
    """The same of a file that is parsed already.

    Raises:
        SkippedFile: when a definition's parts cannot be told apart.
    """
    try:
        return [_symbol(path, layout, node, classes) for node, classes in _functions(layout.module.body, ())]
    except RecursionError as problem:
        raise SkippedFile("too_deep", f"{path} is nested too deeply") from problem


def _functions(
    body: Iterable[cst.CSTNode], classes: tuple[str, ...]
) -> Iterator[tuple[cst.FunctionDef, tuple[str, ...]]]:
    """The functions of a block, each with the names of the classes around it."""
    for statement in body:
        if isinstance(statement, cst.FunctionDef):
            yield statement, classes
        elif isinstance(statement, cst.ClassDef):
            yield from _functions(statement.body.body, (*classes, statement.name.value))
        else:
            for suite in suites(statement):
                yield from _functions(suite.body, classes)


@dataclass(frozen=True)
class _Parts:
    """A function's block taken apart. ``statements`` come after the docstring."""

    first: cst.CSTNode
    docstring: cst.Expr | None
    statements: Sequence[cst.CSTNode]


def _symbol(path: str, layout: Layout, node: cst.FunctionDef, classes: Sequence[str]) -> Symbol:
    parts = _take_apart(node.body)
    head = layout.start(node)
    start = decorated_start(layout, node)
    colon = _colon(layout, node, parts.first)
    decorators = tuple(layout.text(layout.start(it), layout.end(it)) for it in node.decorators)
    body = _body_span(layout, node, parts, colon)
    counts = _Counter()
    for statement in parts.statements:
        counts.add(statement)
    statements = counts.statements
    if any(last_name(it.decorator) == "overload" for it in node.decorators):
        statements = min(statements, 1)
    names = [*classes, node.name.value]
    return Symbol(
        path=path,
        qualname=".".join(names),
        kind="method" if classes else "function",
        flavour=_flavour(is_async=node.asynchronous is not None, yields=counts.yields),
        line=layout.line(start),
        span=Span(start=start, end=max(body.end, layout.end(parts.first))),
        body=body,
        signature=layout.text(head, colon + 1),
        docstring=_docstring(parts.docstring),
        docstring_span=_span(layout, parts.docstring),
        decorators=decorators,
        body_lines=_code_lines(layout.source[body.start : body.end]),
        statements=statements,
        complexity=counts.branches + 1,
        public=not any(_private(name) for name in names),
        forwards=forwards(node.params, parts.statements),
    )


def decorated_start(layout: Layout, node: cst.CSTNode) -> int:
    """Decorators included; libcst's own positions leave them out."""
    if isinstance(node, (cst.FunctionDef, cst.ClassDef)) and node.decorators:
        return layout.start(node.decorators[0])
    return layout.start(node)


def _private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__") and len(name) > 4)


def _flavour(
    *, is_async: bool, yields: bool
) -> Literal["plain", "generator", "coroutine", "async_generator"]:
    if is_async:
        return "async_generator" if yields else "coroutine"
    return "generator" if yields else "plain"


def last_name(decorator: cst.BaseExpression) -> str:
    """``overload`` of ``typing.overload``; empty for what is neither a name nor an attribute."""
    if isinstance(decorator, cst.Attribute):
        return decorator.attr.value
    return decorator.value if isinstance(decorator, cst.Name) else ""


def _take_apart(block: cst.BaseSuite) -> _Parts:
    first = block.body[0]
    if isinstance(block, cst.IndentedBlock) and not isinstance(first, cst.SimpleStatementLine):
        return _Parts(first, None, block.body)
    # A one-line block, or a first line of one or more small statements.
    small: Sequence[cst.CSTNode]
    rest: Sequence[cst.CSTNode]
    if isinstance(first, cst.SimpleStatementLine):
        small, rest = first.body, block.body[1:]
    else:
        small, rest = block.body, ()
    head = small[0]
    if isinstance(head, cst.Expr) and _is_docstring(head.value):
        return _Parts(head, head, [*small[1:], *rest])
    return _Parts(head, None, [*small, *rest])


def _is_docstring(value: cst.BaseExpression) -> bool:
    if isinstance(value, cst.SimpleString):
        return "b" not in value.prefix.lower() and "t" not in value.prefix.lower()
    if isinstance(value, cst.ConcatenatedString):
        return _is_docstring(value.left) and _is_docstring(value.right)
    return False


def _docstring(statement: cst.Expr | None) -> str:
    if statement is None or not isinstance(statement.value, (cst.SimpleString, cst.ConcatenatedString)):
        return ""
    with warnings.catch_warnings():
        # A doubtful escape in somebody's docstring is not ours to report.
        warnings.simplefilter("ignore")
        value = statement.value.evaluated_value
    # A lone surrogate can be spelled in a literal and can be held by no JSON.
    return inspect.cleandoc(value).encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def class_head(layout: Layout, node: cst.ClassDef) -> tuple[str, str]:
    """A class as a solver may see it: its decorators and head up to the colon, and its docstring."""
    parts = _take_apart(node.body)
    start = decorated_start(layout, node)
    return layout.text(start, _colon(layout, node, parts.first) + 1), _docstring(parts.docstring)


def _span(layout: Layout, node: cst.CSTNode | None) -> Span | None:
    return Span(start=layout.start(node), end=layout.end(node)) if node is not None else None


def _colon(layout: Layout, node: cst.FunctionDef | cst.ClassDef, first: cst.CSTNode) -> int:
    """Offset of the colon that ends the head, found backwards from the first statement."""
    if isinstance(node.body, cst.IndentedBlock):
        line = layout.line(decorated_start(layout, first)) - 1
        while line > 1 and _is_idle(layout.line_bytes(line)):
            line -= 1
        header = node.body.header
        tail = header.whitespace.value + (header.comment.value if header.comment else "")
        end = layout.line_start(line) + len(layout.line_bytes(line))
    else:
        end = decorated_start(layout, first)
        tail = node.body.leading_whitespace.value if isinstance(node.body, cst.SimpleStatementSuite) else ""
    colon = end - len(tail.encode(layout.encoding)) - 1
    if layout.source[colon : colon + 1] != b":":
        raise SkippedFile("layout_unclear", f"the end of the signature of {node.name.value} cannot be found")
    return colon


def _body_span(layout: Layout, node: cst.FunctionDef, parts: _Parts, colon: int) -> Span:
    """The statements, with the comments that stand among, before and after them: those too tell the answer."""
    if not parts.statements:
        end = layout.end(parts.first)
        return Span(start=end, end=end)
    first, last = parts.statements[0], parts.statements[-1]
    start = decorated_start(layout, first)
    end = layout.end(last)
    if not isinstance(node.body, cst.IndentedBlock):
        return Span(start=start, end=end)
    line = layout.line(start)
    before = layout.source[layout.line_start(line) : start]
    bound = layout.line(layout.end(parts.docstring) if parts.docstring else colon)
    if not before.strip():
        start = _comments_above(layout, line, bound, start)
    return Span(start=start, end=_comments_after(layout, end, before if not before.strip() else None))


def _is_idle(line: bytes) -> bool:
    """Blank or only a comment."""
    text = line.strip()
    return not text or text.startswith(b"#")


def _comments_above(layout: Layout, line: int, bound: int, start: int) -> int:
    """The start of the first comment line between ``bound`` and ``line``, or ``start`` when there is none."""
    for above in range(line - 1, bound, -1):
        text = layout.line_bytes(above)
        if not _is_idle(text):
            break
        if text.strip():
            start = layout.line_start(above)
    return start


def _comments_after(layout: Layout, end: int, indent: bytes | None) -> int:
    """The end of the last comment that belongs to the block: on its last line, or below it and not dedented."""
    line = layout.line(end)
    line_end = layout.line_start(line) + len(layout.line_bytes(line))
    if layout.source[end:line_end].lstrip(b" \t\f;").startswith(b"#"):
        end = line_end
    for below in range(line + 1, layout.lines + 1):
        text = layout.line_bytes(below)
        if not _is_idle(text):
            break
        if text.strip():
            if not indent or not text.startswith(indent):
                break
            end = layout.line_start(below) + len(text)
    return end


def _code_lines(body: bytes) -> int:
    return sum(not _is_idle(line) for line in body.splitlines())


@cache
def _traits(kind: type[cst.CSTNode]) -> tuple[bool, bool, bool]:
    """Whether nodes of a kind are statements, branches, scopes."""
    return (
        issubclass(kind, (cst.BaseSmallStatement, cst.BaseCompoundStatement)),
        issubclass(kind, _BRANCHES),
        issubclass(kind, (cst.FunctionDef, cst.Lambda, cst.ClassDef)),
    )


class _Counter:
    """Statements and branches of a body, and whether it yields in its own scope."""

    def __init__(self) -> None:
        self.statements = 0
        self.branches = 0
        self.yields = False

    def add(self, node: cst.CSTNode, *, inner: bool = False) -> None:
        is_statement, is_branch, is_scope = _traits(type(node))
        self.statements += is_statement
        self.branches += is_branch
        inner = inner or is_scope
        if isinstance(node, cst.Yield) and not inner:
            self.yields = True
        for child in children(node):
            self.add(child, inner=inner)
