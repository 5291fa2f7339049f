"""One section of a statement for each definition to be written: what it is, what it says of itself, who needs it."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from taskforge.errors import TaskRejected
from taskforge.generate.fairness import Judge, members_of
from taskforge.generate.statement_contract import contract, note_of
from taskforge.generate.statement_formats import last_name
from taskforge.generate.statement_gone import Definition, Gone, definitions, head_text, parse
from taskforge.generate.statement_places import counterparts, fenced, passages, sites
from taskforge.model import Tree

__all__ = ["Facts", "section"]

#: Values shown of constants and defaults, characters.
_VALUE: Final = 80
#: Lines of a class's documentation.
_DOCUMENTED: Final = 40
_NOUNS: Final = {"constant": "name"}


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What every section draws from."""

    judge: Judge
    after: Tree
    secret: Collection[str]
    """Lines of the removed code."""
    why_stub: Mapping[str, str] = field(default_factory=dict)
    """``path::qualname`` -> why a definition stays as a stub although it was to go."""
    tests_visible: bool = False
    quoted: set[tuple[str, str]] = field(default_factory=set)
    """Documentation that the sections so far have shown: kind and place. Once is enough."""

    def first(self, kind: str, place: str) -> bool:
        """Whether it was not shown before; from now on it was."""
        new = (kind, place) not in self.quoted
        self.quoted.add((kind, place))
        return new

    def documentation(self, text: str) -> str:
        """A docstring without the lines that are code of the removed bodies."""
        return "\n".join(line for line in text.split("\n") if line.strip() not in self.secret).strip("\n")

    def sites(self, gone: Gone) -> list[str]:
        return sites(gone, self.after, self.secret, self.judge.before)

    def mentioned(self, name: str) -> bool:
        return name in self.judge.known.members or name in self.judge.wanted


def section(group: Sequence[Gone], facts: Facts) -> list[str]:
    """Markdown paragraphs on all definitions of one name: overloads, or a property's getter and setter, are one.

    Raises:
        TaskRejected: ``undescribed`` when nothing that a solver may read says what it does, and the tests are hidden.
    """
    gone = group[-1]
    parts = [f"## `{gone.qualname}`", _what(group[0] if gone.stays else gone, facts)]
    if gone.kind == "constant":
        parts.append(_value(gone))
    else:
        parts.append(fenced("\n\n".join(it.head for it in group), "python"))
    told = [text for it in group if (text := facts.documentation(it.docstring))]
    for text in told:
        parts += ["Its documentation:", fenced(text, "text")]
    if isinstance(gone.node, ast.ClassDef):
        parts += _members(gone, gone.node, facts)
    parts += contract(group)
    beside = counterparts(gone, facts.after)
    callers = facts.sites(gone)
    documents = passages(gone, facts.after, facts.secret, common=bool(beside))
    if not told and gone.kind not in ("class", "constant"):
        note, owner = note_of(gone), _owner(gone, facts)
        known = {"its class": bool(owner), "its callers": bool(callers), "the documentation": bool(documents)}
        known |= {"the methods of the same name beside it": bool(beside), "the note above": bool(note)}
        parts += [f"A note in the code said: {note}"] if note else []
        parts.append(_undocumented(gone, facts, [source for source, there in known.items() if there]))
        if owner and facts.first("class", f"{gone.path}::{gone.owner}"):
            parts += [f"The documentation of `{gone.owner}`:", fenced(owner, "text")]
        if beside:
            parts.append(f"Other classes of the file have a method of this name: {', '.join(beside)}.")
    if callers:
        parts += ["Where the rest of the project names it:", "\n".join(callers)]
    if fresh := [(place, text) for place, text in documents if facts.first("document", place)]:
        parts.append("What the documentation says:")
        parts += [f"`{place}`\n\n{fenced(text, 'text')}" for place, text in fresh]
    return parts


def _what(gone: Gone, facts: Facts) -> str:
    noun = _NOUNS.get(gone.kind, gone.kind)
    if gone.stays:
        text = f"A {noun} in `{gone.path}`, line {gone.line}.{_flavour(gone.node)}"
        why = _why(next((facts.why_stub[key] for key in _whose(gone) if key in facts.why_stub), ""))
        return f"{text} Its head is still there: {why}." if why else text
    where = f"`{gone.path}`" if gone.path in facts.after else f"`{gone.path}`, a file that is gone"
    text = f"A {noun} of {where}.{_flavour(gone.node)}"
    if "." in gone.qualname or not (gone.public or gone.name in facts.judge.wanted):
        return text
    lines = [f"`from {module} import {gone.name}`" for module in facts.judge.before.places(gone.module, gone.name)]
    return f"{text} Import: {', '.join(lines)}."


def _why(reason: str) -> str:
    """Why a head is still there, in the words of somebody who never saw a removal planned."""
    user = re.fullmatch(r"(.+) imports it and holds tests that do not enter it", reason)
    if user:
        return f"`{user[1]}` imports it, and has tests that run without this code"
    return "" if reason == "the mode is stub" else reason


def _whose(gone: Gone) -> list[str]:
    """Keys under which a definition may have been kept: its own, and those of the classes around it."""
    parts = gone.qualname.split(".")
    return [f"{gone.path}::{'.'.join(parts[:end])}" for end in range(len(parts), 0, -1)]


