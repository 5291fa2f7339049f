"""Cuts of single elements: names of an import, strings of a list."""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from taskforge.languages.python.layout import Layout

__all__ = ["Cut", "cut_elements"]

#: Start and end of what goes, and what stands there instead.
Cut = tuple[int, int, bytes]

_GAP = re.compile(rb"(?:[ \t\f\r\n]|\\\r?\n|#[^\r\n]*)*")


def cut_elements(
    layout: Layout, items: Sequence[tuple[int, int]], gone: AbstractSet[int], *, brackets: bool, is_tuple: bool = False
) -> list[Cut]:
    """The cuts that take the elements with the indices ``gone`` out; some element stays, or there are brackets.

    Args:
        items: start and end of each element, without its comma.
        brackets: whether newlines and a last comma are free there.
        is_tuple: one element left needs its comma.
    """
    kept = [index for index in range(len(items)) if index not in gone]
    cuts: list[Cut] = []
    if is_tuple and gone and len(kept) == 1 and _comma(layout, items[kept[0]][1]) == items[kept[0]][1]:
        cuts.append((items[kept[0]][1], items[kept[0]][1], b","))
    for index in sorted(gone):
        if brackets:
            cuts.append(_bracketed(layout, items, index, kept, is_tuple=is_tuple))
        elif not kept:
            return [(items[0][0], _comma(layout, items[-1][1]), b"()")]
        elif index < kept[-1]:
            cuts.append((items[index][0], items[index + 1][0], b""))
        else:
            last = items[kept[-1]][1]
            cuts.append((_comma(layout, last) if is_tuple and len(kept) == 1 else last, items[index][1], b""))
    return cuts


def _comma(layout: Layout, end: int) -> int:
    """The offset behind the comma that follows an element, or its end where there is none."""
    found = _GAP.match(layout.source, end)
    at = found.end() if found else end
    return at + 1 if layout.source[at : at + 1] == b"," else end


def _bracketed(
    layout: Layout, items: Sequence[tuple[int, int]], index: int, kept: Sequence[int], *, is_tuple: bool
) -> Cut:
    source = layout.source
    start, end = items[index]
    behind = _comma(layout, end)
    first, last = layout.line(start), layout.line(behind)
    before = source[layout.line_start(first) : start]
    after = layout.line_bytes(last)[behind - layout.line_start(last) :]
    if not before.strip() and re.fullmatch(rb"[ \t]*(?:#.*)?", after) and last < layout.lines:
        return (layout.line_start(first), layout.line_start(last + 1), b"")
    if behind > end:
        spaces = len(after) - len(after.lstrip(b" \t"))
        return (start, behind + spaces, b"")
    previous = [it for it in kept if it < index]
    if previous and not (is_tuple and len(kept) == 1):
        between = source[items[previous[-1]][1] : start]
        if b"\n" not in between and b"\r" not in between:
            return (items[previous[-1]][1], end, b"")
    return (start - (len(before) - len(before.rstrip(b" \t"))), end, b"")
