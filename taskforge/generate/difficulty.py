"""One number for how hard a task is, from what is known of the code that is gone."""

from __future__ import annotations

from math import log2

__all__ = ["difficulty"]


def difficulty(*, lines: int, files: int, symbols: int, complexity: int, tests: int, fan_in: int) -> float:
    """The score of ``task.json``: 0 for nothing, about 2 for a short function, 5 for a long one, 10 and more for a
    feature over several files.

    ``log2(1 + lines) / 2 + log2(complexity) / 2 + 2 log2(files) + log2(symbols) + log2(1 + tests) / 8
    + log2(1 + fan_in) / 8``, rounded to two places. Every part grows ever more slowly: the second hundred lines are not
    as hard as the first. Size and branches count most, since they are what has to be written; files and symbols count
    because the parts have to fit; tests and callers only say how closely the result is looked at.

    Args:
        lines: removed source lines, neither blank nor comment.
        files: that the removed code lay in.
        symbols: functions that are gone.
        complexity: cyclomatic, added up over them.
        tests: FAIL_TO_PASS.
        fan_in: places in the remaining code that name what is gone.
    """
    score = (
        log2(1 + lines) / 2
        + log2(max(1, complexity)) / 2
        + 2 * log2(max(1, files))
        + log2(max(1, symbols))
        + log2(1 + tests) / 8
        + log2(1 + fan_in) / 8
    )
    return round(score, 2)
