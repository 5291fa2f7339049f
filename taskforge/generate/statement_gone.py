"""What a removal took out of a Python tree, read off the two trees themselves with :mod:`ast`.

The statement and the fairness check ask the trees rather than the plan, so that what is told is what is really gone,
by whichever mode: a body behind a head that stayed, a whole definition, or a whole file.
"""

from __future__ import annotations

import ast
import io
import re
import textwrap
import tokenize
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from taskforge.errors import TaskRejected
from taskforge.model import Tree

__all__ = [
    "Definition", "Gone", "decode", "definitions", "dotted", "gone_between", "head_text", "is_product_source", "parse",
]  # fmt: skip

Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_NOT_PRODUCT = re.compile(r"(?:^|/)(?:tests?|testing|testdata)/|(?:^|/)(?:test_[^/]*|[^/]*_test|conftest)\.py\Z")
_ROOTS: Final = frozenset({"src", "lib", "python"})


def is_product_source(path: str) -> bool:
    """Whether ``path`` is Python that is not there for tests, by the customs of the language."""
    return path.endswith(".py") and not _NOT_PRODUCT.search(path)


@dataclass(frozen=True, kw_only=True)
class Gone:
    """One definition whose code, or all of which, the workspace no longer has."""

    path: str
    qualname: str
    kind: Literal["function", "method", "property", "class", "constant"]
    module: str
    """Dotted name of its module."""
    node: ast.stmt = field(repr=False, compare=False)
    source: str = field(repr=False, compare=False)
    """The original file."""
    head: str
    """Decorators and signature as in the source, dedented; empty for a constant."""
    docstring: str
    stays: bool
    """Its head is in the workspace still, over a stub."""
    line: int
    """Where the workspace shows it; where the original did when it is gone."""

    @property
    def name(self) -> str:
        return self.qualname.rpartition(".")[2]

    @property
    def owner(self) -> str:
        """Qualified name of its class; empty at module level."""
        return self.qualname.rpartition(".")[0]

    @property
    def public(self) -> bool:
        parts = self.qualname.split(".")
        return not any(part.startswith("_") and not part.startswith("__") for part in parts)


# Each task of a snapshot reads much the same files. Nobody changes the trees.
@lru_cache(maxsize=1024)
def parse(source: bytes, path: str) -> ast.Module:
    """The syntax tree of a file.

    Raises:
        TaskRejected: ``statement_unclear`` when this interpreter cannot read it.
    """
    with warnings.catch_warnings():
        # What is doubtful in somebody's source is not ours to report.
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
            raise TaskRejected(
                "statement_unclear",
                f"this interpreter cannot read {path}: {problem}",
                hint="run taskforge with the newest Python that the project supports",
            ) from problem


