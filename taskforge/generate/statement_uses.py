"""What tests ask for by name: read off their source, without running it."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from taskforge.generate.statement_formats import last_name
from taskforge.generate.statement_gone import definitions, parse

__all__ = ["Use", "literal_runs", "relevant", "uses_in"]

_RAISES: Final = frozenset(
    {"raises", "warns", "assertRaises", "assertRaisesRegex", "assertWarns", "assertWarnsRegex", "deprecated_call"}
)
_REGEX: Final = frozenset({"assertRaisesRegex", "assertWarnsRegex"})


@dataclass(frozen=True)
class Use:
    """One thing that a test names."""

    kind: Literal["import", "attribute", "keyword", "exception", "message", "text", "piece", "shown", "patched"]
    what: str
    where: str
    """``path::qualname`` of the test, helper or fixture; the path alone at module level."""
    of: str = ""
    """Import: the module. Keyword: the last name of what is called. Shown: the expression, a zero byte, and ``is`` or
    ``holds``."""
    among: frozenset[str] = frozenset()
    """Exception: the names in the block, or the call, that is to raise it. Shown: the names in the expression."""


def relevant(path: str, source: bytes, required: Collection[str]) -> list[tuple[str, ast.AST]]:
    """The parts of a test file that required tests can reach, with their place: the tests themselves, and all that is
    no test. Where an id names no definition of its file (an inherited test), its function's name counts everywhere.

    Args:
        required: ids of pytest.

    Raises:
        TaskRejected: ``statement_unclear`` when this interpreter cannot read the file.
    """
    ids = [re.sub(r"\[.*", "", name, flags=re.DOTALL).split("::") for name in required]
    tree = parse(source, path)
    here = {name for name, _ in definitions(tree)}
    exact = {".".join(parts[1:]) for parts in ids if parts[0] == path}
    loose = {parts[-1] for parts in ids if parts[0] != path or ".".join(parts[1:]) not in here}
    own = {name.rpartition(".")[2] for name in exact}
    # Another file's ids count only for tests that this file's own ids do not claim.
    loose -= {name for name in own if any(it in here for it in exact if it.rpartition(".")[2] == name)}

    def within(body: Sequence[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.AST]]:
        for node in body:
            if isinstance(node, ast.ClassDef):
                yield from ((path, it) for it in [*node.bases, *node.decorator_list])
                yield from within(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                if prefix + node.name in exact or node.name in loose or not node.name.startswith("test"):
                    yield f"{path}::{prefix}{node.name}", node
            else:
                yield path, node

    return list(within(tree.body, ""))


def uses_in(parts: Sequence[tuple[str, ast.AST]], modules: Collection[str]) -> list[Use]:
    """Everything that the parts of one test file name, each once, where it was first seen.

    Args:
        modules: dotted names of the project's modules.
    """
    aliases = dict(_aliases(parts, modules))
    found: dict[tuple[object, ...], Use] = {}
    for where, part in parts:
        said = {id(it.value) for it in ast.walk(part) if isinstance(it, ast.Expr)}
        for node in ast.walk(part):
            if id(node) in said and isinstance(node, ast.Constant):
                # A docstring asks for nothing.
                continue
            for use in _uses(node, where, modules, aliases):
                found.setdefault((use.kind, use.what, use.of, use.among), use)
    return list(found.values())


def _aliases(parts: Sequence[tuple[str, ast.AST]], modules: Collection[str]) -> Iterator[tuple[str, str]]:
    """Local name -> module, of imported modules."""
    for _, part in parts:
        for node in ast.walk(part):
            if isinstance(node, ast.Import):
                for it in node.names:
                    yield (it.asname, it.name) if it.asname else (it.name.partition(".")[0],) * 2
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for it in node.names:
                    if f"{node.module}.{it.name}" in modules:
                        yield it.asname or it.name, f"{node.module}.{it.name}"


def _module_of(node: ast.expr, modules: Collection[str], aliases: Mapping[str, str]) -> str:
    """The module that an expression stands for; empty when it is none of the project's."""
    if isinstance(node, ast.Name):
        module = aliases.get(node.id, "")
    elif isinstance(node, ast.Attribute) and (outer := _module_of(node.value, modules, aliases)):
        module = f"{outer}.{node.attr}"
    else:
        return ""
    return module if module in modules else ""


