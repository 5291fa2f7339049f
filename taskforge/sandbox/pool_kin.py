"""Which waiting sandbox can serve which spec, and what has to be laid so that it does.

Two specs are *kin* when everything that was fixed at start is equal: environment, limits, profile, what is held
read-only, and what the warm interpreter looked at when it started. Nothing of the workspace has been imported then, so
that what is left to differ are free files, and those can be written and removed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from taskforge.model import Changes, Entry, Tree
from taskforge.sandbox import SandboxSpec
from taskforge.sandbox.bubblewrap_mounts import split

__all__ = ["Kin", "Layout", "Layouts", "difference"]

Kin: TypeAlias = Hashable

#: Layouts kept: each holds on to a tree, which its grader does as well.
_KEPT = 64
#: What an interpreter takes from the folders of its path when it starts, whether anything is imported or not.
_START_UP = ("sitecustomize.py", "usercustomize.py", ".pth", ".zip", ".egg")


@dataclass(frozen=True, kw_only=True)
class Layout:
    """A spec as the pool sees it."""

    spec: SandboxSpec
    kin: Kin
    free: Mapping[str, Entry]


class Layouts:
    """Layouts by spec, the last ones kept: to part a tree costs more than to lay a difference. Not for two threads."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, Layout] = OrderedDict()

    def of(self, spec: SandboxSpec) -> Layout:
        key = spec.key
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = _layout(spec)
        self._known.move_to_end(key)
        while len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return found


def _layout(spec: SandboxSpec) -> Layout:
    tree = spec.tree.with_changes(dict(spec.environment.overlay))
    held, free = split(tree, spec.protected)
    folders = {path[:at] for path in tree for at, letter in enumerate(path) if letter == "/"}
    # The path of the warm interpreter was made of the folders that were there, and it remembers those that were not:
    # so they must be the same. As a file then never turns into a folder, and no folder stays behind empty, a difference
    # is nothing but files.
    looked_at = Tree({path: entry for path, entry in free.items() if path.endswith(_START_UP)})
    kin: Kin = (
        spec.environment.digest, spec.limits, spec.profile, spec.tools, spec.protected, held.digest,
        frozenset(folders), looked_at.digest,
    )  # fmt: skip
    if folders & tree.keys():
        # One name for a file and a folder: what lies there depends on the order of writing, so this is kin to none.
        kin = (kin, tree.digest)
    return Layout(spec=spec, kin=kin, free=free)


def difference(have: Mapping[str, Entry], want: Mapping[str, Entry]) -> Changes:
    """What makes of a fresh workspace with the free files ``have`` one with ``want``; deletions come first."""
    gone: dict[str, Entry | None] = dict.fromkeys(path for path in have if path not in want)
    return gone | {path: entry for path, entry in want.items() if have.get(path) != entry}
