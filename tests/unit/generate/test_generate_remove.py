from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import configuration, given, settings
from hypothesis import strategies as st

from taskforge.errors import TaskRejected
from taskforge.generate.patches import patch_between
from taskforge.generate.remove import project_files, remove
from taskforge.languages import Mode, Project, language
from taskforge.model import Candidate, Entry, Tree

# Not into the current folder, where pytest would stumble over it.
configuration.set_hypothesis_home_dir(Path(tempfile.gettempdir()) / "taskforge-hypothesis")

PYTHON = language("python")
SOURCE = b"def f(a):\r\n    x = a\r\n    return x\r\ndef g(): return 2"
TREE = Tree({"p/m.py": Entry(SOURCE, "exec"), "README": Entry(b"x"), "l.py": Entry(b"p/m.py", "link")})


def candidate(*names: str, path: str = "p/m.py") -> Candidate:
    return Candidate(symbols=tuple(it for it in PYTHON.index(path, SOURCE) if it.qualname in names))


def apply(tree: Tree, patch: bytes, folder: Path) -> Tree:
    """What ``git apply`` makes of it, by the real thing."""
    for path, entry in tree.items():
        target = Path(os.fsdecode(os.fsencode(folder) + b"/" + os.fsencode(path)))
        target.parent.mkdir(parents=True, exist_ok=True)
        if entry.kind == "link":
            target.symlink_to(os.fsdecode(entry.data))
        else:
            target.write_bytes(entry.data)
            target.chmod(0o755 if entry.kind == "exec" else 0o644)
    env = {
        **os.environ,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CEILING_DIRECTORIES": str(folder.parent),
    }
    argv = ["git", "apply", "-p1", "--whitespace=nowarn"]
    done = subprocess.run(argv, cwd=folder, input=patch, capture_output=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Entry] = {}
    for file in sorted(folder.rglob("*")):
        path = str(file.relative_to(folder))
        if file.is_symlink():
            found[path] = Entry(os.fsencode(file.readlink()), "link")
        elif file.is_file():
            found[path] = Entry(file.read_bytes(), "exec" if file.stat().st_mode & 0o100 else "file")
    return Tree(found)


def test_a_removal_changes_only_the_files_of_the_feature() -> None:
    removal = remove(TREE, candidate("f", "g"), PYTHON)
    stubbed = b"def f(a):\r\n    raise NotImplementedError\r\ndef g(): raise NotImplementedError"
    assert removal.changes == {"p/m.py": Entry(stubbed, "exec")}
    assert removal.tree == {**TREE, "p/m.py": Entry(stubbed, "exec")}
    assert removal.removed == {"p/m.py::f:1": b"x = a\r\n    return x", "p/m.py::g:4": b"return 2"}


@pytest.mark.parametrize(
    ("tree", "chosen", "reason"),
    [
        (Tree({}), candidate("f"), "file_gone"),
        (TREE, candidate("f", path="l.py"), "not_a_file"),
        (Tree({"p/m.py": Entry(b"def f(a):\n  pass\n")}), candidate("f"), "stale_index"),
        (TREE, candidate("f").model_copy(update={"mode": "module"}), "mode_unknown"),
        (
            Tree({"p/m.py": Entry(SOURCE.replace(b"x = a\r\n    return x", b"(           (      "))}),
            candidate("g"),
            "stub_does_not_parse",
        ),
    ],
)
def test_what_cannot_be_removed_is_rejected_with_a_reason(tree: Tree, chosen: Candidate, reason: str) -> None:
    with pytest.raises(TaskRejected) as caught:
        remove(tree, chosen, PYTHON)
    assert caught.value.reason == reason
    assert chosen.name in caught.value.message


def test_the_patch_back_restores_the_original(tmp_path: Path) -> None:
    removal = remove(TREE, candidate("f", "g"), PYTHON)
    patch = patch_between(removal.tree, TREE)
    assert b"\n+    return x\r\n" in patch
    assert apply(removal.tree, patch, tmp_path) == TREE


def test_equal_trees_have_an_empty_patch() -> None:
    assert patch_between(TREE, TREE) == b""


def test_modes_links_odd_names_and_binaries_survive(tmp_path: Path) -> None:
    before = Tree(
        {
            "mode": Entry(b"same"),
            "to-link": Entry(b"x\n"),
            "gone": Entry(b"\0\1"),
            "dir/file": Entry(b"1\n"),
            "link": Entry(b"mode", "link"),
            ".gitattributes": Entry(b"* text=auto eol=lf -diff\n"),
            "crlf": Entry(b"a\r\nb\n"),
            "empty-gone": Entry(b""),
        }
    )
    after = Tree(
        {
            "mode": Entry(b"same", "exec"),
            "to-link": Entry(b"mode", "link"),
            "new bin": Entry(bytes(range(256))),
            "dir/file": Entry(b"1"),
            "link": Entry(b"dir/file", "link"),
            ".gitattributes": Entry(b"* -text\n"),
            "crlf": Entry(b"a\nb\r\n"),
            'caf\udce9 "q"\t': Entry(b"n\n"),
            "\u00e9": Entry(b""),
        }
    )
    assert apply(before, patch_between(before, after), tmp_path) == after


