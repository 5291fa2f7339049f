"""Where a parsed module's nodes lie in the bytes of its file.

libcst counts bytes in its own UTF-8 rendering of the module. That rendering equals the file only for UTF-8 without a
byte order mark, and libcst drops some characters that are legal (a form feed on the first line). So the mapping is
proven for each file, and a file for which it cannot be is not touched.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import libcst as cst
from libcst._nodes.internal import CodegenState
from typing_extensions import override

from taskforge.languages import SkippedFile
from taskforge.languages.python.depth import is_too_deep

__all__ = ["Layout"]

_NEWLINE = re.compile(rb"\r\n|\r|\n")


def _parse(source: bytes) -> cst.Module:
    try:
        return cst.parse_module(source)
    except cst.ParserSyntaxError as problem:
        raise SkippedFile("parser_refuses", f"libcst cannot parse it: {problem.message[:300]}") from problem
    except (SyntaxError, UnicodeError, LookupError) as problem:
        raise SkippedFile("undecodable", f"its text cannot be decoded: {str(problem)[:300]}") from problem
    except RecursionError as problem:
        raise SkippedFile("too_deep", "it is nested too deeply for the parser") from problem
    except Exception as problem:
        # The parser has died of legal files with errors of every kind; one file must not end the repository.
        raise SkippedFile("parser_fails", f"libcst fails on it with {type(problem).__name__}") from problem


@dataclass
class _Spans(CodegenState):
    """Start and end of every node in the rendering, in bytes of UTF-8, noted while it is made.

    libcst's own provider does the same, and then visits the whole tree once more, and gives no text.
    """

    position: int = 0
    spans: dict[cst.CSTNode, tuple[int, int]] = field(default_factory=dict)
    _starts: list[int] = field(default_factory=list)

    @override
    def add_indent_tokens(self) -> None:
        super().add_indent_tokens()
        for token in self.indent_tokens:
            self._move(token)

    @override
    def add_token(self, value: str) -> None:
        super().add_token(value)
        self._move(value)

    def _move(self, text: str) -> None:
        self.position += len(text) if text.isascii() else len(text.encode())

    @override
    def before_codegen(self, node: cst.CSTNode) -> None:
        self._starts.append(self.position)

    @override
    def after_codegen(self, node: cst.CSTNode) -> None:
        start = self._starts.pop()
        if node not in self.spans:
            self.spans[node] = (start, self.position)

    @override
    @contextmanager
    def record_syntactic_position(
        self, node: cst.CSTNode, *, start_node: cst.CSTNode | None = None, end_node: cst.CSTNode | None = None
    ) -> Iterator[None]:
        start = self.position
        yield
        first = self.spans[start_node][0] if start_node is not None else start
        self.spans[node] = (first, self.spans[end_node][1] if end_node is not None else self.position)


class Layout:
    """A parsed module beside its bytes. Offsets are into ``source``; lines are counted from 1."""

    def __init__(self, source: bytes) -> None:
        """Parse.

        Raises:
            SkippedFile: when libcst refuses the file or does not give back its bytes.
        """
        self.source = source
        if is_too_deep(source):
            raise SkippedFile("too_deep", "it is nested too deeply to be parsed safely")
        module = _parse(source)
        try:
            state = _Spans(default_indent=module.default_indent, default_newline=module.default_newline)
            module._codegen(state)
            code = "".join(state.tokens)
        except (RecursionError, KeyError) as problem:
            raise SkippedFile("too_deep", "it is nested too deeply for the parser") from problem
        self._spans = state.spans
        self.module = module
        self.encoding = "utf-8" if module.encoding == "utf-8-sig" else module.encoding
        self._prove(code)
        self._line_starts = [0, *(found.end() for found in _NEWLINE.finditer(source))]

    def _prove(self, code: str) -> None:
        """Find how libcst's offsets map to the file's; refuse when its rendering is not the file."""
        self._bom = len(BOM_UTF8) if self.source.startswith(BOM_UTF8) else 0
        try:
            rendered = code.encode(self.encoding)
        except UnicodeError as problem:
            raise SkippedFile("not_round_trip", f"{self.encoding} cannot hold its text: {problem}") from problem
        if rendered != self.source[self._bom :]:
            raise SkippedFile("not_round_trip", "libcst does not give back the bytes of this file")
        utf8 = code.encode()
        self._utf8 = None if utf8 == rendered else utf8

    def _offset(self, counted: int) -> int:
        if self._utf8 is None:
            return self._bom + counted
        return self._bom + len(self._utf8[:counted].decode().encode(self.encoding))

    def start(self, node: cst.CSTNode) -> int:
        return self._offset(self._spans[node][0])

    def end(self, node: cst.CSTNode) -> int:
        return self._offset(self._spans[node][1])

    def line(self, offset: int) -> int:
        return bisect_right(self._line_starts, offset)

    def line_start(self, line: int) -> int:
        return self._line_starts[line - 1]

    def line_bytes(self, line: int) -> bytes:
        """Without its newline; empty past the last one."""
        if line > len(self._line_starts):
            return b""
        end = self._line_starts[line] if line < len(self._line_starts) else len(self.source)
        return self.source[self._line_starts[line - 1] : end].rstrip(b"\r\n")

    @property
    def lines(self) -> int:
        return len(self._line_starts)

    def text(self, start: int, end: int) -> str:
        return self.source[start:end].decode(self.encoding)
