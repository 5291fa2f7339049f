"""Which modules test files import that nobody has declared."""

from __future__ import annotations

import ast
import re
import sys
import warnings
from collections.abc import Iterator

from taskforge.model import Tree

__all__ = ["distribution_for", "test_imports"]

_TEST_FILE = re.compile(r"(?:.*/)?(?:test_[^/]*|[^/]*_test|conftest|tests?)\.py\Z|(?:.*/)?(?:tests?|testing)/.*\.py\Z")

#: Modules that some supported Python has in its standard library, and the one that runs this may not.
_STDLIB = sys.stdlib_module_names | {
    "__main__", "asynchat", "asyncore", "binhex", "cgi", "cgitb", "compression", "crypt", "distutils", "imghdr", "imp",
    "lib2to3", "nntplib", "pipes", "smtpd", "sndhdr", "telnetlib", "test", "uu", "xdrlib",
}  # fmt: skip

#: Import name -> distribution, where they differ. An empty one is never installed for a test's sake.
_DISTRIBUTIONS = {
    "attr": "attrs", "bs4": "beautifulsoup4", "Crypto": "pycryptodome", "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil", "docx": "python-docx", "dotenv": "python-dotenv", "fitz": "PyMuPDF",
    "git": "GitPython", "jose": "python-jose", "jwt": "PyJWT",
    "magic": "python-magic", "mpl_toolkits": "matplotlib", "OpenSSL": "pyOpenSSL",
    "PIL": "Pillow", "pkg_resources": "setuptools", "psycopg2": "psycopg2-binary", "serial": "pyserial",
    "skimage": "scikit-image", "sklearn": "scikit-learn", "slugify": "python-slugify", "usb": "pyusb",
    "yaml": "PyYAML", "zmq": "pyzmq", "_pytest": "pytest", "google": "", "pip": "", "wheel": "",
}  # fmt: skip


def distribution_for(module: str) -> str:
    """The distribution that most likely provides a top-level module; empty when none should be tried."""
    return _DISTRIBUTIONS.get(module, module.replace("_", "-"))


def test_imports(tree: Tree) -> frozenset[str]:
    """Top-level modules imported unconditionally by test files, the tree's own and the standard library's left out.

    Imports inside ``try``, ``if`` and functions are optional to the suite and do not count.
    """
    own = {part.removesuffix(".py") for path in tree if path.endswith((".py", ".pyi")) for part in path.split("/")}
    found: set[str] = set()
    for path, entry in tree.items():
        if entry.kind != "link" and _TEST_FILE.match(path):
            found.update(_imports(entry.data))
    return frozenset(found - own - _STDLIB)


test_imports.__test__ = False  # type: ignore[attr-defined]


def _imports(source: bytes) -> Iterator[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for statement in module.body:
        if isinstance(statement, ast.Import):
            yield from (alias.name.split(".")[0] for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom) and not statement.level and statement.module:
            yield statement.module.split(".")[0]
