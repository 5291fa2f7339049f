"""Texts that code makes, without the code: the words of a message, with a gap where a value goes."""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from typing_extensions import override

__all__ = ["GAP", "Format", "formats_in", "last_name", "numbers_in", "raised_in"]

GAP: Final = "\N{HORIZONTAL ELLIPSIS}"
_PERCENT = re.compile(r"%(?:\(\w+\))?[-#0 +]*(?:\d+|\*)?(?:\.(?:\d+|\*))?[sdriufFeEgGxXoac]|%%")


@dataclass(frozen=True)
class Format:
    """A text, None standing for a value that is only known when it is made. Bytes are read as Latin-1."""

    parts: tuple[str | None, ...]
    binary: bool = False

    @property
    def text(self) -> str:
        """For people: gaps are shown as an ellipsis."""
        return "".join(GAP if part is None else part for part in self.parts)

    @property
    def exact(self) -> bool:
        return None not in self.parts

    @property
    def letters(self) -> int:
        """How much of it is words rather than values and marks."""
        return sum(char.isalnum() for part in self.parts if part for char in part)

    @property
    def longest(self) -> int:
        """Characters of its longest part between values, blanks at its ends apart."""
        return max((len(part.strip()) for part in self.parts if part), default=0)

    @property
    def marks(self) -> bool:
        """Whether there is anything in it but gaps and blanks."""
        return any(part and part.strip() for part in self.parts)

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile("".join(".*?" if part is None else re.escape(part) for part in self.parts), re.DOTALL)

    @property
    def words(self) -> frozenset[str]:
        return frozenset(word for part in self.parts if part for word in re.findall(r"[^\W\d_]{2,}", part.lower()))


def last_name(node: ast.expr | None) -> str:
    """``c`` of ``a.b.c``; empty for anything but names and attributes."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def formats_in(nodes: Iterable[ast.AST]) -> tuple[Format, ...]:
    """Every text that the code of ``nodes`` holds, docstrings apart, each once."""
    found: dict[Format, None] = {}
    for node in nodes:
        collector = _Collector()
        collector.visit(node)
        found.update(dict.fromkeys(collector.found))
    return tuple(found)


def numbers_in(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """Numbers that nobody would guess, as Python writes them: three digits or more, or a fraction."""
    found: set[str] = set()
    for node in nodes:
        for it in ast.walk(node):
            if isinstance(it, ast.Constant) and not isinstance(it.value, (bool, complex)):
                value = it.value
                if isinstance(value, (int, float)) and (abs(value) >= 100 or value != int(value)):
                    found.add(repr(value))
    return frozenset(found)


def raised_in(nodes: Iterable[ast.AST]) -> dict[str, tuple[Format, ...]]:
    """Class of error -> its messages, of every raise and every warning that ``nodes`` spell out."""
    found: dict[str, dict[Format, None]] = {}
    for node in nodes:
        for it in ast.walk(node):
            name, told = _raised(it)
            if name[:1].isupper():
                found.setdefault(name, {}).update(dict.fromkeys(formats_in(told)))
    return {name: tuple(formats) for name, formats in found.items()}


def _raised(node: ast.AST) -> tuple[str, Sequence[ast.expr]]:
    if isinstance(node, ast.Raise):
        if isinstance(node.exc, ast.Call):
            return last_name(node.exc.func), [*node.exc.args, *(it.value for it in node.exc.keywords)]
        return last_name(node.exc), ()
    if isinstance(node, ast.Call) and last_name(node.func) == "warn" and node.args:
        kinds = [*node.args[1:2], *(it.value for it in node.keywords if it.arg == "category")]
        return next((last_name(it) for it in kinds), "UserWarning"), node.args[:1]
    return "", ()


class _Collector(ast.NodeVisitor):
    def __init__(self) -> None:
        self.found: list[Format] = []

    @override
    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            # Annotations are part of the head, which is told; a quoted one is no text.
            for it in [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults), *node.body]:
                self.visit(it)
            return
        if isinstance(node, ast.AnnAssign):
            if node.value:
                self.visit(node.value)
            return
        parts = _parts(node) if isinstance(node, ast.expr) else None
        if parts is None:
            self.generic_visit(node)
            return
        if any(parts):
            binary = any(isinstance(it, ast.Constant) and isinstance(it.value, bytes) for it in ast.walk(node))
            self.found.append(Format(tuple(_joined(parts)), binary))
        for inner in _values(node):
            self.visit(inner)


def _joined(parts: Iterable[str | None]) -> Iterator[str | None]:
    """Texts that touch become one."""
    text = ""
    for part in parts:
        if part is None:
            if text:
                yield text
            text = ""
            yield None
        else:
            text += part
    if text:
        yield text


def _parts(node: ast.expr) -> list[str | None] | None:
    """A text taken apart; None when it is no text by its look."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bytes):
            return [node.value.decode("latin-1")]
        return [node.value] if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return [it.value if isinstance(it, ast.Constant) and isinstance(it.value, str) else None for it in node.values]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _parts(node.left), _parts(node.right)
        return None if left is None and right is None else [*(left or [None]), *(right or [None])]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        left = _parts(node.left)
        return None if left is None else [it for part in left for it in (_percent(part) if part else [part])]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        inner = _parts(node.func.value)
        return None if inner is None else [it for part in inner for it in (_braces(part) if part else [part])]
    return None


def _values(node: ast.AST) -> Iterator[ast.AST]:
    """What goes into the gaps of a text: it may hold texts of its own."""
    if isinstance(node, ast.JoinedStr):
        yield from (it.value for it in node.values if isinstance(it, ast.FormattedValue))
    elif isinstance(node, ast.BinOp):
        yield from (it for it in (node.left, node.right) if _parts(it) is None)
        if isinstance(node.op, ast.Mod) and _parts(node.right) is not None:
            yield node.right
    elif isinstance(node, ast.Call):
        yield from [*node.args, *(it.value for it in node.keywords)]


def _percent(text: str) -> list[str | None]:
    parts: list[str | None] = []
    at = 0
    for found in _PERCENT.finditer(text):
        parts += [text[at : found.start()], "%" if found[0] == "%%" else None]
        at = found.end()
    return [*parts, text[at:]]


def _braces(text: str) -> list[str | None]:
    try:
        fields = list(string.Formatter().parse(text))
    except ValueError:
        return [text]
    return [part for literal, name, _, _ in fields for part in ([literal] if name is None else [literal, None])]
