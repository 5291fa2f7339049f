"""Takes statements, aliases and strings out of a module by splicing bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import libcst as cst

from taskforge.languages import SkippedFile
from taskforge.languages.python.index import decorated_start
from taskforge.languages.python.layout import Layout
from taskforge.languages.python.project.elements import Cut, cut_elements
from taskforge.languages.python.project.exports import export_statements
from taskforge.languages.python.project.margins import lines_of, newline_of, tidied
from taskforge.languages.python.stub import check_parses, replacement, stub_start
from taskforge.languages.python.syntax import children, suites
from taskforge.model import Symbol

__all__ = ["Edit", "Edited", "edit_module"]


@dataclass(slots=True)
class Edit:
    """What goes from one file, by offsets."""

    statements: set[int] = field(default_factory=set)
    """Starts of whole statements, decorators included."""
    aliases: set[int] = field(default_factory=set)
    """Starts of names in import statements."""
    strings: set[int] = field(default_factory=set)
    """Starts of strings in ``__all__``."""
    stubs: list[Symbol] = field(default_factory=list)
    keep_docstrings: bool = True

    def __bool__(self) -> bool:
        return bool(self.statements or self.aliases or self.strings or self.stubs)


@dataclass(frozen=True, slots=True)
class Edited:
    data: bytes
    emptied: tuple[tuple[int, int], ...]
    """Spans of compound statements that went because nothing was left in them."""


def edit_module(path: str, layout: Layout, edit: Edit) -> Edited:
    """The file without what ``edit`` names. Blocks that would be empty hold ``pass``; ``if``, ``try`` and ``with`` that
    would hold nothing else go.

    Raises:
        SkippedFile: ``layout_unclear`` or ``edit_does_not_parse``.
    """
    editor = _Editor(layout, edit)
    body = layout.module.body
    editor.decide(body)
    editor.emit(body)
    editor.strings(body)
    for symbol in edit.stubs:
        start = stub_start(symbol, keep_docstrings=edit.keep_docstrings)
        editor.cuts.append((start, symbol.body.end, replacement(layout.source, symbol, start)))
    data = _spliced(layout.source, editor.cuts)
    check_parses(layout.source, data, path, reason="edit_does_not_parse")
    return Edited(data, tuple(editor.emptied))


def _spliced(source: bytes, cuts: Iterable[Cut]) -> bytes:
    """Cuts may overlap; what stands in their place stays, in order."""
    result = bytearray()
    position = 0
    for start, end, instead in sorted(cuts, key=lambda it: (it[0], it[1])):
        if start < position and instead:
            # A stub within something that is gone.
            continue
        result += source[position:start] if start > position else b""
        result += instead
        position = max(position, end)
    return bytes(result + source[position:])


class _Editor:
    def __init__(self, layout: Layout, edit: Edit) -> None:
        self.cuts: list[Cut] = []
        self.emptied: list[tuple[int, int]] = []
        self._layout = layout
        self._edit = edit
        self._gone: set[cst.CSTNode] = set()

    def decide(self, body: Sequence[cst.CSTNode]) -> bool:
        """Mark the statements of a block that go; whether all of them do."""
        for statement in body:
            if self._decide(statement):
                self._gone.add(statement)
        return all(it in self._gone for it in body)

    def _decide(self, statement: cst.CSTNode) -> bool:
        if isinstance(statement, cst.SimpleStatementLine):
            return self.decide(statement.body)
        if decorated_start(self._layout, statement) in self._edit.statements:
            return True
        if isinstance(statement, (cst.Import, cst.ImportFrom)) and not isinstance(statement.names, cst.ImportStar):
            return all(self._layout.start(it) in self._edit.aliases for it in statement.names)
        if isinstance(statement, cst.ClassDef):
            self.decide(statement.body.body)
            return False
        inner = list(suites(statement))
        # Every block is looked at, whatever the first one says.
        empty = [self.decide(it.body) for it in inner]
        if isinstance(statement, (cst.If, cst.Try, cst.TryStar, cst.With)) and all(empty):
            self.emptied.append((self._layout.start(statement), self._layout.end(statement)))
            return True
        return False

    def emit(self, body: Sequence[cst.CSTNode], *, keep_block: bool = False) -> None:
        """Cut the marked statements of a block of lines."""
        gone = [it for it in body if it in self._gone]
        if keep_block and len(gone) == len(body):
            self.cuts.append(self._passed(gone.pop(0)))
        self.cuts += [(*span, b"") for span in tidied(self._layout, [self._lines(it) for it in gone])]
        for statement in body:
            if statement in self._gone:
                continue
            if isinstance(statement, cst.SimpleStatementLine):
                self._line(statement.body)
            elif isinstance(statement, cst.ClassDef):
                self._suite(statement.body)
            else:
                for suite in suites(statement):
                    self._suite(suite)

    def _suite(self, suite: cst.BaseSuite) -> None:
        if isinstance(suite, cst.IndentedBlock):
            self.emit(suite.body, keep_block=True)
        elif all(it in self._gone for it in suite.body):
            start, end = self._layout.start(suite.body[0]), self._layout.end(suite.body[-1])
            self.cuts.append((start, end, b"pass"))
        else:
            self._line(suite.body)

    def _lines(self, statement: cst.CSTNode) -> tuple[int, int]:
        start = decorated_start(self._layout, statement)
        compound = isinstance(statement, cst.BaseCompoundStatement)
        return lines_of(self._layout, start, self._layout.end(statement), compound=compound)

    def _passed(self, statement: cst.CSTNode) -> Cut:
        """A statement with ``pass`` in its place."""
        start = decorated_start(self._layout, statement)
        first, last = self._lines(statement)
        source = self._layout.source
        indent = source[self._layout.line_start(self._layout.line(start)) : start].rpartition(b"\f")[2]
        ending = newline_of(source, start) if source[first:last].endswith((b"\n", b"\r")) else b""
        return (first, last, indent + b"pass" + ending)

    def _line(self, smalls: Sequence[cst.CSTNode]) -> None:
        """Cut some of the statements of one line, or some of the names that they import."""
        kept = [index for index, it in enumerate(smalls) if it not in self._gone]
        for index, small in enumerate(smalls):
            if small in self._gone:
                if index < kept[-1]:
                    self.cuts.append((self._layout.start(small), self._layout.start(smalls[index + 1]), b""))
                else:
                    self.cuts.append((self._layout.end(smalls[kept[-1]]), self._layout.end(small), b""))
            elif isinstance(small, (cst.Import, cst.ImportFrom)) and not isinstance(small.names, cst.ImportStar):
                gone = {at for at, it in enumerate(small.names) if self._layout.start(it) in self._edit.aliases}
                items = [(self._layout.start(it), self._layout.end(it)) for it in small.names]
                brackets = isinstance(small, cst.ImportFrom) and small.lpar is not None
                self.cuts += cut_elements(self._layout, items, gone, brackets=brackets)

    def strings(self, body: Sequence[cst.CSTNode]) -> None:
        """Cut strings of the lists that make ``__all__``."""
        if self._edit.strings:
            for statement in export_statements(body):
                if statement.value is not None:
                    self._strings(statement.value)

    def _strings(self, node: cst.CSTNode) -> None:
        if not isinstance(node, (cst.List, cst.Tuple, cst.Set)):
            for child in children(node):
                self._strings(child)
            return
        values = [it.value for it in node.elements]
        gone = {at for at, it in enumerate(values) if self._layout.start(it) in self._edit.strings}
        if isinstance(node, cst.Set) and len(gone) == len(values):
            raise SkippedFile("layout_unclear", "a set in __all__ would be left empty, which has no literal")
        items = [(self._layout.start(it), self._layout.end(it)) for it in values]
        brackets = not isinstance(node, cst.Tuple) or bool(node.lpar)
        if gone:
            self.cuts += cut_elements(
                self._layout, items, gone, brackets=brackets, is_tuple=isinstance(node, cst.Tuple)
            )
        for at, value in enumerate(values):
            if at not in gone:
                self._strings(value)