def _flavour(node: ast.stmt) -> str:
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return ""
    yields = _yields(node.body)
    if isinstance(node, ast.AsyncFunctionDef):
        return " It is an asynchronous generator." if yields else " It is a coroutine."
    return " It is a generator." if yields else ""


def _yields(nodes: Sequence[ast.AST]) -> bool:
    """Whether there is a yield outside of inner functions."""
    inner = (*Definition.__args__, ast.Lambda)
    return any(
        isinstance(it, (ast.Yield, ast.YieldFrom))
        or (not isinstance(it, inner) and _yields(list(ast.iter_child_nodes(it))))
        for it in nodes
    )


def _value(gone: Gone) -> str:
    """What a constant is: its value where that is a plain one, else only what kind of thing."""
    node = gone.node
    value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
    note = f" It is annotated `{ast.unparse(node.annotation)}`." if isinstance(node, ast.AnnAssign) else ""
    if isinstance(value, ast.Constant) or (isinstance(value, ast.UnaryOp) and isinstance(value.operand, ast.Constant)):
        text = ast.unparse(value)
        if len(text) <= _VALUE:
            return f"Its value: `{text}`.{note}"
    if isinstance(value, ast.Call) and last_name(value.func):
        return f"It is made by calling `{ast.unparse(value.func)}`.{note}"
    kind = type(value).__name__.lower() if isinstance(value, (ast.Dict, ast.List, ast.Set, ast.Tuple)) else ""
    return f"It is a {kind}.{note}" if kind else f"A name at the top of the module.{note}"


def _members(gone: Gone, node: ast.ClassDef, facts: Facts) -> list[str]:
    """Fields, attributes and methods of a class, those that anybody may touch."""
    parts: list[str] = []
    own = list(definitions(ast.Module(body=node.body, type_ignores=[])))
    fields = [f"- {_field(name, it)}" for name, it in own if isinstance(it, ast.AnnAssign) and "." not in name]
    told = {name for name, _ in own}
    others = [name for name in members_of(node) if name not in told or not isinstance(dict(own)[name], Definition)]
    plain = [name for name in others if not any(field.startswith(f"- `{name}`") for field in fields)]
    plain = [name for name in plain if not name.startswith("_") or (facts.mentioned(name) and name[:2] != "__")]
    if fields:
        parts += ["Its fields:", "\n".join(fields)]
    if plain:
        parts.append(f"Its attributes: {', '.join(f'`{name}`' for name in plain)}.")
    shown: set[str] = set()
    for name, it in own:
        last = name.rpartition(".")[2]
        private = last.startswith("_") and not (last.startswith("__") and last.endswith("__"))
        if not isinstance(it, Definition) or (private and not facts.mentioned(last)):
            continue
        if name not in shown:
            parts.append(f"### `{gone.qualname}.{name}`{_flavour(it)}")
        shown.add(name)
        parts.append(fenced(head_text(gone.source, it), "python"))
        if text := facts.documentation((ast.get_docstring(it) or "").strip("\n")):
            parts.append(fenced(text, "text"))
        elif note := note_of(replace(gone, node=it, head=head_text(gone.source, it))):
            parts.append(f"A note in the code said: {note}")
    return parts


def _field(name: str, node: ast.AnnAssign) -> str:
    text = f"`{name}`: `{ast.unparse(node.annotation)}`"
    if node.value is None:
        return text
    value = ast.unparse(node.value)
    return f"{text}, default `{value}`" if len(value) <= _VALUE and "`" not in value else f"{text}, with a default"


def _owner(gone: Gone, facts: Facts) -> str:
    """The docstring of the class that a method belongs to, as the workspace has it."""
    if not gone.owner or gone.path not in facts.after:
        return ""
    for qualname, node in definitions(parse(facts.after[gone.path].data, gone.path)):
        if qualname == gone.owner and isinstance(node, ast.ClassDef):
            lines = facts.documentation((ast.get_docstring(node) or "").strip("\n")).split("\n")
            return "\n".join(lines[:_DOCUMENTED] + (["[...]"] if len(lines) > _DOCUMENTED else []))
    return ""


def _undocumented(gone: Gone, facts: Facts, sources: list[str]) -> str:
    if facts.tests_visible:
        sources.append("the tests")
    if sources:
        *most, last = sources
        who = f"{', '.join(most)} and {last}" if most else last
        return f"It has no docstring. What it does follows from {who}."
    if gone.name.startswith("__") and gone.name.endswith("__"):
        return f"It has no docstring: it is what the language calls for `{gone.name}`."
    users = [it.qualname for it in facts.judge.gone if it is not gone and _names(it.node, gone.name)]
    if users:
        return f"It has no docstring: it serves {', '.join(f'`{name}`' for name in users[:3])}."
    if gone.owner and len(facts.judge.gone) > 1 and _is_annotated(gone.node):
        return "It has no docstring, and no caller: it does what its name and its annotations say."
    raise TaskRejected(
        "undescribed", f"nothing that a solver may read says what {gone.qualname} does: no docstring, no caller"
    )


def _is_annotated(node: ast.stmt) -> bool:
    """Whether a method says the type of all that it takes and of what it returns."""
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or node.returns is None:
        return False
    taken = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return len(taken) > 1 and all(it.annotation is not None for it in taken[1:])


def _names(node: ast.AST, name: str) -> bool:
    return any(last_name(it) == name for it in ast.walk(node) if isinstance(it, ast.expr))
