"""Where the workspace speaks of what is gone: callers, passages of its documentation, definitions of the same name."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from typing import Final

from typing_extensions import override

from taskforge.errors import TaskRejected
from taskforge.generate.statement_formats import last_name
from taskforge.generate.statement_gone import Definition, Gone, decode, definitions, is_product_source, parse
from taskforge.generate.statement_known import Bindings
from taskforge.generate.statement_receivers import Receivers
from taskforge.model import Tree

__all__ = ["counterparts", "fenced", "inline", "passages", "sites"]

#: Call sites shown for a definition, and characters kept of each.
_SITES: Final = 5
_WIDTH: Final = 160
#: Passages shown for a definition, lines kept of each, and words that make one worth reading.
_PASSAGES: Final = 3
_LINES: Final = 12
_WORDS: Final = 6
_DOCUMENT = re.compile(r"\.(?:md|rst|txt|markdown)\Z", re.IGNORECASE)
_HISTORY = re.compile(
    r"(?:^|/)(?:changes|changelog|history|news|release|versions|whatsnew|todo|license|authors)", re.IGNORECASE
)


def inline(text: str) -> str:
    """Markdown's inline code, whatever the text holds."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}" if longest else f"`{text}`"


def fenced(text: str, language: str) -> str:
    """A code block whose fence is longer than any in ``text``."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def sites(gone: Gone, after: Tree, secret: Collection[str], before: Bindings) -> list[str]:
    """``path:line`` and the line of uses by name in product code, those in the definition's own file first.

    Calls are preferred. A line that is also one of the removed code's is left out, and so is a file that this
    interpreter cannot read.

    Args:
        before: what the original modules bind, which says whether a name is the one that is meant.
    """
    made = gone.name in ("__init__", "__new__")
    name = gone.owner.rpartition(".")[2] if made else gone.name
    if name.startswith("__"):
        # Operators and protocols are not called by name.
        return []
    member = gone.kind in ("method", "property") and not made
    related = before.related(gone.owner.rpartition(".")[2]) if member else frozenset()
    calls: list[str] = []
    others: list[str] = []
    for path in sorted((path for path in after if is_product_source(path)), key=lambda it: (it != gone.path, it)):
        data = after[path].data
        if name.encode() not in data:
            continue
        lines = re.split(r"\r\n|\r|\n", decode(data))
        tree = _read(data, path)
        modules = before.modules_in(path)
        receivers = Receivers(tree, modules, related) if member else None
        visitor = _Uses(name, receivers=receivers, bare=path == gone.path, modules=modules)
        if not member:
            visitor.bare = visitor.bare or before.imports(path, tree, (gone.module, name))
        visitor.visit(tree)
        for number, (around, called) in sorted(visitor.found.items()):
            text = lines[number - 1].strip()
            if not any(line in text for line in secret):
                within = f", in `{around}`" if around else ""
                (calls if called else others).append(f"- `{path}:{number}`{within}: {inline(text[:_WIDTH])}")
    return (calls or ([] if made else others))[:_SITES]


def _read(data: bytes, path: str) -> ast.Module:
    try:
        return parse(data, path)
    except TaskRejected:
        # Written for a newer Python. Its callers are not shown; what has to be read is read elsewhere.
        return ast.Module(body=[], type_ignores=[])


class _Uses(ast.NodeVisitor):
    """Line -> the definition around it, and whether the name is called there. Imports, definitions and local variables
    that happen to have the name are no uses."""

    def __init__(self, name: str, *, receivers: Receivers | None, bare: bool, modules: Collection[str]) -> None:
        """
        Args:
            receivers: of the file, when what is sought is a member of a class.
        """
        self.found: dict[int, tuple[str, bool]] = {}
        self.bare = bare
        """Whether the name alone means what is sought."""
        self._name, self._receivers, self._modules = name, receivers, modules
        self._around: list[Definition] = []

    def _is_meant(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Attribute):
            if self._receivers is None:
                return node.attr == self._name and last_name(node.value) in self._modules
            return node.attr == self._name and self._receivers.may_be(node.attr, node.value, self._around)
        return isinstance(node, ast.Name) and node.id == self._name and self.bare and self._receivers is None

    @override
    def visit(self, node: ast.AST) -> None:
        target = node.func if isinstance(node, ast.Call) else node
        if isinstance(target, ast.expr) and self._is_meant(target):
            line = target.end_lineno or target.lineno
            if isinstance(getattr(target, "ctx", None), ast.Load):
                called = isinstance(node, ast.Call) or self.found.get(line, ("", False))[1]
                self.found[line] = (".".join(it.name for it in self._around), called)
        if isinstance(node, Definition):
            before = self.bare
            if not isinstance(node, ast.ClassDef) and self._name in _bound(node):
                self.bare = False
            self._around.append(node)
            self.generic_visit(node)
            self._around.pop()
            self.bare = before
        else:
            self.generic_visit(node)


def _bound(node: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
    """Names that a function binds itself."""
    names = {it.id for it in ast.walk(node) if isinstance(it, ast.Name) and isinstance(it.ctx, ast.Store)}
    return frozenset(names | {it.arg for it in ast.walk(node.args) if isinstance(it, ast.arg)})


def counterparts(gone: Gone, after: Tree) -> list[str]:
    """Definitions of the same name in other classes of the same file that the workspace still has with their code."""
    if not gone.owner or gone.name.startswith("__") or gone.path not in after:
        return []
    found = []
    for qualname, node in definitions(parse(after[gone.path].data, gone.path)):
        if not isinstance(node, Definition) or qualname == gone.qualname or not qualname.endswith(f".{gone.name}"):
            continue
        if not any("NotImplementedError" in ast.dump(it) for it in node.body):
            found.append(f"`{qualname}` (line {node.lineno})")
    return found[:_SITES]


def passages(gone: Gone, after: Tree, secret: Collection[str], *, common: bool) -> list[tuple[str, str]]:
    """``path:line`` and text of the paragraphs of the documentation that speak of it, at most three.

    Those that name it come before examples that only call it, and a history of changes comes last. A passage that holds
    a line of the removed code is left out: it would be no documentation.

    Args:
        common: whether other classes have a method of the same name: then only its own class tells which is meant.
    """
    paths = [path for path, entry in after.items() if _DOCUMENT.search(path) and entry.kind != "link"]
    found: list[tuple[int, str, str]] = []
    for rank, speaks in enumerate(_speaks(gone, common=common)):
        for path in sorted(paths, key=lambda it: (it.count("/"), it)):
            if re.search(r"(?:^|/)tests?/", path):
                continue
            text = after[path].data.decode("utf-8", "replace").replace("\r\n", "\n")
            for number, passage in _paragraphs(text, speaks):
                if not _is_prose(passage) or any(line in passage for line in secret):
                    continue
                if not any(passage == other for _, _, other in found):
                    found.append((rank + 2 * bool(_HISTORY.search(path)), f"{path}:{number}", passage))
    best = min((rank for rank, _, _ in found), default=0)
    # An example is shown only where nothing explains; both are better than old news, which tells of one thing only.
    last = 1 if common or gone.name.startswith("_") or gone.docstring else 3
    return [(place, text) for rank, place, text in found if rank == best <= last][:_PASSAGES]


def _is_prose(passage: str) -> bool:
    """Whether it says something, rather than list names and links."""
    rest = re.sub(r"https?://\S+|\.\. [\w:]+::.*|^\s*\[.*?\]:.*|`[^`]*`_*|\S*[._]\S+", " ", passage, flags=re.MULTILINE)
    return len(re.findall(r"(?<!\S)[^\W\d_]{2,}", rest)) >= _WORDS


def _speaks(gone: Gone, *, common: bool) -> list[re.Pattern[str]]:
    """How a document names it, and how its examples use it: as code, not as a word that happens to be the same."""
    name, owner = re.escape(gone.name), re.escape(gone.owner.rpartition(".")[2])
    if owner and (gone.name.startswith("_") or common):
        # Nobody calls it by name: what is told of its class is told of it.
        return [_named(owner, gone.module)] if not owner.startswith("_") else []
    if gone.name.startswith("_"):
        return []
    if owner:
        named = rf"\b{owner}\.{name}\b|`[~.]?{name}(?:\([^`]*\))?`|::\s+(?:\w+\.)*{name}\b"
        return [re.compile(named), re.compile(rf"\w\.{name}\(")]
    return [_named(name, gone.module), re.compile(rf"(?<![\w.]){name}\(")]


def _named(name: str, module: str) -> re.Pattern[str]:
    package = re.escape(module.partition(".")[0])
    return re.compile(rf"\b{package}(?:\.\w+)*\.{name}\b|`[~.]?{name}(?:\([^`]*\))?`|::\s+(?:\w+\.)*{name}\b")


def _paragraphs(text: str, speaks: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        end = at
        while end < len(lines) and lines[end].strip():
            end += 1
        block = lines[at:end]
        hits = [index for index, line in enumerate(block) if speaks.search(line)]
        if hits:
            first, last = (0, len(block)) if len(block) <= _LINES else (max(0, hits[0] - 1), hits[0] + 3)
            shown = _with_example(lines, end, block[first:last]) if last == len(block) else block[first:last]
            yield at + first + 1, "\n".join(line.rstrip() for line in shown).strip("\n")
        at = max(end, at) + 1


def _with_example(lines: list[str], end: int, block: list[str]) -> list[str]:
    """A paragraph that ends in a colon, and the indented block after it."""
    if not block[-1].rstrip().endswith(":"):
        return block
    more = end
    while more < len(lines) and (not lines[more].strip() or lines[more].startswith((" ", "\t", "```"))):
        more += 1
    example = lines[end:more]
    while example and not example[-1].strip():
        example.pop()
    return [*block, *example[: _LINES * 2]]
