"""What a removal touched besides the definitions that a statement describes: imports, exports, and what went along."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from taskforge.generate.statement_gone import Gone, decode, dotted, is_product_source, parse
from taskforge.generate.statement_known import Bindings, at_import, exported
from taskforge.model import Tree

__all__ = ["aside"]

#: Names listed for one file and reason.
_MOST: Final = 40


def aside(gone: Sequence[Gone], told: Collection[Gone], before: Tree, after: Tree, bindings: Bindings) -> list[str]:
    """Markdown paragraphs on the imports and the exports that went with ``gone``, and on the definitions of it that are
    not ``told``; none when there is nothing to say.

    Args:
        bindings: of ``before``.

    Raises:
        TaskRejected: ``statement_unclear`` when a changed file cannot be read.
    """
    parts: list[str] = []
    own = {it.path for it in gone if not it.stays}
    lines = [line for path in before for line in _lost(path, gone, own, before, after, bindings)]
    if lines:
        parts += ["Imports and exports that went with it, which the rest may need back:", "\n".join(lines)]
    if along := _along(gone, told):
        parts.append(
            f"Went along, since only what was removed used them: {'; '.join(along)}. You need not write them again"
            " under these names."
        )
    return ["## What else was taken out", *parts] if parts else []


def _along(gone: Sequence[Gone], told: Collection[Gone]) -> list[str]:
    known = {(it.path, it.qualname) for it in told}
    by_path: dict[str, dict[str, None]] = {}
    for it in gone:
        if (it.path, it.qualname) not in known:
            by_path.setdefault(it.path, {})[it.qualname] = None
    return [f"in `{path}` {_names(list(names))}" for path, names in by_path.items()]


def _lost(
    path: str, gone: Sequence[Gone], own: Collection[str], before: Tree, after: Tree, bindings: Bindings
) -> Iterator[str]:
    """A line for the file, when imports or exports were taken out of it."""
    old, new = before[path], after.get(path)
    if new is None or new == old or old.kind == "link" or not is_product_source(path):
        return
    module = dotted(path, before.__contains__)
    mine = {(it.module, it.name) for it in gone if "." not in it.qualname}
    gone_modules = {dotted(it.path, before.__contains__) for it in gone if it.path not in after}
    lost = _imports(parse(old.data, path)) - _imports(parse(new.data, path))
    sources: dict[str, dict[str, None]] = {}
    for source, level, name, alias in sorted(lost, key=lambda it: (it[1], it[0], it[2])):
        if path in own:
            # What only the removed code of this file imported is its writer's affair.
            node = ast.ImportFrom(module=source or None, names=[], level=level)
            full = bindings.absolute(module, node) if module in bindings else source
            if bindings.origin(full, name) not in mine and not {full, f"{full}.{name}"} & gone_modules:
                continue
        shown = f"{name} as {alias}" if alias else name
        sources.setdefault("." * level + source, {})[shown] = None
    told = [f"imports from `{source}`: {_names(list(names))}" if source else f"imports: {_names(list(names))}"
            for source, names in sources.items()]  # fmt: skip
    if entries := [it for it in exported(decode(old.data)) if it not in exported(decode(new.data))]:
        told.append(f"entries of `__all__`: {_names(entries)}")
    if told:
        yield f"- `{path}`: {'; '.join(told)}"


def _imports(tree: ast.Module) -> Counter[tuple[str, int, str, str]]:
    """``(module, level, name, alias)`` of each imported name; the module is empty for ``import name``."""
    found: Counter[tuple[str, int, str, str]] = Counter()
    for node in at_import(tree.body):
        # What functions import is a part of their code.
        if isinstance(node, ast.Import):
            found.update(("", 0, it.name, it.asname or "") for it in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.update((node.module or "", node.level, it.name, it.asname or "") for it in node.names)
    return found


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(f"`{name}`" for name in names[:_MOST]) + more
