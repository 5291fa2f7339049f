"""Take a feature out of a tree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from taskforge.errors import TaskRejected
from taskforge.languages import Language, SkippedFile
from taskforge.model import Candidate, Changes, Entry, Symbol, Tree

__all__ = ["Removal", "remove"]


@dataclass(frozen=True, kw_only=True)
class Removal:
    """The edit that takes a feature out."""

    tree: Tree
    """Without the feature."""
    changes: Changes
    """What turns the original into ``tree``."""
    removed: Mapping[str, bytes]
    """Symbol key -> the bytes of the body that is gone."""


def remove(tree: Tree, candidate: Candidate, lang: Language) -> Removal:
    """Take ``candidate`` out of ``tree``.

    Raises:
        TaskRejected: with ``mode_unknown``, ``file_gone``, ``not_a_file``, ``nothing_removed``, or the reason of the
            language for not touching the file.
    """
    if candidate.mode != "stub":
        raise TaskRejected("mode_unknown", f"{candidate.name} cannot be removed by mode {candidate.mode}")
    by_path: dict[str, list[Symbol]] = defaultdict(list)
    for symbol in candidate.symbols:
        by_path[symbol.path].append(symbol)
    changes: dict[str, Entry | None] = {}
    removed: dict[str, bytes] = {}
    for path, symbols in sorted(by_path.items()):
        entry = tree.get(path)
        if entry is None:
            raise TaskRejected("file_gone", f"{candidate.name} lies in {path}, which the tree does not have")
        if entry.kind == "link":
            raise TaskRejected("not_a_file", f"{candidate.name} lies in {path}, which is a link")
        try:
            data = lang.stub(entry.data, symbols)
        except SkippedFile as problem:
            raise TaskRejected(problem.reason, f"{candidate.name}: {problem.message}") from problem
        if data == entry.data:
            raise TaskRejected("nothing_removed", f"stubbing {candidate.name} leaves {path} as it is")
        changes[path] = Entry(data, entry.kind)
        removed.update({it.key: entry.data[it.body.start : it.body.end] for it in symbols})
    return Removal(tree=tree.with_changes(changes), changes=changes, removed=removed)
