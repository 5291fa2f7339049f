"""Tasks of one corpus that ask for nearly the same code, whichever repositories they come from: MinHash over tokens."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from taskforge.corpus.corpus import Corpus
from taskforge.corpus.reading import read_file

if TYPE_CHECKING:
    from datasketch import MinHash

__all__ = ["Twins", "code_of_patch"]

#: Estimated share of runs of tokens in common (Jaccard), from which two tasks are twins.
THRESHOLD: Final = 0.7
_K: Final = 5
_PERMUTATIONS: Final = 128
_TOKEN = re.compile(rb"[A-Za-z0-9_\x80-\xff]+|[^\sA-Za-z0-9_]")


class Twins:
    """What the tasks of a corpus ask for, by mode: the same function taken out in two modes makes two tasks.

    Args:
        threshold: similarity from which two tasks are twins, 0 to 1.
    """

    def __init__(self, *, threshold: float = THRESHOLD) -> None:
        from datasketch import MinHashLSH

        self._index = MinHashLSH(threshold=threshold, num_perm=_PERMUTATIONS)
        self._threshold = threshold
        self._kept: dict[str, tuple[str, MinHash]] = {}

    @classmethod
    def of(cls, corpus: Corpus) -> Twins:
        """Those of the tasks that a corpus has already."""
        twins = cls()
        for task in corpus.task_ids():
            card = corpus.card(task)
            twins.add(task, card.mode, code_of_patch(read_file(corpus.sealed / "tasks" / task / "reference.patch")))
        return twins

    def find(self, mode: str, removed: Iterable[bytes]) -> str:
        """Id of the task that is nearest, or nothing when none is a twin."""
        asked = _hash(removed)
        if asked is None:
            return ""
        near = [(asked.jaccard(self._kept[name][1]), name) for name in self._index.query(asked)]
        found = [(-share, name) for share, name in near if share >= self._threshold and self._kept[name][0] == mode]
        return min(found)[1] if found else ""

    def add(self, task: str, mode: str, removed: Iterable[bytes]) -> None:
        """Keep a task. One that is there already is replaced."""
        made = _hash(removed)
        if task in self._kept:
            self._index.remove(task)
            del self._kept[task]
        if made is not None:
            self._index.insert(task, made)
            self._kept[task] = (mode, made)


def code_of_patch(patch: bytes) -> list[bytes]:
    """What a reference patch adds, which is what its removal took out."""
    return [
        b"\n".join(line[1:] for line in patch.split(b"\n") if line.startswith(b"+") and not line.startswith(b"+++"))
    ]


def _hash(removed: Iterable[bytes]) -> MinHash | None:
    """None for less than one run of tokens: that is nobody's twin."""
    from datasketch import MinHash

    made = MinHash(num_perm=_PERMUTATIONS)
    runs: set[bytes] = set()
    for code in removed:
        tokens = _TOKEN.findall(code)
        runs.update(b" ".join(tokens[at : at + _K]) for at in range(len(tokens) - _K + 1))
    if not runs:
        return None
    made.update_batch(sorted(runs))
    return made


