"""Which symbols are worth a try, and in what order."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from taskforge.model import Candidate, Symbol, TestMap

__all__ = ["Selection", "select"]


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Candidates in the order in which to try them, and what was passed over."""

    candidates: tuple[Candidate, ...]
    passed_over: Mapping[str, int]
    """Reason -> symbols: ``too_small``, ``overload``, ``runs_at_import``, ``no_test_enters``."""
    considered: int
    """Symbols looked at."""


def select(index: Mapping[str, Sequence[Symbol]], test_map: TestMap, *, min_lines: int = 2, seed: int) -> Selection:
    """Choose the symbols that some stable test enters and that are more than a line.

    The order is the same for the same input and seed: shuffled, spread over the files, and within each round of files
    those with two tests or more come first. All are returned, since only trying tells how many become tasks.

    Args:
        index: symbols by path.
        test_map: of the same snapshot. A symbol is found in it by path, qualified name and first line.
        min_lines: body lines, neither blank nor comment, below which a symbol is too small.
        seed: of the shuffle.
    """
    entered_by: dict[int, list[str]] = defaultdict(list)
    for record in test_map.tests:
        if record.stable:
            for number in record.enters:
                entered_by[number].append(record.id)
    numbers = {function: number for number, function in enumerate(test_map.functions)}
    at_import = frozenset(test_map.unattributed)
    passed_over: Counter[str] = Counter()
    eligible: list[Candidate] = []
    symbols = sorted((symbol for found in index.values() for symbol in found), key=lambda it: (it.path, it.span.start))
    for symbol in symbols:
        place = numbers.get((symbol.path, symbol.qualname, symbol.line), -1)
        tests = tuple(dict.fromkeys(entered_by.get(place, ())))
        if reason := _reason(symbol, tests, min_lines=min_lines, at_import=place in at_import):
            passed_over[reason] += 1
        else:
            eligible.append(Candidate(symbols=(symbol,), tests=tests))
    return Selection(
        candidates=_in_order(eligible, seed), passed_over=dict(sorted(passed_over.items())), considered=len(symbols)
    )


def _reason(symbol: Symbol, tests: Sequence[str], *, min_lines: int, at_import: bool) -> str:
    if any(_last_name(decorator) == "overload" for decorator in symbol.decorators):
        return "overload"
    if symbol.body_lines < min_lines or symbol.statements < 2:
        return "too_small"
    if at_import:
        return "runs_at_import"
    return "" if tests else "no_test_enters"


def _last_name(decorator: str) -> str:
    return decorator.lstrip("@ \t").partition("(")[0].rpartition(".")[2].strip()


def _in_order(eligible: Sequence[Candidate], seed: int) -> tuple[Candidate, ...]:
    shuffled = list(eligible)
    random.Random(seed).shuffle(shuffled)  # noqa: S311 - an order, not a secret
    by_path: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in sorted(shuffled, key=lambda it: len(it.tests) < 2):
        by_path[candidate.symbols[0].path].append(candidate)
    rounds = max(map(len, by_path.values()), default=0)
    return tuple(
        candidate
        for number in range(rounds)
        for candidate in sorted(
            (queue[number] for queue in by_path.values() if number < len(queue)), key=lambda it: len(it.tests) < 2
        )
    )
