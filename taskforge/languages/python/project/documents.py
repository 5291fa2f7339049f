"""Passages of documentation that show the code which is gone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import ceil
from typing import Final

__all__ = ["is_document", "without_bodies"]

#: Lines of code below which a likeness is chance, and of a body that a passage must show.
_FEWEST: Final = 3
_SHARE: Final = 0.6
_MARGIN = re.compile(rb"^[ \t]*(?:(?:>>>|\.\.\.|[>|])[ \t]?)*")


def is_document(path: str) -> bool:
    return path.lower().endswith((".md", ".rst", ".txt"))


def without_bodies(source: bytes, bodies: Iterable[bytes]) -> bytes:
    """A document without the passages that show a body: at least three lines of it that follow each other, and 60 %.

    Margins, blank lines and comment signs do not hide a passage. All other bytes stay.
    """
    lines = source.splitlines(keepends=True)
    bare = [_bare(it) for it in lines]
    gone: set[int] = set()
    for body in bodies:
        wanted = [it for it in map(_bare, body.splitlines()) if it]
        if len(wanted) >= _FEWEST:
            gone |= _passages(bare, wanted)
    return b"".join(it for number, it in enumerate(lines) if number not in gone) if gone else source


def _bare(line: bytes) -> bytes:
    return b" ".join(_MARGIN.sub(b"", line).split())


def _passages(bare: list[bytes], wanted: list[bytes]) -> set[int]:
    needed = max(_FEWEST, ceil(len(wanted) * _SHARE))
    places: dict[bytes, list[int]] = {}
    for number, line in enumerate(wanted):
        places.setdefault(line, []).append(number)
    gone: set[int] = set()
    for number, line in enumerate(bare):
        if number in gone:
            continue
        for place in places.get(line, ()):
            run = _run(bare, number, wanted, place)
            if sum(bool(bare[it]) for it in run) >= needed:
                gone |= set(run)
                break
    return gone


def _run(bare: list[bytes], number: int, wanted: list[bytes], place: int) -> list[int]:
    """The lines from ``number`` on that show ``wanted`` from ``place`` on, blank ones between them included."""
    run: list[int] = []
    blank: list[int] = []
    while number < len(bare) and place < len(wanted):
        if not bare[number]:
            blank.append(number)
        elif bare[number] == wanted[place]:
            run += [*blank, number]
            blank = []
            place += 1
        else:
            break
        number += 1
    return run