def decode(source: bytes) -> str:
    """The text of a file, by its cookie; lines end as in the file."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        return source.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError):
        return source.decode("utf-8", "replace")


def dotted(path: str, exists: Callable[[str], bool]) -> str:
    """The name a module is imported by: from the topmost folder that is a package, or from a source root."""
    *folders, file = path.split("/")
    first = len(folders)
    while first and exists("/".join([*folders[:first], "__init__.py"])):
        first -= 1
    if first == len(folders):
        # No package: a module at a source root, or a namespace package below one.
        first = next((at + 1 for at, name in enumerate(folders) if name in _ROOTS), 0)
    parts = [*folders[first:], file.removesuffix(".py")]
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def definitions(module: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """Functions, classes, methods, and the names that modules and classes assign, with their qualified names.

    Conditional ones too. What lies in functions is a part of those.
    """

    def within(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.stmt]]:
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield prefix + node.name, node
            elif isinstance(node, ast.ClassDef):
                yield prefix + node.name, node
                yield from within(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                for name in _assigned(node):
                    yield prefix + name, node
            else:
                for part in ("body", "orelse", "finalbody"):
                    yield from within(getattr(node, part, []), prefix)
                for handler in getattr(node, "handlers", []):
                    yield from within(handler.body, prefix)

    return within(module.body, "")


def _assigned(node: ast.Assign | ast.AnnAssign) -> Iterator[str]:
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
        yield from (part.id for part in parts if isinstance(part, ast.Name))


def gone_between(before: Tree, after: Tree) -> tuple[Gone, ...]:
    """Everything that ``before`` defines in product code and ``after`` does not, or only as a stub.

    Members of a class that is gone as a whole are not listed on their own.

    Raises:
        TaskRejected: ``statement_unclear`` when a changed file cannot be read.
    """
    found: list[Gone] = []
    for path, entry in before.items():
        if not is_product_source(path) or entry.kind == "link" or after.get(path) == entry:
            continue
        left = after.get(path)
        module = dotted(path, before.__contains__)
        old = parse(entry.data, path)
        new = parse(left.data, path) if left is not None else ast.Module(body=[], type_ignores=[])
        found += _gone_in(path, module, decode(entry.data), old, new)
    return tuple(found)


def _gone_in(path: str, module: str, source: str, old: ast.Module, new: ast.Module) -> Iterator[Gone]:
    remaining: dict[str, list[ast.stmt]] = {}
    for qualname, node in definitions(new):
        remaining.setdefault(qualname, []).append(node)
    whole: set[str] = set()
    for qualname, node in definitions(old):
        if any(qualname.startswith(f"{owner}.") for owner in whole):
            continue
        twins = remaining.get(qualname, [])
        twin = _twin(node, twins)
        if twin is not None:
            twins.remove(twin)
            if isinstance(node, ast.ClassDef) or not isinstance(node, Definition) or _same(node, twin):
                continue
        elif qualname.rpartition(".")[2].startswith("__") and not isinstance(node, Definition):
            # Such as __all__, which has lost an entry.
            continue
        elif isinstance(node, ast.ClassDef):
            whole.add(qualname)
        yield Gone(
            path=path,
            qualname=qualname,
            kind=_kind(qualname, node),
            module=module,
            node=node,
            source=source,
            head=head_text(source, node),
            docstring=(ast.get_docstring(node) or "").strip("\n") if isinstance(node, Definition) else "",
            stays=twin is not None,
            line=_first_line(twin or node),
        )


def _first_line(node: ast.stmt) -> int:
    decorators = node.decorator_list if isinstance(node, Definition) else []
    return min([node.lineno, *(it.lineno for it in decorators)])


def _same(one: ast.stmt, other: ast.stmt) -> bool:
    return ast.dump(one) == ast.dump(other)


def _twin(node: ast.stmt, others: list[ast.stmt]) -> ast.stmt | None:
    """What the workspace has in a definition's place: the same, else one with the same head."""
    exact = next((it for it in others if type(it) is type(node) and _same(it, node)), None)
    if exact is not None or not isinstance(node, Definition):
        return exact
    if isinstance(node, ast.ClassDef):
        return next((it for it in others if isinstance(it, ast.ClassDef)), None)
    return next((it for it in others if type(it) is type(node) and _head_dump(it) == _head_dump(node)), None)


def _head_dump(node: ast.stmt) -> str:
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return ""
    return " ".join([ast.dump(node.args), *(ast.dump(it) for it in node.decorator_list)])


def _kind(qualname: str, node: ast.stmt) -> Literal["function", "method", "property", "class", "constant"]:
    if isinstance(node, ast.ClassDef):
        return "class"
    if not isinstance(node, Definition):
        return "constant"
    if any(re.search(r"property\b|\.(?:setter|getter|deleter)\b", ast.unparse(it)) for it in node.decorator_list):
        return "property"
    return "method" if "." in qualname else "function"


def head_text(source: str, node: ast.stmt) -> str:
    """Decorators and head of a definition up to its colon, as the source has them, dedented; else empty."""
    if not isinstance(node, Definition):
        return ""
    lines = source.splitlines(keepends=True) if "\f" not in source else re.split(r"(?<=\n)", source)
    first = _first_line(node)
    text = "".join(lines[first - 1 : node.body[0].lineno])
    begins = node.lineno - first + 1
    depth = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(textwrap.dedent(text)).readline):
            if token.type != tokenize.OP or token.start[0] < begins:
                continue
            depth += (token.string in "([{") - (token.string in ")]}")
            if token.string == ":" and not depth:
                kept = textwrap.dedent(text).splitlines()[: token.end[0]]
                return "\n".join([*kept[:-1], kept[-1][: token.end[1]]])
    except (tokenize.TokenError, IndentationError):
        # The piece ends within something: the parse has it all the same.
        pass
    bare = ast.unparse(node).splitlines()
    return next(("\n".join(bare[: at + 1]) for at, line in enumerate(bare) if line.endswith(":")), bare[0])
