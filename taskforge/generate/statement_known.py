"""What a solver can read: the words of the statement and of the workspace, and what the workspace's modules bind."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from taskforge.errors import TaskRejected
from taskforge.generate.statement_formats import last_name
from taskforge.generate.statement_gone import Definition, decode, definitions, dotted, is_product_source, parse
from taskforge.model import Tree

__all__ = ["Bindings", "Known", "at_import", "exported"]


class Known:
    """The text of a workspace, to be asked often."""

    def __init__(self, workspace: Tree) -> None:
        self._tree = workspace

    @cached_property
    def text(self) -> str:
        """All files that are text, one after the other."""
        return "\n".join(
            decode(entry.data) if path.endswith(".py") else entry.data.decode("utf-8", "replace")
            for path, entry in self._tree.items()
            if entry.kind != "link" and b"\0" not in entry.data
        )

    @cached_property
    def words(self) -> frozenset[str]:
        return frozenset(re.findall(r"\w+", self.text))

    @cached_property
    def members(self) -> frozenset[str]:
        """Names that some file uses as an attribute, or defines as a name of its own."""
        return frozenset(
            found[1] or found[2]
            for found in re.finditer(r"\.\s*([^\W\d]\w*)|(?:def|class)\s+(\w+)", self.text)
        ) | frozenset(re.findall(r"^\s+(\w+)\s*(?::[^=\n]+)?(?:=(?!=)|$)", self.text, re.MULTILINE))

    @cached_property
    def keywords(self) -> frozenset[str]:
        """Names that product code passes by keyword, or takes."""
        product = "\n".join(
            decode(entry.data) for path, entry in self._tree.items() if is_product_source(path) and entry.kind != "link"
        )
        return frozenset(re.findall(r"\b(\w+)\s*(?::[^=,()\n]+)?=(?!=)", product))


class Bindings:
    """What each module of a tree binds at its top, imports included, by reading alone."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.paths: Mapping[str, str] = {
            dotted(path, tree.__contains__): path
            for path, entry in tree.items()
            if path.endswith(".py") and entry.kind != "link"
        }
        self._kept: dict[str, dict[str, str]] = {}

    def __contains__(self, module: str) -> bool:
        return module in self.paths

    def of(self, module: str) -> Mapping[str, str]:
        """Name -> where it comes from, as ``module:name`` (``module:`` for a module itself); empty for what is defined
        right there. A file that cannot be read binds nothing.

        Raises:
            TaskRejected: ``statement_unclear`` when this interpreter cannot read it.
        """
        if module not in self.paths:
            return {}
        if module not in self._kept:
            # First, so that modules that import each other's stars end.
            self._kept[module] = {}
            tree = parse(self._tree[self.paths[module]].data, self.paths[module])
            bound = {name: "" for name, _ in definitions(tree) if "." not in name}
            for node in at_import(tree.body):
                bound.update(self._imported(module, node))
            self._kept[module] = bound
        return self._kept[module]

    def origin(self, module: str, name: str) -> tuple[str, str]:
        """Where ``name`` of ``module`` is defined, followed as far as the tree goes."""
        seen = set()
        while (module, name) not in seen and (source := self.of(module).get(name, "")):
            seen.add((module, name))
            outer, _, inner = source.partition(":")
            if outer not in self.paths or not inner:
                break
            module, name = outer, inner
        return module, name

    @cached_property
    def bases(self) -> Mapping[str, frozenset[str]]:
        """Last name of a class of the product -> last names of its bases. Classes of one name are one here."""
        found: dict[str, set[str]] = {}
        for path in self.paths.values():
            tree = self._parsed(path) if is_product_source(path) else None
            for node in ast.walk(tree) if tree is not None else ():
                if isinstance(node, ast.ClassDef):
                    found.setdefault(node.name, set()).update(last_name(it) for it in node.bases)
        return {name: frozenset(names) for name, names in found.items()}

    def related(self, owner: str) -> frozenset[str]:
        """The class called ``owner``, its bases and what derives from it, by their last names."""
        found = {owner}
        for grows in (self._above, self._below):
            waiting = [owner]
            while waiting:
                new = grows(waiting.pop()) - found
                found |= new
                waiting += new
        return frozenset(found)

    def _above(self, name: str) -> frozenset[str]:
        return self.bases.get(name, frozenset()) & self.bases.keys()

    def _below(self, name: str) -> frozenset[str]:
        return frozenset(it for it, bases in self.bases.items() if name in bases)

    def _parsed(self, path: str) -> ast.Module | None:
        try:
            return parse(self._tree[path].data, path)
        except TaskRejected:
            # Written for a newer Python: what it derives is not followed.
            return None

    def modules_in(self, path: str) -> frozenset[str]:
        """Names that the file at ``path`` binds to modules."""
        bound = self.of(dotted(path, self._tree.__contains__))
        return frozenset(part for name, source in bound.items() if source.endswith(":") for part in name.split("."))

    def imports(self, path: str, tree: ast.Module, wanted: tuple[str, str]) -> bool:
        """Whether ``tree``, the file at ``path``, imports ``(module, name)`` anywhere, by whatever way round."""
        module = dotted(path, self._tree.__contains__)
        if module not in self.paths:
            return False
        return any(
            it.name in (wanted[1], "*") and self.origin(self.absolute(module, node), wanted[1]) == wanted
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for it in node.names
        )

    def needs(self, module: str, name: str) -> bool:
        """Whether another module imports ``name`` of ``module``."""
        return any(
            source == f"{module}:{name}"
            for other in self.paths
            if other != module and is_product_source(self.paths[other])
            for source in self.of(other).values()
        )

    def _imported(self, module: str, node: ast.AST) -> Iterator[tuple[str, str]]:
        if isinstance(node, ast.Import):
            for it in node.names:
                yield (it.asname, f"{it.name}:") if it.asname else (it.name.partition(".")[0], f"{it.name}:")
        elif isinstance(node, ast.ImportFrom):
            source = self.absolute(module, node)
            for it in node.names:
                if it.name == "*":
                    yield from ((name, f"{source}:{name}") for name in self._star(source))
                else:
                    whole = f"{source}.{it.name}"
                    yield it.asname or it.name, f"{whole}:" if whole in self.paths else f"{source}:{it.name}"

    def _star(self, module: str) -> list[str]:
        if module not in self.paths:
            return []
        listed = self.listed(module)
        return [name for name in self.of(module) if (name in listed if listed else not name.startswith("_"))]

    def listed(self, module: str) -> frozenset[str]:
        """Names in the module's ``__all__``: every string of the statements that set or extend it."""
        if module not in self.paths:
            return frozenset()
        return frozenset(exported(decode(self._tree[self.paths[module]].data)))

    def absolute(self, module: str, node: ast.ImportFrom) -> str:
        """The module that ``from … import`` names, seen from ``module``."""
        if not node.level:
            return node.module or ""
        is_package = self.paths[module].endswith("/__init__.py")
        parts = module.split(".")
        base = parts[: len(parts) - node.level + is_package]
        return ".".join([*base, *([node.module] if node.module else [])])

    def places(self, module: str, name: str) -> list[str]:
        """Modules that a user would import ``name`` of ``module`` from: its own, packages that re-export it, and others
        that list it in ``__all__``."""
        found = [module]
        for other, path in self.paths.items():
            if other == module or not is_product_source(path):
                continue
            told = path.endswith("__init__.py") or name in self.listed(other)
            if told and self.of(other).get(name) and self.origin(other, name) == (module, name):
                found.append(other)
        return sorted(found, key=lambda it: (it != module and it.count("."), it))


def exported(text: str) -> list[str]:
    """Names in the ``__all__`` of a module's text, in their order."""
    found = re.findall(r"\b__all__\b[^\[(\n]*[\[(]([^\])]*)[\])]", text)
    return list(dict.fromkeys(name for part in found for name in re.findall(r"[\"'](\w+)[\"']", part)))


def at_import(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that importing a module may run, those in its conditions included."""
    for node in body:
        yield node
        for part in ("body", "orelse", "finalbody"):
            if not isinstance(node, Definition):
                yield from at_import(getattr(node, part, []))
        for handler in getattr(node, "handlers", []):
            yield from at_import(handler.body)
