"""What may go along with a removal when nothing else uses it."""

from __future__ import annotations

import re
from typing import Final

from taskforge.languages.python.project.graph import Graph
from taskforge.languages.python.project.known import is_harmless_decorator
from taskforge.languages.python.project.parts import Binding, Module, Node

__all__ = ["is_private", "may_join", "may_join_in_tests", "removable_import"]

#: Bases whose classes have fields: a name in the body is a member of the value, whoever names it.
_FIELDS: Final = re.compile(r"Enum|Flag|NamedTuple|TypedDict|Structure|Union|Model")
_TYPING: Final = frozenset({"TypeVar", "ParamSpec", "TypeVarTuple", "NewType"})


def is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def is_private(name: str) -> bool:
    return name.startswith("_") and not is_dunder(name) and name.strip("_") != ""


def may_join(graph: Graph, node: Node) -> bool:
    """Product code: private helpers, constants, methods and classes, and imports. Public names are somebody's API."""
    if node.host is not None or any(it.kind == "other" for it in node.bindings) or is_dunder(node.name):
        return False
    if node.is_import:
        return removable_import(graph, node)
    if _is_exported(graph, node) or not all(_is_harmless(node, it) for it in node.bindings):
        return False
    if node.scope is not None:
        return is_private(node.name) and _is_free_member(node)
    if node.is_class and any("__init_subclass__" in it.members for it in graph.bases(node)):
        return False
    return is_private(node.name) or _is_hidden(graph, node)


def may_join_in_tests(graph: Graph, node: Node) -> bool:
    """Test code: whatever only tests used that go. What a runner looks for by name, or always runs, stays."""
    if node.host is not None or any(it.kind == "other" for it in node.bindings) or is_dunder(node.name):
        return False
    if node.is_import:
        return removable_import(graph, node)
    if re.match(r"pytest_|pytestmark$|pytest_plugins$|load_tests$|(setup|teardown)_?(?!\w*fixture)", node.name):
        return False
    if node.scope is not None and (not node.is_defined or re.match(r"setUp|tearDown|(setup|teardown)_", node.name)):
        return not node.is_defined and is_private(node.name) and _is_free_member(node)
    return all(_is_harmless(node, it) or _is_fixture(it) for it in node.bindings)


def removable_import(graph: Graph, node: Node) -> bool:
    """Whether an import may go once nothing uses it: it is no re-export, and does nothing else."""
    module = node.module
    for binding in node.bindings:
        origin = binding.origin
        if origin is None or binding.explicit or origin.module == "__future__" or binding.start < 0:
            return False
        own = graph.names.find(origin.level, origin.module, module) is not None
        if module.is_package and (origin.level or own) and not node.name.startswith("_"):
            return False
    return node.scope is None and not _is_exported(graph, node)


def _is_exported(graph: Graph, node: Node) -> bool:
    if node.scope is not None:
        return False
    module = node.module
    if any(name == node.name for _at, name, _statement in module.exports):
        return True
    return module in graph.starred and not module.has_all and not node.name.startswith("_")


def _is_hidden(graph: Graph, node: Node) -> bool:
    """A name without an underscore that the module says, or shows, to be its own."""
    module: Module = node.module
    if module.has_all and module.exports and not module.is_package:
        return True
    if is_private(module.stem) and module not in graph.starred:
        return True
    return node.called_with in _TYPING


def _is_harmless(node: Node, binding: Binding) -> bool:
    if binding.kind == "function" or (binding.kind == "class" and node.is_class):
        return all(is_harmless_decorator(it.rpartition(".")[2]) for it in binding.decorators)
    return True


def _is_fixture(binding: Binding) -> bool:
    return all("fixture" in it or it.startswith("pytest.mark.") for it in binding.decorators) and not binding.autouse


def _is_free_member(node: Node) -> bool:
    """A private member that is no field and no slot that a base class looks at."""
    owner = node.scope
    assert owner is not None
    if node.is_defined:
        return True
    if owner.class_decorated or node.annotated or node.name.endswith("_"):
        return False
    return not any(_FIELDS.search(".".join(it)) or not it for it in owner.bases)
