"""Stub files beside modules: the same names go from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from taskforge.languages import SkippedFile
from taskforge.languages.python.project.closure import Closure
from taskforge.languages.python.project.edits import edited_modules
from taskforge.languages.python.project.graph import Graph
from taskforge.languages.python.project.parts import Module, Node
from taskforge.languages.python.project.policy import may_join
from taskforge.languages.python.project.read import read_module

__all__ = ["without_names"]


def without_names(
    files: Mapping[str, bytes], gone: Mapping[str, Iterable[str]]
) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """The ``.pyi`` files beside modules of which names are gone.

    Args:
        gone: path of a ``.py`` file -> qualified names.

    Returns:
        Path -> new bytes, and notes on those that could not be edited.
    """
    changes: dict[str, bytes] = {}
    notes: list[str] = []
    for path, qualnames in gone.items():
        stub = path + "i"
        if stub not in files:
            continue
        try:
            module = read_module(stub, files[stub], product=True)
            wanted = [node for name in qualnames if (node := _named(module, name)) is not None]
            if wanted:
                graph = Graph({stub: module})
                closure = Closure(graph, wanted, (), editable=_anything, may_join=may_join)
                edited = edited_modules(graph, closure, editable=_anything)
                changes.update({it.path: data for it, data in edited.items()})
        except SkippedFile as problem:
            notes.append(f"{stub} still names what is gone from {path}: {problem.message}")
    return changes, tuple(notes)


def _anything(_module: Module) -> bool:
    return True


def _named(module: Module, qualname: str) -> Node | None:
    names = module.nodes
    node: Node | None = None
    for name in qualname.split("."):
        node = names.get(name)
        if node is None:
            return None
        names = node.members
    return node
