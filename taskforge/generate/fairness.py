"""Whether a solver can know what the hidden tests ask for: by reading alone, nothing is run.

Each import, attribute, keyword, class of error, matched message and exact value that a hidden test uses *of the removed
code* has to occur in the statement or in the workspace. What does not is a hole. Objects are not followed: a name that
the removed code defines, and that nothing readable holds, is a hole whatever it hangs on.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

from taskforge.generate.statement_compares import compares_in, may_come_of
from taskforge.generate.statement_formats import Format, formats_in, last_name, numbers_in
from taskforge.generate.statement_gone import Definition, Gone, definitions, gone_between, is_product_source, parse
from taskforge.generate.statement_known import Bindings, Known
from taskforge.generate.statement_places import inline
from taskforge.generate.statement_uses import Use, relevant, uses_in
from taskforge.model import Tree
from taskforge.model.base import Value

__all__ = ["Hole", "Judge", "members_of", "set_on_self", "shown"]

#: A text longer than this is no fact to be told but the answer itself.
_LONGEST: Final = 300
#: What a test expects of ``repr`` and the like may be longer: it shows no code.
_SHOWN: Final = 1000
#: Of a matched message's words, those that a format must hold to be taken for its source.
_SHARE: Final = 0.6
_DRAWS: Final = frozenset(
    {"random", "randrange", "randint", "getrandbits", "shuffle", "choice", "choices", "sample", "uniform", "gauss"}
)
_REPRS: Final = frozenset({"__repr__", "__str__", "__format__", "__bytes__"})


class Hole(Value):
    """One thing that a hidden test asks for and that nobody says."""

    kind: Literal["import", "attribute", "keyword", "exception", "message", "value", "text", "patched", "random"]
    what: str
    where: str
    """``path::qualname`` of the test, fixture or helper that uses it first."""
    tell: str
    """Markdown that fills it, made of the removed code's names and texts; empty when nothing fair can be said."""


def shown(text: Format) -> str:
    """A text as a statement shows it: literally where that is clear, else as Python would."""
    if text.binary:
        return repr(text.text.encode("latin-1", "replace")) if text.exact else text.text
    return text.text if text.text.isprintable() and text.text.strip() == text.text else repr(text.text)


def members_of(node: ast.ClassDef) -> list[str]:
    """Names that a class defines: methods, fields, and what its methods set on ``self``."""
    own = ast.Module(body=node.body, type_ignores=[])
    return list(dict.fromkeys([*(name for name, _ in definitions(own) if "." not in name), *set_on_self(node)]))


def set_on_self(node: ast.AST) -> Iterator[str]:
    """Attributes that code sets on any object, and the fields of named tuples that it makes."""
    for it in ast.walk(node):
        if isinstance(it, ast.Attribute) and isinstance(it.ctx, ast.Store) and isinstance(it.value, ast.Name):
            yield it.attr
        elif isinstance(it, ast.Call) and last_name(it.func) in {"setattr", "__setattr__"} and len(it.args) == 3:
            name = it.args[1]
            yield from [name.value] if isinstance(name, ast.Constant) and isinstance(name.value, str) else []
        elif isinstance(it, ast.Call) and last_name(it.func) in {"namedtuple", "NamedTuple", "make_dataclass"}:
            for text in ast.walk(it):
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    yield from re.findall(r"[^\W\d]\w*", text.value)


def _names(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text))


