"""The text of a patch: which files it names, and whether its hunks hold what their headers say."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field

from taskforge.errors import BadSubmission

__all__ = ["Hunk", "PatchedFile", "parse_patch", "stripped"]

_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)\Z", re.DOTALL)
_ESCAPES = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}
_ESCAPE = re.compile(rb'\\([0-7]{3}|[abtnvfr"\\])')
_NOTHING = b"/dev/null"


@dataclass(frozen=True)
class Hunk:
    """One hunk, to be checked against the file as it is."""

    header: bytes
    start: int
    """Line of the old file, from 1; with no old lines, the line that it comes after."""
    old: tuple[bytes, ...]
    """Old lines, context included, without their newlines."""
    bare: bool
    """No line of context around it, as ``diff -U0`` makes them."""

    def fits(self, lines: list[bytes]) -> bool:
        """Whether its old lines stand exactly where it says."""
        first = self.start - 1 if self.old else self.start
        return 0 <= first <= len(lines) and tuple(lines[first : first + len(self.old)]) == self.old


@dataclass
class PatchedFile:
    """One file of a patch. Names as they stand there, quotes undone; None is /dev/null or not said."""

    old: bytes | None = None
    new: bytes | None = None
    is_new: bool = False
    is_deletion: bool = False
    is_gitlink: bool = False
    bare_old: bytes | None = None
    """From ``rename from`` and ``copy from``, which have one leading part less."""
    bare_new: bytes | None = None
    hunks: list[Hunk] = field(default_factory=list)

    @property
    def has_prefix(self) -> bool:
        return all(name is None or name[:2] in {b"a/", b"b/"} for name in (self.old, self.new))

    def source(self, depth: int) -> str | None:
        """The path that must exist, with ``depth`` leading parts stripped; None when it has not that many."""
        if self.bare_old is not None:
            return stripped(self.bare_old, max(depth - 1, 0))
        name = self.old if self.old is not None else self.new
        return None if name is None else stripped(name, depth)

    def target(self, depth: int) -> str | None:
        """The path that is written."""
        if self.bare_new is not None:
            return stripped(self.bare_new, max(depth - 1, 0))
        name = self.new if self.new is not None else self.old
        return None if name is None else stripped(name, depth)


def stripped(name: bytes, depth: int) -> str | None:
    """``name`` without its ``depth`` first parts; None when it has not that many."""
    parts = name.split(b"/", depth)
    return os.fsdecode(parts[depth]) if len(parts) > depth else None


def parse_patch(data: bytes) -> tuple[bytes, list[PatchedFile]]:
    """The patch, mended where only one reading is possible, and its files.

    Raises:
        BadSubmission: when there is no diff in it, or a hunk that can be read in two ways; it names the hunk.
    """
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    files: list[PatchedFile] = []
    out: list[bytes] = []
    at = 0
    # A plain diff has no `diff --git` lines: there, `---` begins a file.
    open_header = False
    while at < len(lines):
        line = lines[at]
        if line.startswith(b"diff --git "):
            files.append(_from_git_line(line[11:]))
            open_header = True
        elif line.startswith(b"--- ") and at + 1 < len(lines) and lines[at + 1].startswith(b"+++ "):
            if not open_header:
                files.append(PatchedFile())
            _take_names(files[-1], line[4:], lines[at + 1][4:])
            open_header = False
            out.append(line)
            at += 1
        elif files and (found := _HUNK.match(line)):
            taken, at = _hunk(lines, at, found, files[-1])
            files[-1].hunks.append(_read_hunk(taken, int(found[1])))
            out += taken
            open_header = False
            continue
        elif files:
            _take_extended(files[-1], line)
        out.append(lines[at])
        at += 1
    if not files:
        raise BadSubmission("the submission is no patch: there is no diff in it", hint="make it with `git diff`")
    return b"\n".join(out) + b"\n", files


def _hunk(lines: list[bytes], at: int, found: re.Match[bytes], file: PatchedFile) -> tuple[list[bytes], int]:
    """The hunk whose header is line ``at``, its counts set right, and the line after it."""
    old, new = (int(found[group]) if found[group] is not None else 1 for group in (2, 4))
    end = at + 1
    left_old, left_new = old, new
    while end < len(lines) and (left_old > 0 or left_new > 0):
        mark = lines[end][:1]
        if mark not in {b" ", b"+", b"-", b"\\", b""}:
            break
        left_old -= mark in {b" ", b"-", b""}
        left_new -= mark in {b" ", b"+", b""}
        end += 1
    if end < len(lines) and lines[end].startswith(b"\\"):
        end += 1
    if left_old == left_new == 0 and (end == len(lines) or not _goes_on(lines, end)):
        return lines[at:end], end
    if end == len(lines) and left_old == left_new > 0 and left_old <= 3:
        # Blank context at the very end is what a strip of the whole text takes away. git still compares it.
        return [*lines[at:end], *[b" "] * left_old], end
    body, end = _body(lines, at, file)
    counts = [sum(line[:1] in marks for line in body) for marks in ((b" ", b"-", b""), (b" ", b"+", b""))]
    header = b"@@ -%s,%d +%s,%d @@%s" % (found[1], counts[0], found[3], counts[1], found[5])
    return [header, *body], end


def _read_hunk(taken: list[bytes], start: int) -> Hunk:
    body = [line for line in taken[1:] if not line.startswith(b"\\")]
    context = any(line[:1] in {b" ", b""} for line in body)
    return Hunk(taken[0], start, tuple(line[1:] for line in body if line[:1] != b"+"), not context)


def _goes_on(lines: list[bytes], at: int) -> bool:
    line = lines[at]
    return line[:1] in {b" ", b"+", b"-"} and line != b"-- " and not _begins_file(lines, at)


def _begins_file(lines: list[bytes], at: int) -> bool:
    return lines[at].startswith(b"--- ") and at + 1 < len(lines) and lines[at + 1].startswith(b"+++ ")


def _body(lines: list[bytes], at: int, file: PatchedFile) -> tuple[list[bytes], int]:
    """All lines up to the next hunk or file: the reading that does not trust the counts."""
    end = at + 1
    while end < len(lines) and lines[end][:1] in {b" ", b"+", b"-", b"\\", b""}:
        if _begins_file(lines, end):
            if end + 2 < len(lines) and _HUNK.match(lines[end + 2]):
                break
            raise _two_readings(lines[at], file)
        if lines[end] == b"-- ":
            raise _two_readings(lines[at], file)
        end += 1
    body = lines[at + 1 : end]
    while body and body[-1] == b"":
        body.pop()
    if not body:
        raise _two_readings(lines[at], file)
    return body, end


def _two_readings(header: bytes, file: PatchedFile) -> BadSubmission:
    name = os.fsdecode(file.new or file.old or b"?")
    return BadSubmission(
        f"the counts of hunk {os.fsdecode(header)!r} of {name!r} do not match its lines",
        hint="make the patch with `git diff` instead of by hand",
    )


def _from_git_line(rest: bytes) -> PatchedFile:
    """Both names of a ``diff --git`` line; only used where no other line says them, and there they are the same."""
    if rest.startswith(b'"'):
        end = re.match(rb'"(?:[^"\\]|\\.)*"', rest)
        if end:
            return PatchedFile(old=_unquoted(end[0]), new=_unquoted(rest[end.end() + 1 :]))
    for i, char in enumerate(rest):
        left, right = rest[:i], rest[i + 1 :]
        if char == 0x20 and (left == right or left.partition(b"/")[2] == right.partition(b"/")[2] != b""):
            return PatchedFile(old=left, new=right)
    return PatchedFile()


def _take_names(file: PatchedFile, old: bytes, new: bytes) -> None:
    names = [_unquoted(name.rstrip(b"\r")) for name in (old, new)]
    file.is_new = file.is_new or names[0] == _NOTHING
    file.is_deletion = file.is_deletion or names[1] == _NOTHING
    file.old, file.new = (None if name == _NOTHING else name for name in names)


def _take_extended(file: PatchedFile, line: bytes) -> None:
    if line.startswith(b"new file mode "):
        file.is_new = True
    elif line.startswith(b"deleted file mode "):
        file.is_deletion = True
    elif line.startswith((b"rename from ", b"copy from ")):
        file.bare_old = _unquoted(line.partition(b" from ")[2])
    elif line.startswith((b"rename to ", b"copy to ")):
        file.bare_new = _unquoted(line.partition(b" to ")[2])
    modes = (b"new file mode 160000", b"new mode 160000", b"old mode 160000", b"deleted file mode 160000")
    file.is_gitlink = file.is_gitlink or line.startswith(modes)


def _unquoted(name: bytes) -> bytes:
    if name.startswith(b'"'):
        inner = name[1 : name.rfind(b'"')]
        return _ESCAPE.sub(
            lambda m: bytes([int(m[1], 8) & 255]) if len(m[1]) == 3 else _ESCAPES.get(m[1], m[1]), inner
        )
    # A time stamp may follow after a tab.
    return name.partition(b"\t")[0]
