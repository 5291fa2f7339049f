"""The words of a task: what to build, where, and how it will be judged. Nothing of the body."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from taskforge.errors import TaskRejected
from taskforge.model import Candidate, Symbol, Tree

__all__ = ["lines_of_body_in", "statement"]

#: Call sites shown for a symbol, and characters kept of each.
_SITES: Final = 5
_WIDTH: Final = 160
_KINDS: Final = {
    "plain": "",
    "generator": " It is a generator.",
    "coroutine": " It is a coroutine.",
    "async_generator": " It is an asynchronous generator.",
}
_TELLING: Final = 12
"""Characters from which a line of code is worth looking for."""
_NOT_PRODUCT = re.compile(r"(?:^|/)(?:tests?|testing|testdata)/|(?:^|/)(?:test_[^/]*|[^/]*_test|conftest)\.py\Z")
_FENCED = re.compile(r"^(`{3,})\w*\n.*?^\1$", re.MULTILINE | re.DOTALL)
_CALL_SITE = re.compile(r"^- `[^`\n]+:\d+`: .*$", re.MULTILINE)
#: Code that every statement holds.
_PHRASES: Final = frozenset({"raise NotImplementedError", "NotImplementedError"})
_DEFINES = re.compile(r"\s*(?:async\s+def|def|class|import|from)\b")


def statement(
    candidate: Candidate, before: Tree, after: Tree, index: Mapping[str, Sequence[Symbol]], *, tests_visible: bool
) -> str:
    """Markdown for a solver.

    Args:
        before: the original tree, used to prove that ``index`` describes it.
        after: the workspace. Lines are told as they are there, and call sites are taken from it, so that nothing is
            shown that it does not hold.
        index: symbols of ``before`` by path.
        tests_visible: whether the workspace holds the tests that judge.

    Raises:
        TaskRejected: ``statement_unclear`` when the workspace does not show a symbol's signature; ``undescribed`` when
            neither documentation nor a caller says what it does, and the tests are hidden.
    """
    symbols = candidate.symbols
    title = ", ".join(f"`{symbol.qualname}`" for symbol in symbols)
    paths = list(dict.fromkeys(symbol.path for symbol in symbols))
    noun = "method" if all(symbol.kind == "method" for symbol in symbols) else "function"
    verb = "has"
    if len(symbols) > 1:
        noun, verb = f"{noun}s", "have"
    task = (
        f"The code of the {noun} below {verb} been removed from {_listed(paths)} and replaced by "
        "`raise NotImplementedError`. Write it again, so that the project works as its documentation, its callers and "
        "its tests expect."
    )
    parts = [f"# Implement {title}", task]
    for symbol in symbols:
        parts += _section(symbol, before, after, index, tests_visible=tests_visible)
    parts += ["## How it is judged", _judging(tests_visible=tests_visible)]
    return "\n\n".join(parts) + "\n"


def _listed(paths: Sequence[str]) -> str:
    return ", ".join(f"`{path}`" for path in paths)


def _undocumented(symbol: Symbol, *, told: bool, tests_visible: bool) -> str:
    if tests_visible:
        return "It has no docstring: its callers and the tests say what it does."
    if told:
        return "It has no docstring: its callers say what it does."
    name = symbol.qualname.rpartition(".")[2]
    if name.startswith("__") and name.endswith("__"):
        return f"It has no docstring: it is what the language calls for `{name}`."
    raise TaskRejected(
        "undescribed", f"nothing that a solver may read says what {symbol.qualname} does: no docstring, no caller"
    )


def _section(
    symbol: Symbol, before: Tree, after: Tree, index: Mapping[str, Sequence[Symbol]], *, tests_visible: bool
) -> list[str]:
    if symbol.path not in before or symbol.path not in after or symbol not in index.get(symbol.path, ()):
        raise TaskRejected("statement_unclear", f"{symbol.key} is not in the index, or its file not in the workspace")
    line = _line_of(symbol, before, after)
    kind = "method" if symbol.kind == "method" else "function"
    parts = [
        f"## `{symbol.qualname}`",
        f"A {kind} in `{symbol.path}`, line {line}.{_KINDS[symbol.flavour]}",
        _fenced("\n".join([*symbol.decorators, symbol.signature]), "python"),
    ]
    if symbol.docstring.strip():
        parts += ["Its documentation:", _fenced(symbol.docstring.strip("\n"), "text")]
    sites = _call_sites(symbol, after)
    if not symbol.docstring.strip():
        parts.append(_undocumented(symbol, told=bool(sites), tests_visible=tests_visible))
    if sites:
        parts += ["Where the rest of the project names it:", "\n".join(sites)]
    return parts


def _fenced(text: str, language: str) -> str:
    """A code block whose fence is longer than any in ``text``."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _line_of(symbol: Symbol, before: Tree, after: Tree) -> int:
    """The symbol's first line in the workspace: bodies that went before it in the file have moved it up.

    Both files are equal behind their last edit, and the definition itself is whole: so of the places that show its
    head, the one with the same count of equal heads before it is meant.
    """
    head = before[symbol.path].data[symbol.span.start : symbol.body.start]
    earlier = before[symbol.path].data.count(head, 0, symbol.span.start)
    data = after[symbol.path].data
    place = -1
    for _ in range(earlier + 1):
        place = data.find(head, place + 1)
        if place < 0:
            raise TaskRejected("statement_unclear", f"the workspace's {symbol.path} does not show {symbol.qualname}")
    return len(re.findall(rb"\r\n|\r|\n", data[:place])) + 1


