"""Take a feature out of a tree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from taskforge.errors import TaskRejected
from taskforge.languages import Language, Plan, Project, SkippedFile
from taskforge.model import Candidate, Changes, Entry, Symbol, Tree

__all__ = ["Removal", "project_files", "remove"]


@dataclass(frozen=True, kw_only=True)
class Removal:
    """The edit that takes a feature out."""

    tree: Tree
    """Without the feature."""
    changes: Changes
    """What turns the original into ``tree``."""
    removed: Mapping[str, bytes]
    """``path::qualname:line`` -> what is gone and would tell the answer: bodies, and what went along."""
    plan: Plan | None = None
    """What was deleted, joined and stubbed, and why; None for stubs by symbol."""


def project_files(tree: Tree) -> dict[str, bytes]:
    """What :meth:`taskforge.languages.Language.project` reads: all regular files."""
    return {path: entry.data for path, entry in tree.items() if entry.kind != "link"}


def remove(
    tree: Tree,
    candidate: Candidate,
    lang: Language,
    *,
    project: Project | None = None,
    pinned: Mapping[str, str] = MappingProxyType({}),
    running: Collection[str] = (),
    keep_docstrings: bool = True,
) -> Removal:
    """Take ``candidate`` out of ``tree``: by its symbols, or by its units and files, for which ``project`` is needed.

    Args:
        project: read from ``tree``.
        pinned: unit key -> why it has to stay as a stub.
        running: keys of functions that were seen to run while modules were imported.
        keep_docstrings: whether what stays as a stub keeps its docstring.

    Raises:
        TaskRejected: with ``mode_unknown``, ``file_gone``, ``not_a_file``, ``nothing_removed``, or the reason of the
            language for not touching the file.
    """
    if candidate.units or candidate.files:
        if project is None:
            raise TaskRejected("mode_unknown", f"{candidate.name} is named by units, and no project was read")
        return _by_units(tree, candidate, partial(
            project.plan, candidate.mode, candidate.units, candidate.files,
            pinned=pinned, running=running, keep_docstrings=keep_docstrings,
        ))  # fmt: skip
    if candidate.mode != "stub":
        raise TaskRejected("mode_unknown", f"{candidate.name} cannot be removed by mode {candidate.mode} without units")
    by_path: dict[str, list[Symbol]] = defaultdict(list)
    for symbol in candidate.symbols:
        by_path[symbol.path].append(symbol)
    changes: dict[str, Entry | None] = {}
    removed: dict[str, bytes] = {}
    for path, symbols in sorted(by_path.items()):
        entry = _file(tree, path, candidate)
        try:
            data = lang.stub(entry.data, symbols, keep_docstrings=keep_docstrings)
        except SkippedFile as problem:
            raise TaskRejected(problem.reason, f"{candidate.name}: {problem.message}") from problem
        if data == entry.data:
            raise TaskRejected("nothing_removed", f"stubbing {candidate.name} leaves {path} as it is")
        changes[path] = Entry(data, entry.kind)
        removed.update({it.key: entry.data[it.body.start : it.body.end] for it in symbols})
    return Removal(tree=tree.with_changes(changes), changes=changes, removed=removed)


def _file(tree: Tree, path: str, candidate: Candidate) -> Entry:
    entry = tree.get(path)
    if entry is None:
        raise TaskRejected("file_gone", f"{candidate.name} lies in {path}, which the tree does not have")
    if entry.kind == "link":
        raise TaskRejected("not_a_file", f"{candidate.name} lies in {path}, which is a link")
    return entry


def _by_units(tree: Tree, candidate: Candidate, make: Callable[[], Plan]) -> Removal:
    for path in (*candidate.files, *(it.path for it in candidate.symbols)):
        _file(tree, path, candidate)
    try:
        plan = make()
    except SkippedFile as problem:
        raise TaskRejected(problem.reason, f"{candidate.name}: {problem.message}") from problem
    changes: dict[str, Entry | None] = {}
    for path, data in sorted(plan.changes.items()):
        entry = _file(tree, path, candidate)
        if data is None:
            changes[path] = None
        elif data != entry.data:
            changes[path] = Entry(data, entry.kind)
    if not changes:
        raise TaskRejected("nothing_removed", f"taking {candidate.name} out leaves the tree as it is")
    return Removal(tree=tree.with_changes(changes), changes=changes, removed=plan.removed, plan=plan)
