"""Whether ``receiver.name`` in a file may mean a member of a certain class: by what the file tells of the receiver."""

from __future__ import annotations

import ast
import builtins
import collections
import io
import pathlib
import re
import threading
import types
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from taskforge.generate.statement_formats import last_name

__all__ = ["Receivers"]

_KINDS: Final = (
    list, dict, set, frozenset, str, bytes, bytearray, tuple, int, float, io.TextIOWrapper, io.BytesIO, Exception,
    OSError, collections.deque, collections.OrderedDict, re.Pattern, re.Match,
    pathlib.Path, pathlib.PurePath, threading.Thread, threading.Event,
    types.GeneratorType, types.FunctionType, types.ModuleType, slice, range, memoryview,
)  # fmt: skip
#: Names that so much has that they tell nothing on their own.
_COMMON: Final = frozenset(name for kind in _KINDS for name in dir(kind)) | {"path"}
_CONTAINERS: Final = frozenset(
    {"list", "dict", "set", "frozenset", "str", "bytes", "bytearray", "tuple", "int", "float", "bool", "open", "sorted",
     "repr", "deque", "defaultdict", "OrderedDict", "Counter", "namedtuple", "StringIO", "BytesIO", "len", "zip", "map",
     "range", "enumerate", "iter", "filter", "reversed", "type", "join", "format"}
)  # fmt: skip
_TYPES: Final = frozenset(
    {*_CONTAINERS, "List", "Dict", "Set", "FrozenSet", "Tuple", "Mapping", "MutableMapping", "Sequence", "Iterable",
     "Iterator", "DefaultDict", "Deque", "None"}
)  # fmt: skip
_LITERALS: Final = (
    ast.Constant, ast.JoinedStr, ast.List, ast.Dict, ast.Set, ast.Tuple, ast.ListComp, ast.DictComp, ast.SetComp,
    ast.GeneratorExp, ast.Lambda, ast.Compare,
)  # fmt: skip
#: A value of which nothing is known.
_UNKNOWN: Final = ast.Starred(value=ast.Constant(None))


class Receivers:
    """What one file tells of the objects whose members it names."""

    def __init__(self, tree: ast.Module, modules: Collection[str], related: Collection[str]) -> None:
        """
        Args:
            modules: names that the file binds to modules.
            related: last names of the class that is meant, its bases and what derives from it; empty for any.
        """
        self._modules, self._related = modules, related
        self._module = _values(tree)
        self._attributes: dict[str, list[ast.expr]] = {}
        for node in ast.walk(tree):
            for target, value in _bindings(node):
                if isinstance(target, ast.Attribute):
                    self._attributes.setdefault(target.attr, []).append(value)

    def may_be(self, name: str, receiver: ast.expr, around: Sequence[ast.AST]) -> bool:
        """Whether ``receiver.name`` may be the member: certainly not of a module, a literal, a builtin container or an
        object of an unrelated class. A name that builtins have, too, needs evidence for it.

        Args:
            around: the definitions that it stands in, the outermost first.
        """
        known = self._is_one(receiver, around)
        if known is None and _plain(last_name(receiver)) in map(_plain, self._related):
            # `storage` and `self._storage` are of class Storage where nothing says otherwise.
            return True
        return known if known is not None else name not in _COMMON

    def _is_one(self, receiver: ast.expr, around: Sequence[ast.AST]) -> bool | None:
        """True and False are certain."""
        if isinstance(receiver, ast.Name):
            if receiver.id in ("self", "cls"):
                return self._is_own(around)
            for scope in [*(_values(it) for it in reversed(around) if not isinstance(it, ast.ClassDef)), self._module]:
                if receiver.id in scope:
                    return self._any(scope[receiver.id])
            if receiver.id in self._modules or hasattr(builtins, receiver.id):
                return False
            return True if receiver.id in self._related else None
        if isinstance(receiver, ast.Attribute):
            if self._is_module(receiver):
                return False
            return True if receiver.attr in self._related else self._any(self._attributes.get(receiver.attr, ()))
        if isinstance(receiver, ast.Call) and last_name(receiver.func) == "super":
            return self._is_own(around)
        return self._value(receiver)

    def _is_own(self, around: Sequence[ast.AST]) -> bool | None:
        owner = next((it.name for it in reversed(around) if isinstance(it, ast.ClassDef)), "")
        return owner in self._related if owner and self._related else None

    def _is_module(self, node: ast.expr) -> bool:
        """``os.path``: a module of a module, as far as its name goes. A class of a module is none."""
        if isinstance(node, ast.Attribute):
            return node.attr.islower() and self._is_module(node.value)
        return isinstance(node, ast.Name) and node.id in self._modules

    def _any(self, values: Sequence[ast.expr]) -> bool | None:
        found = [self._value(it) for it in values]
        if True in found:
            return True
        return False if found and all(it is False for it in found) else None

    def _value(self, node: ast.expr) -> bool | None:
        if isinstance(node, _LITERALS):
            return False
        if isinstance(node, (ast.Await, ast.NamedExpr)):
            return self._value(node.value)
        if isinstance(node, ast.Call):
            name = last_name(node.func)
            if name in self._related:
                return True
            return False if name in _CONTAINERS else None
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            # A type, of an annotation or an except.
            names = {last_name(it) for it in ast.walk(node) if isinstance(it, ast.expr)} - {""}
            if names & set(self._related):
                return True
            return False if names and names <= _TYPES else None
        return None


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _values(node: ast.AST) -> dict[str, list[ast.expr]]:
    """Name -> what a module or a function binds it to: values, and the types that it is annotated or caught with."""
    found: dict[str, list[ast.expr]] = {}
    body: Sequence[ast.AST] = getattr(node, "body", [])
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        for arg in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
            if arg.arg not in ("self", "cls"):
                found.setdefault(arg.arg, []).append(_type(arg.annotation))
    for part in body if isinstance(body, list) else []:
        for it in _own(part):
            for target, value in _bindings(it):
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(value)
    return found


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """A statement and what is in it, without inner definitions."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _own(child)


def _bindings(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Target and value, or type, of each thing that a statement binds."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, (ast.Tuple, ast.List)):
                values = node.value.elts if isinstance(node.value, (ast.Tuple, ast.List)) else []
                same = len(values) == len(target.elts)
                yield from zip(target.elts, values if same else [_UNKNOWN] * len(target.elts), strict=True)
            else:
                yield target, node.value
    elif isinstance(node, ast.AnnAssign):
        yield node.target, _type(node.annotation)
    elif isinstance(node, ast.NamedExpr):
        yield node.target, node.value
    elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
        yield from ((it, _UNKNOWN) for it in ast.walk(node.target) if isinstance(it, ast.expr))
    elif isinstance(node, (ast.With, ast.AsyncWith)):
        yield from ((it.optional_vars, it.context_expr) for it in node.items if it.optional_vars is not None)
    elif isinstance(node, ast.ExceptHandler) and node.name and node.type is not None:
        yield ast.Name(node.name), node.type


def _type(annotation: ast.expr | None) -> ast.expr:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        names = re.findall(r"[^\W\d]\w*", annotation.value)
        return _UNKNOWN if not names else ast.Subscript(ast.Name(names[0]), ast.Name(names[-1]))
    return annotation if annotation is not None else _UNKNOWN
