"""Python, parsed by libcst and edited by bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from taskforge.languages import Project
from taskforge.languages.python.index import index_module
from taskforge.languages.python.project import read_project
from taskforge.languages.python.stub import stub_module
from taskforge.model import Symbol

__all__ = ["LANGUAGE", "Python"]

_TEST_FOLDERS: Final = frozenset({"test", "tests", "testing", "testdata"})
#: pytest looks for its own upward from every argument, so these count in any folder.
_CONFIG_NAMES: Final = frozenset(
    {
        ".coveragerc",
        ".pytest.ini",
        ".pytest.toml",
        "conftest.py",
        "noxfile.py",
        "pyproject.toml",
        "pytest.ini",
        "pytest.toml",
        "setup.cfg",
        "setup.py",
        "sitecustomize.py",
        "tox.ini",
        "usercustomize.py",
    }
)


class Python:
    """See :class:`taskforge.languages.Language`."""

    name = "python"

    def is_source(self, path: str) -> bool:
        return path.endswith(".py")

    def is_test_path(self, path: str) -> bool:
        *folders, name = path.split("/")
        if name == "conftest.py" or (name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py"))):
            return True
        return not _TEST_FOLDERS.isdisjoint(folders)

    def is_config_path(self, path: str) -> bool:
        name = path.rpartition("/")[2]
        return name in _CONFIG_NAMES or name.endswith(".pth")

    def index(self, path: str, source: bytes) -> list[Symbol]:
        return index_module(path, source)

    def stub(self, source: bytes, symbols: Sequence[Symbol], *, keep_docstrings: bool = True) -> bytes:
        return stub_module(source, symbols, keep_docstrings=keep_docstrings)

    def project(self, files: Mapping[str, bytes], *, is_product: Callable[[str], bool]) -> Project:
        return read_project(files, is_product=is_product)


LANGUAGE: Final = Python()
