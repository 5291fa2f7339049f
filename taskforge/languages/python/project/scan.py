"""Every place of a module that may use a name, and whether it does so while modules are imported."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import libcst as cst

from taskforge.languages.python.index import last_name
from taskforge.languages.python.layout import Layout
from taskforge.languages.python.project.bindings import import_origin
from taskforge.languages.python.project.parts import Module, Node, Origin, Ref, When
from taskforge.languages.python.project.places import Places
from taskforge.languages.python.project.questions import (
    awaits_import_error,
    has_future,
    is_blind,
    is_main,
    reads_annotations,
)
from taskforge.languages.python.project.scopes import Scope
from taskforge.languages.python.syntax import (
    bound_names,
    children,
    dotted,
    is_string,
    local_names,
    parameters,
    targets,
)

__all__ = ["scan"]



def scan(module: Module, layout: Layout) -> None:
    """Fill in ``module.refs`` and ``module.imported``; its names must have been read."""
    scanner = _Scanner(module, layout)
    scanner.visit(layout.module)
    module.refs.sort(key=lambda it: it.at)


class _Scanner(Places):
    def __init__(self, module: Module, layout: Layout) -> None:
        super().__init__(module, layout)
        self._deferred = has_future(layout.module)
        self._guarded = False
        self._handlers |= {
            cst.Call: self._call,
            cst.Arg: lambda node: self._as("value", node.value),
            cst.FunctionDef: self._function,
            cst.Lambda: self._lambda,
            cst.ClassDef: self._class,
            cst.ListComp: self._comprehension,
            cst.SetComp: self._comprehension,
            cst.DictComp: self._comprehension,
            cst.GeneratorExp: self._comprehension,
            cst.Import: self._import,
            cst.ImportFrom: self._from,
            cst.Assign: self._assign,
            cst.AugAssign: self._augmented,
            cst.AnnAssign: self._annotated,
            cst.Annotation: self._annotation,
            cst.If: self._if,
            cst.Try: self._try,
            cst.TryStar: self._try,
            cst.Expr: self._expression,
            cst.For: self._for,
            cst.AsName: lambda node: self._target(node.name),
            cst.Global: lambda _node: None,
            cst.Nonlocal: lambda _node: None,
            cst.MatchAs: lambda node: self._children(node, skip="name"),
            cst.MatchStar: lambda _node: None,
            cst.MatchMapping: lambda node: self._children(node, skip="rest"),
            cst.MatchKeywordElement: lambda node: self._children(node, skip="key"),
            cst.TypeAlias: lambda node: self._children(node, skip="name"),
            cst.TypeVar: lambda node: self._children(node, skip="name"),
            cst.TypeVarTuple: lambda node: self._children(node, skip="name"),
            cst.ParamSpec: lambda node: self._children(node, skip="name"),
        }

    def _call(self, node: cst.Call) -> None:
        # ``@make(1)`` calls what ``make`` gives back, too.
        self._as("factory" if self._role == "decorator" else "call", node.func)
        for argument in node.args:
            self._as("value", argument.value)

    def _function(self, node: cst.FunctionDef) -> None:
        for decorator in node.decorators:
            self._as("decorator", decorator.decorator)
        self._defaults(node.params)
        generic = {it.param.name.value for it in node.type_parameters.params} if node.type_parameters else set()
        with self._generic(node.type_parameters, generic):
            # A decorator may read annotations that nobody else evaluates.
            self._annotations(node, read=not all(map(is_blind, node.decorators)))
        scope = Scope(local_names(node) | generic, is_function=True)
        first = next(parameters(node.params), None)
        static = any(last_name(it.decorator) == "staticmethod" for it in node.decorators)
        if self._scopes.stack and self._scopes.stack[-1].is_class and first is not None and not static:
            scope.receiver = first.name.value
        for parameter in parameters(node.params):
            # Test runners look a parameter's name up among fixtures.
            self._module.refs.append(
                Ref(self._module, self._layout.start(parameter), (parameter.name.value,), "call", "parameter",
                    doubtful=True)
            )  # fmt: skip
        self._scopes.stack.append(scope)
        with self._during("call", "value"):
            self.visit(node.body)
        self._scopes.stack.pop()

    @contextmanager
    def _generic(self, node: cst.TypeParameters | None, names: set[str]) -> Iterator[None]:
        if node is None:
            yield
            return
        self._scopes.stack.append(Scope(names))
        self.visit(node)
        yield
        self._scopes.stack.pop()

    def _annotations(self, node: cst.FunctionDef, *, read: bool) -> None:
        for parameter in parameters(node.params):
            self._annotation(parameter.annotation, read=read)
        self._annotation(node.returns, read=read)

    def _annotation(self, node: cst.Annotation | None, *, read: bool = False) -> None:
        if node is None:
            return
        when: When = "never" if self._deferred and not read else self._when
        before, self._in_annotation = self._in_annotation, True
        with self._during(when, "annotation"):
            self.visit(node.annotation)
        self._in_annotation = before

    def _defaults(self, params: cst.Parameters) -> None:
        for parameter in parameters(params):
            self._as("value", parameter.default)

    def _lambda(self, node: cst.Lambda) -> None:
        self._defaults(node.params)
        self._scopes.stack.append(Scope(local_names(node), is_function=True))
        with self._during("call", "value"):
            self.visit(node.body)
        self._scopes.stack.pop()

    def _class(self, node: cst.ClassDef) -> None:
        for decorator in node.decorators:
            self._as("decorator", decorator.decorator)
        generic = {it.param.name.value for it in node.type_parameters.params} if node.type_parameters else set()
        with self._generic(node.type_parameters, generic):
            for argument in (*node.bases, *node.keywords):
                self._as("base", argument.value)
        names: set[str] = set()
        for statement in node.body.body:
            bound_names(statement, names, set())
        self._scopes.push_class(names | generic, node.name.value)
        with self._during(role="value"):
            self.visit(node.body)
        self._scopes.stack.pop()

    def _comprehension(self, node: cst.BaseComp) -> None:
        names: set[str] = set()
        loop: cst.CompFor | None = node.for_in
        while loop is not None:
            names.update(it.value for it in targets(loop.target))
            loop = loop.inner_for_in
        self._as("value", node.for_in.iter)
        self._scopes.stack.append(Scope(names))
        with self._during(role="value"):
            for child in children(node):
                if child is not node.for_in:
                    self.visit(child)
            self._loop(node.for_in)
        self._scopes.stack.pop()

    def _loop(self, node: cst.CompFor) -> None:
        for condition in node.ifs:
            self.visit(condition)
        if node.inner_for_in is not None:
            self.visit(node.inner_for_in.iter)
            self._loop(node.inner_for_in)

    def _import(self, node: cst.Import) -> None:
        for alias in node.names:
            path = dotted(alias.name)
            self._imported(alias, Origin(0, ".".join(path), None))
            name = alias.asname.name.value if alias.asname and isinstance(alias.asname.name, cst.Name) else path[0]
            self._local_import(name, Origin(0, ".".join(path) if alias.asname else path[0], None))

    def _from(self, node: cst.ImportFrom) -> None:
        if isinstance(node.names, cst.ImportStar):
            self._imported(node, import_origin(node, None))
            return
        for alias in node.names:
            origin = import_origin(node, dotted(alias.name)[0])
            self._imported(alias, origin)
            asname = alias.asname.name if alias.asname else alias.name
            self._local_import(dotted(asname)[0], origin)

    def _imported(self, node: cst.CSTNode, origin: Origin) -> None:
        at = self._layout.start(node)
        self._module.imported.append((at, origin, self._when, self._guarded))
        with self._during(role="import"):
            self._add(node, ("",), origin=origin)

    def _local_import(self, name: str, origin: Origin) -> None:
        scope = self._scopes.stack[-1] if self._scopes.stack else None
        if scope is not None and not scope.is_class:
            scope.imports[name] = origin

    def _assign(self, node: cst.Assign) -> None:
        for target in node.targets:
            self._target(target.target)
        self._as("value", node.value)

    def _augmented(self, node: cst.AugAssign) -> None:
        self._target(node.target)
        self._as("value", node.value)

    def _for(self, node: cst.For) -> None:
        self._target(node.target)
        self._children(node, skip="target")

    def _target(self, node: cst.CSTNode) -> None:
        """A name of this scope is bound, not used; one of another is used, and so is what an attribute hangs on."""
        if isinstance(node, cst.Name):
            if self._scopes.in_function and self._scopes.look_up(node.value).where != "local":
                self._name(node, ())
        elif isinstance(node, (cst.Tuple, cst.List)):
            for element in node.elements:
                self._target(element.value)
        else:
            self._as("value", node)

    def _annotated(self, node: cst.AnnAssign) -> None:
        self._target(node.target)
        if self._scopes.in_function:
            with self._during("never"):
                self._annotation(node.annotation)
        else:
            owner: Node | None = self._scopes.class_node
            # A base or a decorator may read the annotations of a class, and evaluate them.
            self._annotation(node.annotation, read=owner is not None and reads_annotations(owner))
        self._as("value", node.value)

    def _if(self, node: cst.If) -> None:
        test = dotted(node.test)
        with self._during(role="value"):
            self.visit(node.test)
        when = None
        if test and test[-1] == "TYPE_CHECKING" and self._when == "import":
            when = "never"
        elif is_main(node.test) and self._when == "import":
            when = "call"
        with self._during(when):  # type: ignore[arg-type]
            self.visit(node.body)
        if node.orelse is not None:
            self.visit(node.orelse)

    def _try(self, node: cst.Try | cst.TryStar) -> None:
        before, self._guarded = self._guarded, self._guarded or any(map(awaits_import_error, node.handlers))
        self.visit(node.body)
        self._guarded = before
        for child in children(node):
            if child is not node.body:
                self.visit(child)

    def _expression(self, node: cst.Expr) -> None:
        # A docstring, or prose between statements.
        if not is_string(node.value) or isinstance(node.value, cst.FormattedString):
            self._as("value", node.value)
