"""The names of a module and of its classes, and the statements that give them their values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import libcst as cst

from taskforge.languages.python.index import class_head, decorated_start, last_name
from taskforge.languages.python.layout import Layout
from taskforge.languages.python.project.parts import Binding, BindingKind, Module, Node, Origin
from taskforge.languages.python.syntax import dotted, suites, targets
from taskforge.model import Symbol

__all__ = ["import_origin", "read_bindings"]

_REGISTER = "register"


def read_bindings(module: Module, layout: Layout, symbols: Iterable[Symbol]) -> None:
    """Fill in ``module``'s names, with those of its classes."""
    _Reader(module, layout, {it.span.start: it for it in symbols}).block(layout.module.body, None)


def import_origin(statement: cst.ImportFrom, name: str | None) -> Origin:
    """Of ``from … import name``."""
    parts = dotted(statement.module) if statement.module else ()
    return Origin(len(statement.relative), ".".join(parts), name)


class _Reader:
    def __init__(self, module: Module, layout: Layout, symbols: dict[int, Symbol]) -> None:
        self._module = module
        self._layout = layout
        self._symbols = symbols

    def block(self, body: Iterable[cst.CSTNode], scope: Node | None) -> None:
        """One scope; what is attached to names is sorted out when all of them are known."""
        later: list[tuple[cst.CSTNode, str]] = []
        self._statements(body, scope, later)
        names = scope.members if scope else self._module.nodes
        for statement, name in later:
            node = names.get(name)
            if node is not None and node.is_defined:
                node.bindings.append(self._binding("attach", statement))
                node.bindings.sort(key=lambda it: it.start)
        self._register(names)

    def _register(self, names: dict[str, Node]) -> None:
        """Give functions decorated with ``@host.register`` to their host; a plain ``_`` is shared by several hosts."""
        for node in list(names.values()):
            for binding in list(node.bindings):
                host = next((names.get(it) for it in map(_host, binding.decorators) if it), None)
                if host is None or not host.is_function or (host is node and node.name != "_"):
                    continue
                node.bindings.remove(binding)
                guest = Node(self._module, node.scope, node.name, [binding], host=host)
                guest.symbols = [it for it in node.symbols if it.span.start == binding.start]
                node.symbols = [it for it in node.symbols if it.span.start != binding.start]
                host.guests.append(guest)
            if not node.bindings:
                del names[node.name]

    def _statements(
        self, body: Iterable[cst.CSTNode], scope: Node | None, later: list[tuple[cst.CSTNode, str]]
    ) -> None:
        for statement in body:
            if isinstance(statement, cst.SimpleStatementLine):
                for small in statement.body:
                    self._small(small, scope, later)
            elif isinstance(statement, cst.FunctionDef):
                node = self._bind(statement.name.value, "function", statement, scope)
                start = decorated_start(self._layout, statement)
                node.symbols += [self._symbols[start]] if start in self._symbols else []
            elif isinstance(statement, cst.ClassDef):
                self._class(statement, scope)
            elif isinstance(statement, cst.BaseSmallStatement):
                self._small(statement, scope, later)
            else:
                self._compound(statement, scope, later)

    def _compound(
        self, statement: cst.CSTNode, scope: Node | None, later: list[tuple[cst.CSTNode, str]]
    ) -> None:
        if isinstance(statement, cst.For):
            self._bind_all(statement.target, "other", statement, scope)
        elif isinstance(statement, cst.With):
            for item in statement.items:
                if item.asname is not None:
                    self._bind_all(item.asname.name, "other", statement, scope)
        for suite in suites(statement):
            self._statements(suite.body, scope, later)

    def _class(self, statement: cst.ClassDef, scope: Node | None) -> None:
        node = self._bind(statement.name.value, "class", statement, scope)
        node.bases += [dotted(it.value) for it in statement.bases if not it.star]
        node.class_decorated = node.class_decorated or bool(statement.decorators)
        head, docstring = class_head(self._layout, statement)
        node.head = node.head or head
        node.docstring = node.docstring or docstring
        self.block(statement.body.body, node)

    def _small(
        self, small: cst.CSTNode, scope: Node | None, later: list[tuple[cst.CSTNode, str]]
    ) -> None:
        if isinstance(small, cst.Assign):
            if len(small.targets) == 1 and isinstance(small.targets[0].target, cst.Name):
                node = self._bind(small.targets[0].target.value, "assign", small, scope)
                if isinstance(small.value, cst.Call):
                    node.called_with = last_name(small.value.func)
                return
            owners = {dotted(it.target)[0] for it in small.targets if len(dotted(it.target)) > 1}
            if len(owners) == 1 and all(len(dotted(it.target)) > 1 for it in small.targets):
                later.append((small, owners.pop()))
            for target in small.targets:
                self._bind_all(target.target, "other", small, scope)
        elif isinstance(small, (cst.AnnAssign, cst.AugAssign)) and isinstance(small.target, cst.Name):
            node = self._bind(small.target.value, "assign", small, scope)
            node.annotated = node.annotated or isinstance(small, cst.AnnAssign)
        elif isinstance(small, cst.TypeAlias):
            self._bind(small.name.value, "assign", small, scope)
        elif isinstance(small, cst.Expr) and isinstance(small.value, cst.Call):
            path = dotted(small.value.func)
            if len(path) > 1:
                later.append((small, path[0]))
        elif isinstance(small, cst.Import):
            self._import(small, scope)
        elif isinstance(small, cst.ImportFrom):
            self._from(small, scope)

    def _import(self, small: cst.Import, scope: Node | None) -> None:
        for alias in small.names:
            path = dotted(alias.name)
            name = _asname(alias) or path[0]
            origin = Origin(0, ".".join(path) if alias.asname else path[0], None)
            self._bind_import(name, small, alias, origin, scope)

    def _from(self, small: cst.ImportFrom, scope: Node | None) -> None:
        if isinstance(small.names, cst.ImportStar):
            if scope is None:
                span = (self._layout.start(small), self._layout.end(small))
                self._module.stars.append((*span, import_origin(small, None)))
            return
        for alias in small.names:
            source = dotted(alias.name)[0]
            name = _asname(alias) or source
            self._bind_import(name, small, alias, import_origin(small, source), scope)

    def _bind_import(
        self,
        name: str,
        small: cst.Import | cst.ImportFrom,
        alias: cst.ImportAlias,
        origin: Origin,
        scope: Node | None,
    ) -> None:
        node = self._bind(name, "import", small, scope)
        start = self._layout.start(alias)
        explicit = alias.asname is not None and _asname(alias) == ".".join(dotted(alias.name))
        node.bindings[-1] = replace(
            node.bindings[-1], origin=origin, alias=start, alias_end=self._layout.end(alias), explicit=explicit
        )

    def _bind_all(self, target: cst.CSTNode, kind: BindingKind, statement: cst.CSTNode, scope: Node | None) -> None:
        for name in targets(target):
            self._bind(name.value, kind, statement, scope)

    def _bind(
        self, name: str, kind: BindingKind, statement: cst.CSTNode, scope: Node | None
    ) -> Node:
        names = scope.members if scope else self._module.nodes
        node = names.setdefault(name, Node(self._module, scope, name))
        node.bindings.append(self._binding(kind, statement))
        return node

    def _binding(self, kind: BindingKind, statement: cst.CSTNode) -> Binding:
        start = decorated_start(self._layout, statement)
        decorators: tuple[str, ...] = ()
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            decorators = tuple(_path_of(it.decorator) for it in statement.decorators)
        binding = Binding(kind, start, self._layout.end(statement), self._layout.line(start), decorators=decorators)
        if isinstance(statement, cst.FunctionDef):
            binding.autouse = any(_is_autouse(it.decorator) for it in statement.decorators)
        return binding


def _asname(alias: cst.ImportAlias) -> str:
    return alias.asname.name.value if alias.asname and isinstance(alias.asname.name, cst.Name) else ""


def _path_of(decorator: cst.BaseExpression) -> str:
    """``a.b`` of ``@a.b`` and of ``@a.b(1)``; the last name of what is no dotted name."""
    if isinstance(decorator, cst.Call):
        decorator = decorator.func
    return ".".join(dotted(decorator)) or last_name(decorator)


def _is_autouse(decorator: cst.BaseExpression) -> bool:
    if not isinstance(decorator, cst.Call):
        return False
    return any(it.keyword and it.keyword.value == "autouse" and dotted(it.value) != ("False",) for it in decorator.args)


def _host(decorator: str) -> str:
    """``f`` of ``f.register``."""
    first, _, last = decorator.rpartition(".")
    return first if last == _REGISTER and "." not in first else ""
