"""Near-copies within one repository: a function and its asynchronous twin, a method repeated in a second class.

Who can read the one has the other. So they are taken out together, where they are few.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from taskforge.model import Unit

__all__ = ["SHARE", "siblings"]

#: Of a body's runs of tokens, from which another body tells it.
SHARE: Final = 0.5
_K: Final = 6
#: A run that so many bodies share is the project's manner, not a copy.
_COMMON: Final = 24
#: Bodies of fewer runs are like any other.
_SHORTEST: Final = 8
_TOKEN = re.compile(rb"[A-Za-z0-9_\x80-\xff]+|[^\sA-Za-z0-9_]")
_COMMENT = re.compile(rb"#[^\r\n]*")
#: What an asynchronous twin has besides.
_DROPPED: Final = frozenset({b"async", b"await"})


def siblings(units: Mapping[str, Unit], sources: Mapping[str, bytes]) -> dict[str, tuple[str, ...]]:
    """Unit key -> keys of the units whose code holds at least :data:`SHARE` of its code, the nearest first.

    Functions and methods only. The relation is not symmetric: a long function may hold all of a short one.

    Args:
        units: of a project.
        sources: path -> bytes of the files that they lie in.
    """
    runs = {
        key: found
        for key, unit in units.items()
        if unit.kind not in {"class", "constant"} and len(found := _runs(unit, sources[unit.path])) >= _SHORTEST
    }
    holders: dict[tuple[bytes, ...], list[str]] = defaultdict(list)
    for key, found in runs.items():
        for run in found:
            holders[run].append(key)
    out: dict[str, tuple[str, ...]] = {}
    for key, found in runs.items():
        shared = Counter(
            other for run in found if len(holders[run]) <= _COMMON for other in holders[run] if other != key
        )
        near = [(-count, other) for other, count in shared.items() if count >= SHARE * len(found)]
        if near:
            out[key] = tuple(other for _count, other in sorted(near))
    return out


def _runs(unit: Unit, source: bytes) -> frozenset[tuple[bytes, ...]]:
    found: set[tuple[bytes, ...]] = set()
    for symbol in unit.symbols:
        tokens = _tokens(source[symbol.body.start : symbol.body.end])
        found.update(tuple(tokens[at : at + _K]) for at in range(len(tokens) - _K + 1))
    return frozenset(found)


def _tokens(body: bytes) -> Sequence[bytes]:
    return [token for token in _TOKEN.findall(_COMMENT.sub(b"", body)) if token not in _DROPPED]
