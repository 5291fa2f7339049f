"""Where a reader of code stands, and how it notes what is used there."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import libcst as cst

from taskforge.languages.python.layout import Layout
from taskforge.languages.python.project.parts import Module, Ref, Role, When
from taskforge.languages.python.project.scopes import Scopes
from taskforge.languages.python.syntax import children

__all__ = ["Places"]

_WORD: Final = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
#: Text that may be a name, a dotted name, an entry point or an annotation; prose is none of these.
_TELLING: Final = re.compile(r"[\w.\[\]|:]+(?:(?:, ?| \| )[\w.\[\]|:]+)*")
_LONGEST: Final = 200


class Places:
    """Walks expressions and notes names, attributes and strings; its heirs know statements."""

    def __init__(self, module: Module, layout: Layout) -> None:
        self._module = module
        self._layout = layout
        self._scopes = Scopes(module.nodes)
        self._when: When = "import"
        self._role: Role = "value"
        self._in_annotation = False
        self._handlers: dict[type[cst.CSTNode], Callable[[Any], None]] = {
            cst.Name: lambda node: self._name(node, ()),
            cst.Attribute: self._attribute,
            cst.SimpleString: self._string,
            cst.ConcatenatedString: self._string,
        }

    def visit(self, node: cst.CSTNode) -> None:
        handler = self._handlers.get(type(node))
        if handler is not None:
            handler(node)
        else:
            for child in children(node):
                self.visit(child)

    def _children(self, node: cst.CSTNode, *, skip: str) -> None:
        passed = getattr(node, skip)
        for child in children(node):
            if child is not passed:
                self.visit(child)

    @contextmanager
    def _during(self, when: When | None = None, role: Role | None = None) -> Iterator[None]:
        before = self._when, self._role
        # What is never evaluated holds nothing that is.
        self._when = when if when is not None and self._when != "never" else self._when
        self._role = role or self._role
        yield
        self._when, self._role = before

    def _as(self, role: Role, node: cst.CSTNode | None) -> None:
        if node is not None:
            with self._during(role=role):
                self.visit(node)

    def _add(self, node: cst.CSTNode, names: tuple[str, ...], **more: Any) -> None:
        depth = self._scopes.depth
        start = self._layout.start(node)
        self._module.refs.append(Ref(self._module, start, names, self._when, self._role, depth=depth, **more))

    def _name(self, root: cst.Name, names: tuple[str, ...]) -> None:
        found = self._scopes.look_up(root.value)
        if found.where == "module":
            self._add(root, (root.value, *names))
        elif found.where == "member":
            self._add(root, (root.value, *names), scope=found.scope)
        elif found.where == "import":
            self._add(root, (root.value, *names), origin=found.origin)
        else:
            owner = self._scopes.class_node if found.receiver else None
            if self._role == "call" and not names:
                self._module.local_calls.append((self._layout.start(root), self._scopes.depth))
            for position, name in enumerate(names):
                self._add(root, (name,), doubtful=True, scope=owner if position == 0 else None)

    def _attribute(self, node: cst.Attribute) -> None:
        names: list[str] = []
        inner: cst.BaseExpression = node
        while isinstance(inner, cst.Attribute):
            names.append(inner.attr.value)
            inner = inner.value
        names.reverse()
        if isinstance(inner, cst.Name):
            self._name(inner, tuple(names))
            return
        owner = self._scopes.class_node if _is_super(inner) else None
        self._as("value", inner) if not isinstance(inner, cst.Call) else self.visit(inner)
        for position, name in enumerate(names):
            self._add(node, (name,), doubtful=True, scope=owner if position == 0 else None)

    def _string(self, node: cst.SimpleString | cst.ConcatenatedString) -> None:
        if isinstance(node, cst.ConcatenatedString):
            self.visit(node.left)
            self.visit(node.right)
            return
        if "b" in node.prefix.lower():
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = node.evaluated_value
        if not isinstance(value, str) or not 0 < len(value) <= _LONGEST or not _TELLING.fullmatch(value):
            return
        if self._in_annotation:
            for found in _WORD.finditer(value):
                self._add(node, tuple(found[0].split(".")))
            return
        self._module.refs.append(
            Ref(self._module, self._layout.start(node), (value,), self._when, "string", doubtful=True)
        )


def _is_super(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "super"
