"""What a definition promises beyond its head: errors that it raises and catches, attributes that it sets, notes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Final

from taskforge.generate.fairness import set_on_self, shown
from taskforge.generate.statement_formats import GAP, last_name, raised_in
from taskforge.generate.statement_gone import Definition, Gone, definitions
from taskforge.generate.statement_places import inline

__all__ = ["contract", "note_of"]

_CODE = re.compile(r"[=(]\s*\w+[.(\[]|^\w+\s*=|^(?:return|raise|for|if|import|from)\b.*[:()]")
_SHORT = re.compile(r"\b(?:e\.g|i\.e)\.")
_CHORE = re.compile(r"(?:TODO|FIXME|XXX|HACK|pragma|noqa|type|pylint|fmt)\b")
#: Characters of a message.
_MESSAGE: Final = 200


def contract(group: Sequence[Gone]) -> list[str]:
    """The errors that it raises with their messages, those that it catches, and what an ``__init__`` leaves on its
    object. Of a class, each method's own."""
    errors: list[str] = []
    caught: list[str] = []
    for within, nodes in _functions(group):
        for name, messages in sorted(raised_in(nodes).items()):
            texts = [inline(shown(it)) for it in messages if it.letters and len(shown(it)) <= _MESSAGE]
            errors.append(f"- `{name}`{within}{', with the message ' if texts else ''}{' or '.join(texts)}")
        caught += [f"- {line}" for line in dict.fromkeys(_caught(nodes, group[-1].source, within))]
    gap = f" ({GAP} stands for a value)" if any(GAP in line for line in errors) else ""
    parts = [f"Errors and warnings that it raises{gap}:", "\n".join(errors)] if errors else []
    parts += ["Errors that it catches:", "\n".join(caught)] if caught else []
    gone = group[-1]
    if gone.name == "__init__" and (names := list(dict.fromkeys(set_on_self(gone.node)))):
        parts.append(f"Attributes that it sets: {', '.join(f'`{name}`' for name in names)}.")
    return parts


def _functions(group: Sequence[Gone]) -> Iterator[tuple[str, list[ast.stmt]]]:
    """Functions by name, with the words that name each; a function that stands alone needs none."""
    node = group[-1].node
    if not isinstance(node, ast.ClassDef):
        yield "", [it.node for it in group]
        return
    methods: dict[str, list[ast.stmt]] = {}
    for name, it in definitions(ast.Module(body=node.body, type_ignores=[])):
        if not isinstance(it, ast.ClassDef):
            methods.setdefault(name if isinstance(it, Definition) else "", []).append(it)
    for name, nodes in methods.items():
        yield f" in `{name}`" if name else "", nodes


def _caught(nodes: Sequence[ast.AST], source: str, within: str) -> Iterator[str]:
    """Classes of errors that handlers name, with the note at the head of the handler. One that only raises on is left
    out: what comes of it is told as an error."""
    lines = source.splitlines()
    for handler in (it for node in nodes for it in ast.walk(node) if isinstance(it, ast.ExceptHandler)):
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        names = [f"`{last_name(it)}`" for it in kinds if last_name(it)[:1].isupper()]
        said = _said(lines[handler.lineno : handler.body[0].lineno - 1])
        if names and not isinstance(handler.body[-1], ast.Raise):
            yield f"{', '.join(names)}{within}{f'; a note there said: {said}' if said else ''}"


def note_of(gone: Gone) -> str:
    """The comment that stands where a docstring would: before the first statement. Empty when it looks like code."""
    node = gone.node
    if not isinstance(node, Definition):
        return ""
    lines = gone.source.splitlines()[_head_end(node, gone.head) : node.body[0].lineno - 1]
    return _said(lines)


def _said(lines: Sequence[str]) -> str:
    """What the comments among some lines say; empty when it looks like code, or tells tools and maintainers only."""
    text = [line.strip().lstrip("#").strip() for line in lines if line.strip().startswith("#")]
    if any(_CODE.search(_SHORT.sub("", line)) or _CHORE.match(line) for line in text):
        return ""
    return " ".join(" ".join(text).split())


def _head_end(node: Definition, head: str) -> int:
    first = min([node.lineno, *(it.lineno for it in node.decorator_list)])
    return first + head.count("\n")