NAMES = st.sampled_from(["a", "b", "c d", "e/f", "e/g", "caf\u00e9", "x\udcff", "y\nz", '"', "\\"])
DATA = st.one_of(
    st.binary(max_size=40), st.lists(st.sampled_from([b"a\n", b"b\r\n", b"\n", b"c", b"\0"]), max_size=8).map(b"".join)
)
ENTRIES = st.one_of(
    st.builds(Entry, DATA, st.sampled_from(["file", "exec"])),
    st.sampled_from([Entry(b"a", "link"), Entry(b"nowhere/x", "link")]),
)
TREES = st.dictionaries(NAMES, ENTRIES, max_size=6).map(Tree)


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(TREES, TREES)
def test_any_tree_can_be_patched_into_any_other(before: Tree, after: Tree) -> None:
    with tempfile.TemporaryDirectory() as folder:
        patch = patch_between(before, after)
        assert (apply(before, patch, Path(folder)) if patch else before) == after


PACKAGE = Tree(
    {
        "p/__init__.py": Entry(b"from p.m import f, K\n"),
        "p/m.py": Entry(b"def _h(): return 3\ndef f():\n    return _h()\nclass K:\n    def g(self): return 2\n", "exec"),
        "p/n.py": Entry(b"from . import f\ndef n(): return f()\n"),
        "tests/test_m.py": Entry(b"from p import f\ndef test(): assert f() == 3\n"),
        "l.py": Entry(b"p/m.py", "link"),
    }
)


def project(tree: Tree) -> Project:
    return PYTHON.project(project_files(tree), is_product=lambda path: not PYTHON.is_test_path(path))


def wanted(mode: Mode, *units: str, files: tuple[str, ...] = ()) -> Candidate:
    symbols = tuple(it for key in units for it in project(PACKAGE).units[key].symbols) or candidate("f").symbols
    return Candidate(mode=mode, symbols=symbols, units=units, files=files)


def test_units_go_with_all_that_speaks_of_them_and_the_original_comes_back(tmp_path: Path) -> None:
    removal = remove(PACKAGE, wanted("remove", "p/m.py::f"), PYTHON, project=project(PACKAGE))
    assert removal.changes == {
        "p/__init__.py": Entry(b"from p.m import K\n"),
        "p/m.py": Entry(b"class K:\n    def g(self): return 2\n", "exec"),
        "p/n.py": Entry(b"def n(): return f()\n"),
    }
    assert removal.removed == {"p/m.py::f:2": b"return _h()", "p/m.py::_h:1": b"def _h(): return 3"}
    assert removal.plan is not None
    assert (removal.plan.deleted, removal.plan.joined) == (("p/m.py::f",), ("p/m.py::_h",))
    original = {path: PACKAGE[path] for path in removal.changes}
    back = patch_between(dict(removal.changes), original)  # type: ignore[arg-type]
    assert apply(removal.tree, back, tmp_path) == PACKAGE


def test_files_go_whole() -> None:
    removal = remove(PACKAGE, wanted("module", files=("p/m.py",)), PYTHON, project=project(PACKAGE))
    assert removal.changes == {
        "p/__init__.py": Entry(b""),
        "p/m.py": None,
        "p/n.py": Entry(b"def n(): return f()\n"),
    }
    assert "p/m.py" not in removal.tree


def test_pins_and_what_runs_are_handed_on() -> None:
    chosen = wanted("cluster", "p/m.py::f", "p/m.py::K.g")
    made = remove(
        PACKAGE, chosen, PYTHON, project=project(PACKAGE), pinned={"p/m.py::f": "why"}, running=["p/m.py::K.g"]
    )
    assert made.changes == {
        "p/m.py": Entry(b"def f():\n    raise NotImplementedError\nclass K:\n    def g(self): return 2\n", "exec")
    }
    assert made.plan is not None
    assert made.plan.stubbed == {"p/m.py::f": "why"}


@pytest.mark.parametrize(
    ("chosen", "tree", "with_project", "reason"),
    [
        (wanted("remove", "p/m.py::f"), PACKAGE, False, "mode_unknown"),
        (wanted("remove", "p/m.py::f").model_copy(update={"units": ("p/m.py::no",)}), PACKAGE, True, "unit_unknown"),
        (wanted("module", files=("p/no.py",)), PACKAGE, True, "file_gone"),
        (wanted("module", files=("l.py",)), PACKAGE, True, "not_a_file"),
    ],
)
def test_what_cannot_be_removed_by_units_is_rejected(
    chosen: Candidate, tree: Tree, with_project: bool, reason: str
) -> None:
    with pytest.raises(TaskRejected) as caught:
        remove(tree, chosen, PYTHON, project=project(tree) if with_project else None)
    assert caught.value.reason == reason
