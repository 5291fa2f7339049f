"""Small tasks made by hand, for tests of what stores and shows them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from taskforge.corpus import Bundle, Corpus
from taskforge.model import Entry, Metrics, Provenance, Recipe, TaskCard, TaskTests, Tree
from taskforge.sandbox.bubblewrap import executable

WORKSPACE = Tree({"a.py": Entry(b"def f():\n    raise NotImplementedError\n"), "bin/run": Entry(b"#!\n", "exec")})
PATCH = b"--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n def f():\n-    raise NotImplementedError\n+    return '\xff'\n"


def make_bundle(name: str = "local__x-12345678.stub-f-000001", **changes: Any) -> Bundle:
    card = TaskCard(
        id=name,
        digest="",
        mode="stub",
        feature=changes.pop("feature", ("a.py::f",)),
        environment="e" * 64,
        workspace=WORKSPACE.digest,
        provenance=Provenance(kind="folder", owner="local", name="x", version="1.0"),
        metrics=Metrics(
            lines=changes.pop("lines", 1), files=1, symbols=1, complexity=1,
            fail_to_pass=changes.pop("fail_to_pass", 1), pass_to_pass=0, difficulty=changes.pop("difficulty", 0.0),
        ),
        generator="0",
    )  # fmt: skip
    values: dict[str, Any] = {
        "card": card,
        "statement": "# Write `f`\n\nCaf\xe9 \udcff [bold]\n",
        "workspace": WORKSPACE,
        "tests": TaskTests(fail_to_pass=("t.py::test_\udcff",), files={"t.py::test_\udcff": "t.py"}),
        "hidden": Tree({"t.py": Entry(b"def test(): pass\n")}),
        "reference_patch": PATCH,
        "removal_patch": b"removal\n",
        "reports": {"leaks": {"found": 0}},
    }
    return Bundle(**{**values, **changes})


def write_corpus(path: Path, bundles: Mapping[str, Bundle] | None = None) -> Corpus:
    corpus = Corpus.create(path, {"seed": 0})
    for bundle in (bundles or {"": make_bundle()}).values():
        corpus.write(bundle)
    corpus.update_counts()
    return corpus


@pytest.fixture
def bundle() -> Bundle:
    return make_bundle()


@pytest.fixture
def bundle_maker() -> Callable[..., Bundle]:
    return make_bundle


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    """A corpus of one task."""
    return write_corpus(tmp_path / "corpus")


@pytest.fixture
def recipe() -> Recipe:
    return Recipe(snapshot="5" * 64, python="3.12.1", lock=("pytest==9.0",))


@pytest.fixture
def confined() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs Python where disks are small or read-only: a real one, in a mount namespace, with any user's rights.

    ``mounts`` are bwrap's options; the process has no capability, so that the modes of files count for root, too.
    """

    def run(mounts: list[str], *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
        program = executable()
        assert program is not None
        alone = [program, "--unshare-user", "--cap-drop", "ALL", "--dev-bind", "/", "/", *mounts, "--"]
        return subprocess.run(
            [*alone, sys.executable, *argv],
            env={**os.environ, **env}, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    return run