def _call_sites(symbol: Symbol, after: Tree) -> list[str]:
    """``path:line`` and the line of uses by name, those in the symbol's own file first."""
    name = symbol.qualname.rpartition(".")[2]
    if name == "__init__":
        name = symbol.qualname.split(".")[-2]
    if name.startswith("__"):
        # Operators and protocols are not called by name.
        return []
    is_property = any(re.search(r"property\b|\.setter\b", decorator) for decorator in symbol.decorators)
    tail = rb"\b" if is_property else rb"\s*\("
    head = rb"\." if symbol.kind == "method" and not symbol.qualname.endswith("__init__") else rb"(?<![\w])"
    uses = re.compile(head + re.escape(name.encode("utf-8")) + tail)
    paths = sorted((path for path in after if _is_product_source(path)), key=lambda path: (path != symbol.path, path))
    sites: list[str] = []
    for path in paths:
        for number, text in _uses(after[path].data, uses):
            sites.append(f"- `{path}:{number}`: {_inline(text)}")
            if len(sites) == _SITES:
                return sites
    return sites


def _is_product_source(path: str) -> bool:
    return path.endswith(".py") and not _NOT_PRODUCT.search(path)


def _uses(data: bytes, uses: re.Pattern[bytes]) -> Iterator[tuple[int, str]]:
    if not uses.search(data):
        return
    for number, line in enumerate(data.splitlines(), 1):
        text = line.decode("utf-8", "replace").strip()
        if uses.search(line) and not _DEFINES.match(text) and not text.startswith(("#", ">>>", "...")):
            yield number, text[:_WIDTH]


def _inline(text: str) -> str:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}" if longest else f"`{text}`"


def _judging(*, tests_visible: bool) -> str:
    where = "They are in the workspace." if tests_visible else "Their files may be hidden from the workspace."
    return (
        "By the project's own tests, run offline, after your change: those that need this code, and others that passed "
        f"before and must still pass. {where} Do not edit tests or the configuration of tests: such edits are undone "
        "before judging. Keep the names, the signatures and the decorators as they are. Installing packages and the "
        "network are not available."
    )


def lines_of_body_in(statement_text: str, removed: Mapping[str, bytes]) -> list[str]:
    """Lines of deleted bodies, 12 characters or more, that the statement shows where it should not.

    Signatures, docstrings and call sites are left out: they are the workspace's own text, which the leak search reads.

    Args:
        removed: symbol key -> bytes of its body.
    """
    prose = _CALL_SITE.sub("", _FENCED.sub("", statement_text))
    found: dict[str, None] = {}
    for body in removed.values():
        for raw in body.splitlines():
            line = raw.strip().decode("utf-8", "replace")
            if len(line) >= _TELLING and line in prose and line not in _PHRASES:
                found[line] = None
    return list(found)
