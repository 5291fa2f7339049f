"""Whether a statement gives away what was removed: a line of code, or a run of its tokens."""

from __future__ import annotations

import ast
import io
import re
import textwrap
import tokenize
import warnings
from collections.abc import Iterable, Mapping
from typing import Final

from taskforge.generate.statement_gone import Definition, decode, definitions, head_text

__all__ = ["body_lines", "lines_of_body_in", "shared_run"]

_TELLING: Final = 12
"""Characters from which a line of code is worth looking for."""
_RUN: Final = 8
#: Code that every statement may hold.
_PHRASES: Final = frozenset({"raise NotImplementedError", "NotImplementedError"})
_FENCED = re.compile(r"^(`{3,})(\w*)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
_TOKEN = re.compile(r"\w+|[^\w\s]")


def body_lines(removed: Iterable[bytes]) -> frozenset[str]:
    """Lines of code, stripped, that are the answer: 12 characters or more. Heads of definitions, their decorators and
    docstrings are not, nor is what lies within a string of several lines: a statement has to tell those."""
    found: set[str] = set()
    for data in removed:
        text = decode(data)
        lines = text.splitlines()
        open_lines = _told_lines(text)
        found.update(line.strip() for at, line in enumerate(lines, 1) if at not in open_lines)
    return frozenset(line for line in found if len(line) >= _TELLING and line not in _PHRASES)


def _told_lines(text: str) -> set[int]:
    """Numbers of the lines that are no secret. Empty when the piece cannot be read alone."""
    whole = _standing_alone(text)
    if whole is None:
        return set()
    tree, source, shift = whole
    told: set[int] = set()
    for _, node in definitions(tree):
        if not isinstance(node, Definition):
            continue
        first = min([node.lineno, *(it.lineno for it in node.decorator_list)])
        told.update(range(first, first + head_text(source, node).count("\n") + 1))
        if ast.get_docstring(node) is not None:
            told.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.STRING:
                told.update(range(token.start[0] + 1, token.end[0]))
    except (tokenize.TokenError, IndentationError):
        # The parse has passed: the rest of the piece is what counts as told already.
        return {line - shift for line in told}
    return {line - shift for line in told}


def _standing_alone(text: str) -> tuple[ast.Module, str, int] | None:
    """A piece of a file as a module of its own: tree, source, and lines put above it. A body begins in the middle of a
    line, so that its first line has lost its indentation."""
    dedented = textwrap.dedent(text)
    indents = sorted({len(line) - len(line.lstrip()) for line in text.splitlines()[1:] if line.strip()})
    tries = [(dedented, 0), *((f"if 1:\n{' ' * width}{text}", 1) for width in indents if width)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for source, shift in tries:
            try:
                return ast.parse(source), source, shift
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                # The next indentation is tried; a piece that fits none is all secret.
                continue
    return None


def lines_of_body_in(statement_text: str, removed: Mapping[str, bytes]) -> list[str]:
    """Lines of removed code, 12 characters or more, that a statement shows.

    All of it is looked at but signatures, which are fenced as ``python``. In documentation, fenced as ``text``, a line
    counts when it is one of the code as a whole: a doctest that calls the function is none.

    Args:
        removed: symbol key -> bytes that are gone.
    """
    secret = body_lines(removed.values())
    documented = {
        line.strip()
        for fence in _FENCED.finditer(statement_text)
        if fence[2] == "text"
        for line in fence[3].splitlines()
    }
    prose = _FENCED.sub(lambda fence: "" if fence[2] in ("text", "python") else fence[0], statement_text)
    return sorted(line for line in secret if line in documented or line in prose)


def shared_run(text: str, removed: Iterable[bytes], allowed: str) -> str:
    """The first run of 8 tokens that ``text`` has in common with removed code and not with ``allowed``; or empty."""
    known = set(_runs(allowed))
    secret = {run for data in removed for run in _runs(decode(data))} - known
    return next((" ".join(run) for run in _runs(text) if run in secret), "")


def _runs(text: str) -> Iterable[tuple[str, ...]]:
    # Quotes, escapes and Markdown's marks do not hide a copy.
    words = [word for word in _TOKEN.findall(text) if word not in "`*\"'\\"]
    return [tuple(words[at : at + _RUN]) for at in range(len(words) - _RUN + 1)]
