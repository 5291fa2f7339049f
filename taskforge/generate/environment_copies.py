"""What an environment has of the project besides what points to the workspace: a copy may be imported, and read.

An installed copy is never used (tests that ran it would prove nothing about the workspace), and is an answer in every
solver's sandbox. Projects come by one as a requirement of their own tests, under another name.
"""

from __future__ import annotations

import csv
from collections.abc import Collection
from pathlib import Path

from taskforge.errors import EnvironmentBuildError, StoreFault
from taskforge.model import Tree
from taskforge.sandbox import Environment

__all__ = ["files_in_environment", "refuse_copy"]

#: Folders whose modules are imported by their bare names.
_ROOTS = ("src", "lib")


def refuse_copy(paths: Collection[str], tree: Tree, environment: Environment) -> None:
    """Refuse an environment that has a module of the project under the name it is imported by.

    Args:
        paths: the product's source files in ``tree`` that define something.

    Raises:
        EnvironmentBuildError: naming the module and who brings it.
        StoreFault: when the environment cannot be read.
    """
    with_module = {module: path for path in sorted(paths) for module in _modules(path, tree)}
    for site in _sites(environment):
        for module, path in with_module.items():
            if (site / module).is_file():
                owner = _owner(site, module)
                brought = f"{owner} brings it" if owner else "the project's build wrote it"
                raise EnvironmentBuildError(
                    f"the environment holds another copy of the project: {module} in its site-packages beside {path}"
                    f" ({brought})",
                    hint=f"leave {owner} out of the test requirements" if owner else "have the build install no copy",
                )


def files_in_environment(paths: Collection[str], tree: Tree, environment: Environment) -> dict[str, str]:
    """Which of ``paths`` some package has byte by byte, for example a vendored module that tests require as well.

    Returns:
        Path in the tree -> path below site-packages.

    Raises:
        StoreFault: when the environment cannot be read.
    """
    known = {tree[path].data: path for path in paths if tree[path].data.strip()}
    sizes = {len(data) for data in known}
    found: dict[str, str] = {}
    try:
        for site in _sites(environment):
            for file in sorted(site.rglob("*")):
                if not file.is_symlink() and file.is_file() and file.stat().st_size in sizes:
                    path = known.get(file.read_bytes())
                    if path is not None:
                        found.setdefault(path, file.relative_to(site).as_posix())
    except OSError as error:
        raise _unreadable(environment.root, error) from error
    return found


def _modules(path: str, tree: Tree) -> set[str]:
    """The paths below a folder of ``sys.path`` at which the module of ``path`` may be found."""
    parts = path.split("/")
    depth = len(parts) - 1
    while depth and "/".join((*parts[:depth], "__init__.py")) in tree:
        depth -= 1
    is_packaged = depth < len(parts) - 1
    found = {"/".join(parts[depth:])} if is_packaged or "/".join(parts[:depth]) in ("", *_ROOTS) else set()
    # Namespace packages have no __init__.py.
    return found | {"/".join(parts[1:])} if parts[0] in _ROOTS and len(parts) > 1 else found


def _sites(environment: Environment) -> list[Path]:
    return sorted(environment.root.glob("lib/python*/site-packages"))


def _owner(site: Path, module: str) -> str:
    """The distribution that brought a file, empty when none says so."""
    try:
        for record in sorted(site.glob("*.dist-info/RECORD")):
            with record.open(encoding="utf-8", newline="") as stream:
                if any(row and row[0] == module for row in csv.reader(stream)):
                    return record.parent.name.split("-")[0]
    except (OSError, UnicodeError, csv.Error) as error:
        raise _unreadable(site, error) from error
    return ""


def _unreadable(place: Path, error: Exception) -> StoreFault:
    return StoreFault(
        f"the environment {place} cannot be read: {error}",
        hint="delete it from the cache folder; it is rebuilt on demand",
    )
