"""Texts that tests compare: what ``repr`` of something is to be, and pieces that are looked for in a text."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from taskforge.generate.statement_formats import Format, last_name
from taskforge.generate.statement_uses import Use, literal_runs

__all__ = ["compares_in", "may_come_of"]

_MAKES: Final = frozenset({"repr", "str", "format", "ascii"})
_DUNDERS: Final = frozenset({"__repr__", "__str__", "__format__"})
_SEEKS: Final = frozenset({"startswith", "endswith", "find", "rfind", "index", "rindex", "count"})
_ASSERTS: Final = frozenset({"assertIn", "assertNotIn"})
_REGEX: Final = frozenset({"search", "match", "fullmatch", "findall", "finditer"})
_ASSERT_REGEX: Final = frozenset({"assertRegex", "assertNotRegex", "assertRegexpMatches"})
_EQUAL: Final = frozenset({"assertEqual", "assertEquals", "assertMultiLineEqual"})
#: Characters kept of the expression whose text is told.
_WIDTH: Final = 120
#: What a piece has to have in common with a text to be of it: characters, and letters or digits among them.
_SHARED, _LETTERS = 4, 3


def compares_in(parts: Sequence[tuple[str, ast.AST]]) -> list[Use]:
    """Uses of kind ``shown`` (a whole text, or a piece of one, that is made of an object) and ``piece`` (a text that is
    looked for in another), each once.

    Args:
        parts: of one test file, with their places.
    """
    found: dict[Use, None] = {}
    for where, part in parts:
        local = _Local(part)
        for node in ast.walk(part):
            found.update(dict.fromkeys(_uses(node, where, local)))
    return list(found)


def may_come_of(piece: str, text: Format) -> bool:
    """Whether a text that ``text`` makes may hold ``piece``, by a run of characters that is evidence."""
    for at, part in enumerate(text.parts):
        if part is None:
            continue
        if _tells(piece) and piece in part:
            return True
        if _tells(part) and part in piece:
            return True
        ends = at + 1 < len(text.parts)
        begins = at > 0
        for size in range(min(len(part), len(piece)), _SHARED - 1, -1):
            head, tail = part[:size], part[-size:]
            if (ends and piece.startswith(tail) and _tells(tail)) or (begins and piece.endswith(head) and _tells(head)):
                return True
    return False


def _tells(text: str) -> bool:
    return len(text.strip()) >= _SHARED and sum(char.isalnum() for char in text) >= _LETTERS


class _Local:
    """What a part of a test file binds its names to."""

    def __init__(self, part: ast.AST) -> None:
        self._bound: dict[str, list[tuple[int, ast.expr]]] = {}
        for node in ast.walk(part):
            for name, value in _bound(node):
                self._bound.setdefault(name, []).append((value.lineno, value))

    def texts(self, node: ast.expr) -> list[str]:
        """The literal texts that an expression may be."""
        if isinstance(node, ast.Name):
            found = [it for _, value in self._bound.get(node.id, ()) for it in ast.walk(value)]
        else:
            found = [node] if isinstance(node, ast.Constant) else []
        return [it.value for it in found if isinstance(it, ast.Constant) and isinstance(it.value, str)]

    def value(self, node: ast.expr) -> ast.expr:
        """What a name stands for where it is read: the last thing above that it was bound to."""
        if isinstance(node, ast.Name):
            above = [value for line, value in self._bound.get(node.id, ()) if line < node.lineno]
            return above[-1] if above else node
        return node

    def names(self, node: ast.expr) -> frozenset[str]:
        """Names in an expression, and in what its names stand for."""
        whole = [node, *(self.value(it) for it in ast.walk(node) if isinstance(it, ast.Name))]
        return frozenset(last_name(it) for one in whole for it in ast.walk(one) if isinstance(it, ast.expr)) - {""}


def _bound(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.Assign):
        yield from ((it.id, node.value) for it in node.targets if isinstance(it, ast.Name))
    elif isinstance(node, (ast.For, ast.comprehension)):
        yield from ((it.id, node.iter) for it in ast.walk(node.target) if isinstance(it, ast.Name))
    elif isinstance(node, ast.With):
        for item in node.items:
            if isinstance(item.optional_vars, ast.Name):
                yield item.optional_vars.id, item.context_expr
    elif isinstance(node, ast.ExceptHandler) and node.name and node.type is not None:
        yield node.name, node.type
    elif isinstance(node, ast.Call) and last_name(node.func) == "parametrize" and len(node.args) > 1:
        told = node.args[0]
        for it in ast.walk(told):
            if isinstance(it, ast.Constant) and isinstance(it.value, str):
                yield from ((name, node.args[1]) for name in re.findall(r"\w+", it.value))


def _uses(node: ast.AST, where: str, local: _Local) -> Iterator[Use]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right, op = node.left, node.comparators[0], node.ops[0]
        if isinstance(op, ast.Eq):
            yield from _shown(left, right, "is", where, local)
            yield from _shown(right, left, "is", where, local)
        elif isinstance(op, (ast.In, ast.NotIn)):
            yield from _sought([left], right, where, local, told=isinstance(op, ast.In))
    elif isinstance(node, ast.Call):
        name = last_name(node.func)
        of = node.func.value if isinstance(node.func, ast.Attribute) else None
        if name in _EQUAL and len(node.args) > 1:
            yield from _shown(node.args[0], node.args[1], "is", where, local)
            yield from _shown(node.args[1], node.args[0], "is", where, local)
        elif name in _ASSERTS and len(node.args) > 1:
            yield from _sought(node.args[:1], node.args[1], where, local, told=name == "assertIn")
        elif name in _SEEKS and of is not None:
            texts = [it for arg in node.args[:1] for it in (arg.elts if isinstance(arg, ast.Tuple) else [arg])]
            yield from _sought(texts, of, where, local, told=name in ("startswith", "endswith"))
        elif (name in _REGEX and of is not None) or name in _ASSERT_REGEX:
            regexes = node.args[1:2] if name in _ASSERT_REGEX else [*node.args[:1], *([local.value(of)] if of else [])]
            yield from (Use("piece", it, where) for arg in regexes for it in _runs(arg, local.texts))


def _runs(node: ast.expr, texts: Callable[[ast.expr], list[str]]) -> Iterator[str]:
    if isinstance(node, ast.Call) and last_name(node.func) == "compile":
        node = node.args[0] if node.args else node
    yield from (run for text in texts(node) for run in literal_runs(text))


def _sought(pieces: Sequence[ast.expr], text: ast.expr, where: str, local: _Local, *, told: bool) -> Iterator[Use]:
    for piece in pieces:
        yield from (Use("piece", it, where) for it in local.texts(piece))
        if told:
            yield from _shown(text, piece, "holds", where, local)


def _shown(made: ast.expr, text: ast.expr, verb: str, where: str, local: _Local) -> Iterator[Use]:
    """A use, when ``made`` is a text made of objects and ``text`` is a literal one."""
    made = local.value(made)
    if (objects := _objects(made)) and (texts := local.texts(text)):
        names = frozenset(name for it in objects for name in local.names(it))
        whole = ast.unparse(made)
        if len(objects) == 1 and isinstance(objects[0], ast.Name) and _is_value(inner := local.value(objects[0])):
            whole = re.sub(rf"\b{objects[0].id}\b", lambda _: ast.unparse(inner), whole, count=1)
        yield from (Use("shown", it, where, f"{whole[:_WIDTH]}\0{verb}", names) for it in texts)


def _is_value(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) not in {"raises", "assertRaises", "warns"}


def _objects(node: ast.expr) -> list[ast.expr]:
    """The objects that a text is made of by ``repr``, ``str`` or formatting; none for anything else."""
    if isinstance(node, ast.JoinedStr):
        return [it.value for it in node.values if isinstance(it, ast.FormattedValue)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant):
        return list(node.right.elts) if isinstance(node.right, ast.Tuple) else [node.right]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _MAKES:
        return node.args[:1]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in _DUNDERS:
            return node.args[:1] if last_name(node.func.value) == "object" else [node.func.value]
        if node.func.attr == "format" and isinstance(node.func.value, ast.Constant):
            return list(node.args)
    return []