def _uses(node: ast.AST, where: str, modules: Collection[str], aliases: Mapping[str, str]) -> Iterator[Use]:
    if isinstance(node, ast.ImportFrom):
        if node.module in modules and not node.level:
            yield from (Use("import", it.name, where, node.module or "") for it in node.names if it.name != "*")
    elif isinstance(node, ast.Import):
        yield from (Use("import", "", where, it.name) for it in node.names if it.name in modules)
    elif isinstance(node, ast.Attribute):
        module = _module_of(node.value, modules, aliases)
        yield Use("import", node.attr, where, module) if module else Use("attribute", node.attr, where)
    elif isinstance(node, ast.Call):
        yield from _call(node, where)
        yield from _expected(node, where, node.args[1:])
    elif isinstance(node, (ast.With, ast.AsyncWith)):
        for it in node.items:
            if isinstance(it.context_expr, ast.Call):
                yield from _expected(it.context_expr, where, node.body)
    elif isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
        text = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
        yield Use("text", text, where)


def _call(node: ast.Call, where: str) -> Iterator[Use]:
    name = last_name(node.func)
    yield from (Use("keyword", it.arg, where, name) for it in node.keywords if it.arg and name)
    matched = [it.value for it in node.keywords if it.arg in ("match", "expected_regex")] if name in _RAISES else []
    for it in matched + (node.args[1:2] if name in _REGEX else []):
        yield from (Use("message", text, where) for text in _texts(it))
    yield from _patched(node, name, where)


def _expected(node: ast.Call, where: str, block: Sequence[ast.AST]) -> Iterator[Use]:
    """Classes of errors and warnings that ``pytest.raises`` and the like expect of ``block``."""
    if last_name(node.func) not in _RAISES or not block:
        return
    names = frozenset(last_name(it) for part in block for it in ast.walk(part) if isinstance(it, ast.expr))
    for kind in node.args[:1] + [it.value for it in node.keywords if it.arg == "expected_exception"]:
        for one in kind.elts if isinstance(kind, ast.Tuple) else [kind]:
            if last_name(one)[:1].isupper():
                yield Use("exception", last_name(one), where, among=names)


def _texts(node: ast.expr) -> Iterator[str]:
    """Literal texts in an expression such as ``re.escape("a (b)")`` or ``f"no {name}"``; regular ones are cleared."""
    escaped = isinstance(node, ast.Call) and last_name(node.func) == "escape"
    for it in ast.walk(node):
        if isinstance(it, ast.Constant) and isinstance(it.value, str):
            yield from [it.value] if escaped else literal_runs(it.value)


def literal_runs(regex: str) -> list[str]:
    """The literal runs of a regular expression: what a text that it matches is sure to hold."""
    text = re.sub(r"\(\?[^)]*\)|\[[^\]]*\]|\{\d*,?\d*\}|\\[dDwWsSbBAZ]|(?<!\\)[.*+?^$|()]", "\0", regex)
    return [piece for run in text.split("\0") if len(piece := re.sub(r"\\(.)", r"\1", run)) >= 3]


def _patched(node: ast.Call, name: str, where: str) -> Iterator[Use]:
    """``monkeypatch.setattr(m, "f", …)``, ``setattr("a.b.f", …)``, ``patch("a.b.f")``, ``patch.object(m, "f")``."""
    if name not in {"setattr", "patch", "object", "delattr"}:
        return
    owner = last_name(node.func.value) if isinstance(node.func, ast.Attribute) else ""
    if name == "object" and owner != "patch":
        return
    texts = [it.value for it in node.args[:2] if isinstance(it, ast.Constant) and isinstance(it.value, str)]
    if texts:
        yield Use("patched", texts[0], where)