class Judge:
    """Everything about one removal that does not depend on the statement."""

    def __init__(self, before: Tree, after: Tree, hidden: Mapping[str, bytes], required: Sequence[str]) -> None:
        """
        Args:
            before: the original tree.
            after: the sealed workspace.
            hidden: path -> bytes, of the tests that the workspace does not show.
            required: ids of the tests that have to pass.

        Raises:
            TaskRejected: ``statement_unclear`` when a file cannot be read.
        """
        self.gone: tuple[Gone, ...] = gone_between(before, after)
        self.known = Known(after)
        self.before, self.after = Bindings(before), Bindings(after)
        self._called = {it.owner.rpartition(".")[2] if it.name.startswith("__") else it.name for it in self.gone}
        self._code: list[ast.AST] = [it.node for it in self.gone]
        self._uses: list[Use] = []
        self._numbers: dict[str, str] = {}
        self._seeded = ""
        # What tests import of each other is laid over a submission with them.
        modules = [name for name, path in self.before.paths.items() if is_product_source(path)]
        for path, source in hidden.items():
            if path.endswith(".py"):
                parts = relevant(path, source, required)
                self._uses += [*uses_in(parts, modules), *compares_in(parts)]
                self._seeded = self._seeded or next((where for where, part in parts if _seeds(part)), "")
                for where, part in parts:
                    self._numbers.update(dict.fromkeys(numbers_in([part]), where) | self._numbers)
        self.wanted: frozenset[str] = frozenset(it.what for it in self._uses if it.kind in ("import", "attribute"))
        """Names that hidden tests import, or read of something."""
        self._formats = formats_in(self._code)
        self._reprs = formats_in(
            node for it in self.gone for _, node in _functions(it) if getattr(node, "name", "") in _REPRS
        )
        self._shows = self._text_makers(after)
        self._members = {name: it.qualname for it in self.gone if isinstance(it.node, ast.ClassDef)
                         for name in members_of(it.node)}  # fmt: skip
        self._sets = {name: it.qualname for it in reversed(self.gone) if not isinstance(it.node, ast.ClassDef)
                      for name in [it.name, *set_on_self(it.node)]}  # fmt: skip
        self._mentioned = {last_name(node) for it in self._code for node in ast.walk(it) if isinstance(node, ast.expr)}
        self._taken = {arg.arg for it in self._code for node in ast.walk(it) if isinstance(node, ast.arguments)
                       for arg in [*node.posonlyargs, *node.args, *node.kwonlyargs]}  # fmt: skip

    def holes(self, statement: str) -> tuple[Hole, ...]:
        """What hidden tests use of the removed code that neither ``statement`` nor the workspace holds, each once."""
        words = _names(statement)
        found: dict[tuple[str, str], Hole] = {}
        for use in self._uses:
            for hole in self._of(use, statement, words):
                found.setdefault((hole.kind, hole.tell or hole.what), hole)
        own = numbers_in(self._code)
        for number, where in self._numbers.items():
            if number in own and not _holds(statement, number) and not _holds(self.known.text, number):
                found[("value", number)] = Hole(kind="value", what=number, where=where, tell=f"`{number}`")
        if self._seeded and _DRAWS & self._mentioned:
            # What a seeded generator gives depends on every call, in its order: that is the body itself.
            found[("random", "")] = Hole(kind="random", what="the draws after a seed", where=self._seeded, tell="")
        return tuple(found.values())

    def _of(self, use: Use, statement: str, words: frozenset[str]) -> Iterator[Hole]:
        if use.kind == "import":
            yield from self._import(use, statement)
        elif use.kind == "attribute":
            yield from self._attribute(use, words)
        elif use.kind == "keyword":
            yield from self._keyword(use, words)
        elif use.kind == "exception" and use.what not in words and use.among & self._called:
            yield Hole(kind="exception", what=use.what, where=use.where, tell=f"`{use.what}`")
        elif use.kind == "message":
            yield from self._text("message", use, self._sources(use.what), statement)
        elif use.kind == "text":
            yield from self._text("value", use, self._equal(use.what), statement)
        elif use.kind == "piece":
            told = [it for it in self._formats if len(shown(it)) <= _LONGEST and may_come_of(use.what, it)]
            yield from self._text("value", use, told, statement)
        elif use.kind == "shown":
            yield from self._shown(use, statement)
        elif use.kind == "patched":
            yield from self._patched(use, words)

    def _import(self, use: Use, statement: str) -> Iterator[Hole]:
        module, name = use.of, use.what
        if not name:
            if module not in self.after and f"`{module}`" not in statement:
                yield Hole(kind="import", what=module, where=use.where, tell=f"the module `{module}`")
            return
        if f"{module}.{name}" in self.after or name in self.after.of(module):
            return
        phrase = f"from {module} import {name}"
        if module in self.before and name not in self.before.of(module) and f"{module}.{name}" not in self.before:
            # Bound by no statement that can be read: by __getattr__, globals() or the like. Not of the removed code
            # unless its module went, too.
            if module in self.after:
                return
            yield Hole(kind="import", what=f"{module}.{name}", where=use.where, tell="")
        elif phrase not in statement:
            yield Hole(kind="import", what=f"{module}.{name}", where=use.where, tell=f"`{phrase}`")

    def _attribute(self, use: Use, words: frozenset[str]) -> Iterator[Hole]:
        name = use.what
        if name in words or name.startswith("__"):
            return
        owner = self._members.get(name) or (self._sets.get(name) if name not in self.known.members else None)
        if owner:
            yield Hole(kind="attribute", what=name, where=use.where, tell=f"`.{name}`, of `{owner}`")

    def _keyword(self, use: Use, words: frozenset[str]) -> Iterator[Hole]:
        name = use.what
        if use.of not in self._called or name in words or name in self.known.keywords:
            return
        if name in self._taken or any(text.text == name for text in self._formats):
            yield Hole(kind="keyword", what=f"{use.of}({name}=)", where=use.where, tell=f"`{name}=`, of `{use.of}`")

    def _patched(self, use: Use, words: frozenset[str]) -> Iterator[Hole]:
        name = use.what.rpartition(".")[2]
        if name.isidentifier() and name in self._mentioned and name not in words:
            yield Hole(kind="patched", what=use.what, where=use.where, tell=f"`{use.what}`")

    def _text(
        self, kind: Literal["message", "value"], use: Use, texts: Iterable[Format], statement: str
    ) -> Iterator[Hole]:
        wanted = use.what.strip()
        if (len(wanted) > 3 and (wanted in self.known.text or wanted in statement)) or _holds(self.known.text, wanted):
            return
        for text in texts:
            if not _holds(statement, shown(text)):
                tell = inline(shown(text)) if len(shown(text)) <= _LONGEST else ""
                yield Hole(kind=kind, what=use.what, where=use.where, tell=tell)

    def _shown(self, use: Use, statement: str) -> Iterator[Hole]:
        """What ``repr`` or ``str`` of something is to be, where removed code makes that text."""
        if not self._shows & (use.among | _names(use.what)):
            return
        expression, _, verb = use.of.partition("\0")
        text = use.what if use.what.isprintable() and use.what.strip() == use.what else repr(use.what)
        tell = f"{inline(expression)} {verb} {inline(text)}" if len(text) <= _SHOWN else ""
        if text and (not tell or tell not in statement):
            yield Hole(kind="text", what=f"{expression} {verb} {use.what}", where=use.where, tell=tell)

    def _text_makers(self, after: Tree) -> frozenset[str]:
        """Names of the classes whose ``repr``, ``str`` or format is removed code, or is made with the help of it."""
        found = {it.owner.rpartition(".")[2] for it in self.gone if it.name in _REPRS}
        for it in self.gone:
            if isinstance(it.node, ast.ClassDef):
                found |= {it.name for name in members_of(it.node) if name in _REPRS}
        called = {it for it in self._called if not it.startswith("__")}
        for path, entry in after.items():
            if is_product_source(path) and entry.kind != "link" and any(it.encode() in entry.data for it in _REPRS):
                for name, node in definitions(parse(entry.data, path)):
                    if name.rpartition(".")[2] in _REPRS and any(
                        last_name(it.func) in called for it in ast.walk(node) if isinstance(it, ast.Call)
                    ):
                        found.add(name.split(".")[-2] if "." in name else "")
        return frozenset(found - {""})

    def _sources(self, piece: str) -> list[Format]:
        """The texts of the removed code that a matched piece of a message most likely is of."""
        whole = [it for it in self._formats if any(part and piece.strip() in part for part in it.parts)]
        if whole:
            return whole[:1]
        words = frozenset(re.findall(r"[^\W\d_]{2,}", piece.lower()))
        scored = [(len(words & it.words) / len(words), at) for at, it in enumerate(self._formats) if words]
        best = max(scored, default=(0.0, 0), key=lambda it: (it[0], -it[1]))
        return [self._formats[best[1]]] if best[0] >= _SHARE else []

    def _equal(self, text: str) -> list[Format]:
        """The texts of the removed code that a test spells out."""
        found = [it for it in self._formats if it.exact and it.letters >= 3 and it.text == text]
        long = [
            it
            for it in self._formats
            if it not in found
            and (it.letters >= 8 if it.exact else it.letters >= 4 or (it.letters >= 3 and it.longest >= 5))
            and (it.text in text if it.exact else it.pattern.search(text))
        ]
        reprs = [it for it in self._reprs if it.letters < 4 and it.marks and it.pattern.fullmatch(text)]
        return [*found, *long, *reprs]


def _functions(gone: Gone) -> Iterator[tuple[str, ast.stmt]]:
    if isinstance(gone.node, ast.ClassDef):
        yield from definitions(ast.Module(body=gone.node.body, type_ignores=[]))
    elif isinstance(gone.node, Definition):
        yield gone.name, gone.node


def _seeds(part: ast.AST) -> bool:
    """Whether a test sets the state of a generator of random numbers."""
    calls = (it for it in ast.walk(part) if isinstance(it, ast.Call))
    return any(last_name(it.func) in {"seed", "Random", "default_rng"} for it in calls)


def _holds(text: str, piece: str) -> bool:
    """Whether ``piece`` stands in ``text`` as a word of its own."""
    at = text.find(piece)
    while at >= 0 and piece:
        before, after = text[at - 1 : at], text[at + len(piece) : at + len(piece) + 1]
        joined = (piece[0].isalnum() and (before.isalnum() or before == "_")) or (
            piece[-1].isalnum() and (after.isalnum() or after == "_")
        )
        if not joined:
            return True
        at = text.find(piece, at + 1)
    return not piece
