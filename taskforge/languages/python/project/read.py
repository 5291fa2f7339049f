"""One file, read into a module; the files that a project's graph is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from taskforge.languages import SkippedFile
from taskforge.languages.python.index import index_layout
from taskforge.languages.python.layout import Layout
from taskforge.languages.python.project.bindings import read_bindings
from taskforge.languages.python.project.exports import read_exports
from taskforge.languages.python.project.parts import Module
from taskforge.languages.python.project.scan import scan

__all__ = ["layout_of", "read_module", "read_modules"]


@lru_cache(maxsize=16)
def layout_of(source: bytes) -> Layout:
    """Parsed; the last few are kept, since plans of one project edit the same files again and again.

    Raises:
        SkippedFile: as :class:`Layout`.
    """
    return Layout(source)


def read_module(path: str, source: bytes, *, product: bool) -> Module:
    """The names and uses of one file.

    Raises:
        SkippedFile: when it cannot be read with certainty.
    """
    try:
        path.encode()
    except UnicodeError as problem:
        raise SkippedFile("path_not_utf8", f"{path!r} is not UTF-8") from problem
    layout = layout_of(source)
    module = Module(path, source, product)
    try:
        read_bindings(module, layout, index_layout(path, layout))
        read_exports(module, layout)
        scan(module, layout)
    except RecursionError as problem:
        raise SkippedFile("too_deep", f"{path} is nested too deeply") from problem
    return module


def read_modules(
    files: Mapping[str, bytes], is_product: Callable[[str], bool]
) -> tuple[dict[str, Module], dict[str, str]]:
    """Every ``.py`` file: the modules, and of those that cannot be read the reasons."""
    modules: dict[str, Module] = {}
    skipped: dict[str, str] = {}
    for path in sorted(files):
        if not path.endswith(".py"):
            continue
        try:
            modules[path] = read_module(path, files[path], product=is_product(path))
        except SkippedFile as problem:
            skipped[path] = problem.reason
    return modules, skipped
