"""Which file a dotted module name means."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from taskforge.languages.python.project.parts import Module

__all__ = ["ModuleNames"]

_STANDARD: Final = frozenset(sys.stdlib_module_names)


class ModuleNames:
    """Finds modules by name. Layouts are told from ``__init__.py`` files: flat, ``src``, several roots, namespaces."""

    def __init__(self, modules: Mapping[str, Module]) -> None:
        self._modules = modules
        self._folders = {parent for path in modules for parent in _parents(path)}
        self._by_name: dict[str, list[str]] = defaultdict(list)
        for path in modules:
            for name in self._names(path):
                self._by_name[name].append(path)

    def _names(self, path: str) -> Iterable[str]:
        """The names by which it may be imported: from its topmost regular package, or from any folder above that."""
        stem = path.rpartition(".")[0]
        parts = stem.split("/")
        if parts[-1] == "__init__":
            parts.pop()
        first = max(len(parts) - 1, 0)
        while first > 0 and "/".join([*parts[:first], "__init__.py"]) in self._modules:
            first -= 1
        for start in range(first, -1, -1):
            if all(part.isidentifier() for part in parts[start:]) and parts[start:]:
                yield ".".join(parts[start:])

    def find(self, level: int, dotted: str, importer: Module) -> Module | str | None:
        """A module; the path of a folder that is a namespace package; or None for what is not of this project."""
        if level:
            folder = importer.folder.split("/") if importer.folder else []
            if level - 1 > len(folder):
                return None
            base = folder[: len(folder) - (level - 1)]
            return self._at("/".join([*base, *(dotted.split(".") if dotted else [])]))
        found = self._by_name.get(dotted, ())
        if dotted.partition(".")[0] in _STANDARD:
            # ``import types`` within a namespace folder that holds types.py still means the standard library's.
            found = [it for it in found if "." in dotted or it.endswith("/__init__.py") or it.count("/") == 0]
        if not found:
            return self._namespace(dotted)
        return self._modules[max(found, key=lambda path: (_shared(path, importer.path), -len(path)))]

    def inside(self, target: Module | str, name: str) -> Module | str | None:
        """The submodule ``name`` of a package."""
        if isinstance(target, Module):
            return self._at(f"{target.folder}/{name}".lstrip("/")) if target.is_package else None
        return self._at(f"{target}/{name}".lstrip("/"))

    def _at(self, stem: str) -> Module | str | None:
        for path in (f"{stem}/__init__.py".lstrip("/"), f"{stem}.py"):
            if path in self._modules:
                return self._modules[path]
        return stem if stem in self._folders else None

    def _namespace(self, dotted: str) -> str | None:
        tail = dotted.replace(".", "/")
        for root in ("", "src/", "lib/"):
            if root + tail in self._folders:
                return root + tail
        return None


def _parents(path: str) -> Iterable[str]:
    folder = path.rpartition("/")[0]
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]


def _shared(left: str, right: str) -> int:
    count = 0
    for one, other in zip(left.split("/"), right.split("/"), strict=False):
        if one != other:
            break
        count += 1
    return count
