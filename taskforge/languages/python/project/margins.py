"""Which whole lines a statement takes with it: its comments, and blank lines that would be too many."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from typing import Final

from taskforge.languages import SkippedFile
from taskforge.languages.python.layout import Layout

__all__ = ["lines_of", "newline_of", "tidied"]

#: A rule, a region, or an instruction to a tool: it speaks of more than the statement below it.
_FOREIGN: Final = re.compile(
    rb"#+\s*$|#.*[-=#*~_+]{3,}|#!|#[ \t]*(?:end)?region\b"
    rb"|#[ \t]*(?:fmt|isort|yapf|ruff|pylint|mypy|pyright|flake8)[ \t]*:"
    rb"|#[ \t]*(?:type:[ \t]*ignore|pragma|noqa|coding[:=]|-\*-)",
    re.IGNORECASE,
)


def newline_of(source: bytes, before: int) -> bytes:
    """The newline in use at a place."""
    found = re.findall(rb"\r\n|\r|\n", source[:before]) or re.findall(rb"\r\n|\r|\n", source)
    newline: bytes = found[-1] if found else b"\n"
    return newline


def lines_of(layout: Layout, start: int, end: int, *, compound: bool) -> tuple[int, int]:
    """The bytes to cut for the statement from ``start`` to ``end``, which stands on lines of its own.

    A comment directly above, of the same indent, is the statement's own; a rule or an instruction is not, nor is one at
    the very top of the file. Comments within its block and behind it are its own.

    Args:
        compound: whether it has a block, whose comments may follow it.

    Raises:
        SkippedFile: ``layout_unclear`` when something else stands on its lines.
    """
    source = layout.source
    first = layout.line(start)
    margin = source[layout.line_start(first) : start]
    if first == 1 and margin.startswith(BOM_UTF8):
        margin = b""
    behind = layout.line_bytes(layout.line(end))[end - layout.line_start(layout.line(end)) :]
    above = layout.line_bytes(first - 1) if first > 1 else b""
    if margin.strip(b" \t\f") or not re.fullmatch(rb"[ \t\f;]*(?:#.*)?", behind, re.DOTALL) or above.endswith(b"\\"):
        raise SkippedFile("layout_unclear", f"something else stands on the lines of the statement at line {first}")
    indent = margin.rpartition(b"\f")[2]
    top = _comments_above(layout, first, indent)
    bottom = layout.line(end)
    if compound:
        bottom = _comments_below(layout, bottom, indent)
    begin = start - len(indent) if top == first else _offset(layout, top)
    return begin, _offset(layout, bottom + 1)


def tidied(layout: Layout, cuts: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Cuts of whole lines, in order, with the blank lines between and beside them that would be too many."""
    joined: list[tuple[int, int]] = []
    for start, end in cuts:
        if joined and not layout.source[joined[-1][1] : start].strip(b" \t\r\n"):
            start = joined.pop()[0]
        joined.append((start, end))
    result = []
    for start, end in joined:
        first = layout.line(start)
        if layout.line_start(first) != start:
            # A byte order mark or a form feed before it stays, and so do the lines around that.
            result.append((start, end))
            continue
        after = layout.line(end) if end < len(layout.source) else layout.lines + 1
        top, bottom = _blanks(layout, first, after - 1)
        result.append((_offset(layout, top), max(end, _offset(layout, bottom + 1))))
    return result


def _offset(layout: Layout, line: int) -> int:
    return layout.line_start(line) if line <= layout.lines else len(layout.source)


def _comments_above(layout: Layout, first: int, indent: bytes) -> int:
    top = first
    while top > 1:
        text = layout.line_bytes(top - 1)
        if not (text.startswith(indent + b"#") and not _FOREIGN.search(text.strip())):
            break
        top -= 1
    # A licence, or a word on the whole file.
    return first if top == 1 else top


def _comments_below(layout: Layout, bottom: int, indent: bytes) -> int:
    """The last comment line that is indented more than the statement, before anything else."""
    last = bottom
    for line in range(bottom + 1, layout.lines + 1):
        text = layout.line_bytes(line)
        bare = text.strip()
        if not bare:
            continue
        if not bare.startswith(b"#") or not (text.startswith(indent) and text[len(indent) : len(indent) + 1] in b" \t"):
            break
        last = line
    return last


def _is_blank(layout: Layout, line: int) -> bool:
    return 1 <= line <= layout.lines and not layout.line_bytes(line).strip(b" \t") and _offset(layout, line) < len(
        layout.source
    )


def _blanks(layout: Layout, top: int, bottom: int) -> tuple[int, int]:
    before = after = 0
    while _is_blank(layout, top - 1 - before):
        before += 1
    while _is_blank(layout, bottom + 1 + after):
        after += 1
    if _offset(layout, bottom + 1 + after) >= len(layout.source) or 0 < before <= after:
        return top - before, bottom
    # At the top of the file, or first in a block.
    header = layout.line_bytes(top - 1 - before).rstrip() if top - 1 - before >= 1 else b":"
    if (before and before > after) or header.endswith(b":"):
        return top, bottom + after
    return top, bottom
