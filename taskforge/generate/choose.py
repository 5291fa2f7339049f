"""Which PASS_TO_PASS a grade runs by default: near tests first, then a seeded sample, within a time budget."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable

from taskforge.model import Candidate, TestMap, TestRecord

__all__ = ["choose_pass_to_pass"]

#: What one test costs besides its own duration, seconds: hooks, reports, fixtures' set-up.
OVERHEAD = 0.002


def choose_pass_to_pass(
    candidate: Candidate, passing: Collection[str], test_map: TestMap, *, seconds: float, seed: int
) -> tuple[str, ...]:
    """Ids out of ``passing`` whose baseline durations add up to at most ``seconds``, in the suite's order.

    Tests that enter a touched file, or a function that a test of the feature also enters in another file (its callers
    and neighbours), come before a sample of the rest.
    """
    touched = {symbol.path for symbol in candidate.symbols}
    in_touched = {number for number, (path, _name, _line) in enumerate(test_map.functions) if path in touched}
    records = {record.id: record for record in test_map.tests}
    shared = {number for name in candidate.tests if name in records for number in records[name].enters}
    rng = random.Random(seed)  # noqa: S311 - a sample, not a secret

    def shuffled(found: Iterable[TestRecord]) -> list[TestRecord]:
        out = list(found)
        rng.shuffle(out)
        return out

    pool = [record for record in test_map.tests if record.id in passing]
    near = [record for record in pool if not in_touched.isdisjoint(record.enters)]
    neighbours = [record for record in pool if record not in near and not shared.isdisjoint(record.enters)]
    taken = {record.id for record in near} | {record.id for record in neighbours}
    rest = [record for record in pool if record.id not in taken]
    chosen: set[str] = set()
    left = seconds
    for record in shuffled(near) + shuffled(neighbours) + shuffled(rest):
        cost = record.seconds + OVERHEAD
        if cost <= left:
            chosen.add(record.id)
            left -= cost
    return tuple(record.id for record in test_map.tests if record.id in chosen)
