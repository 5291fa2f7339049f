"""Bodies that raise in the place of bodies that work, by splicing bytes."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Sequence

import libcst as cst

from taskforge.languages import SkippedFile
from taskforge.model import Symbol

__all__ = ["check_parses", "replacement", "stub_module", "stub_start"]

_RAISE = b"raise NotImplementedError"
_NEWLINE = re.compile(rb"\r\n|\r|\n")


def stub_module(source: bytes, symbols: Sequence[Symbol], *, keep_docstrings: bool = True) -> bytes:
    """See :meth:`taskforge.languages.Language.stub`. Decorators, signature and function kind stay."""
    result = source
    later = len(source) + 1
    for symbol in sorted(symbols, key=lambda it: it.body.start, reverse=True):
        start, end = symbol.body.start, symbol.body.end
        if start >= end:
            raise SkippedFile("empty_body", f"{symbol.key} has no statement besides its docstring")
        if end > min(later, len(source)):
            raise SkippedFile("stale_index", f"{symbol.key} overlaps another symbol, or lies past the end of the file")
        start = later = stub_start(symbol, keep_docstrings=keep_docstrings)
        result = result[:start] + replacement(source, symbol, start) + result[end:]
    if symbols:
        check_parses(source, result, symbols[0].path)
    return result


def stub_start(symbol: Symbol, *, keep_docstrings: bool) -> int:
    """Where a stub begins: behind the docstring, or at it."""
    if keep_docstrings or symbol.docstring_span is None:
        return symbol.body.start
    return symbol.docstring_span.start


def replacement(source: bytes, symbol: Symbol, start: int) -> bytes:
    """What stands in the place of a body: an exception of the function's kind, in the style of the file."""
    yields = symbol.flavour in {"generator", "async_generator"}
    lines = source[start : symbol.body.end].splitlines(keepends=True)
    newlines = _NEWLINE.findall(source, 0, start)
    newline: bytes = newlines[-1] if newlines else b"\n"
    before = re.split(rb"[\r\n]", source[:start])[-1]
    if not before and lines[0].lstrip().startswith(b"#"):
        # The span begins with whole comment lines: the indent is that of the first line of code.
        code = next(line for line in lines if line.strip() and not line.lstrip().startswith(b"#"))
        indent = code[: len(code) - len(code.lstrip())]
        return indent + _RAISE + (newline + indent + b"yield" if yields else b"")
    continued = source[: start - len(before)].rstrip(b"\r\n").endswith(b"\\")
    if not yields:
        return _RAISE
    if before.strip() or continued or not newlines:
        return _RAISE + b"; yield"
    return _RAISE + newline + before + b"yield"


def _parses(source: bytes) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True


def check_parses(source: bytes, result: bytes, path: str, *, reason: str = "stub_does_not_parse") -> None:
    """Refuse a result that does not parse. This interpreter judges, unless the file is written for a newer one.

    Raises:
        SkippedFile: with ``reason``.
    """
    if _parses(result):
        return
    if not _parses(source):
        try:
            cst.parse_module(result)
        except (cst.ParserSyntaxError, SyntaxError, UnicodeError, LookupError, RecursionError) as problem:
            raise SkippedFile(reason, f"the edited {path} does not parse: {problem}") from problem
        return
    raise SkippedFile(reason, f"the edited {path} does not parse")
