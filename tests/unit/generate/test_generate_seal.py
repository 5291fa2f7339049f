from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from taskforge.errors import UsageError
from taskforge.generate.seal import git_workspace, seal
from taskforge.model import Entry, Tree

KEPT = [
    ".gitignore",
    ".gitattributes",
    ".coveragerc",
    "PKG-INFO",
    "README.md",
    "pkg/build/x.py",
    "pkg/dist/__init__.py",
    "pkg/m.py",
    "tests/test_b.py",
    "tests/data/x-1.0.dist-info/METADATA",
    "tests/data/x.whl",
    "docs/a.patch",
    "pkg/gitlike.py",
    "builder.py",
]
DROPPED = [
    "pkg/__pycache__/m.cpython-311.pyc",
    "pkg/m.pyc",
    ".mypy_cache/3.11/cache.db",
    ".pytest_cache/v/x",
    ".ruff_cache/x",
    ".hypothesis/x",
    ".tox/p/x",
    ".nox/x",
    ".venv/bin/x",
    "build/lib/pkg/m.py",
    "dist/a.tar.gz",
    "src/a.egg-info/SOURCES.txt",
    "a.egg",
    "htmlcov/m.html",
    ".coverage",
    ".coverage.h.1",
    ".github/workflows/ci.yml",
    ".gitmodules",
    "docs/_build/m.html",
    "pkg/m.py.orig",
    "m.rej",
    "fix.patch",
    "node_modules/x",
    ".idea/x",
    ".vscode/x",
    ".DS_Store",
    "tests/__pycache__/x.pyc",
    "pkg/m.py~",
    "pkg/.m.py.swp",
]


def tree(*paths: str) -> Tree:
    return Tree({path: Entry(path.encode()) for path in paths})


def test_a_tree_is_split_in_two_without_its_traces() -> None:
    sealed = seal(tree(*KEPT, *DROPPED, "tests/test_a.py"), ["tests/test_a.py"])
    assert list(sealed.workspace) == sorted(KEPT)
    assert sealed.hidden == tree("tests/test_a.py")
    assert sealed.dropped == tuple(sorted(DROPPED))


def test_a_hidden_file_is_kept_even_where_products_lie() -> None:
    sealed = seal(tree("build/test_a.py", "m.py"), ["build/test_a.py"])
    assert list(sealed.hidden) == ["build/test_a.py"]
    assert sealed.dropped == ()


def test_a_file_that_is_cut_is_whole_in_the_hidden_half_alone() -> None:
    whole = Tree({"m.py": Entry(b"m"), "tests/a.py": Entry(b"ab", "exec"), "tests/b.py": Entry(b"b")})
    sealed = seal(whole, ["tests/b.py"], pruned={"tests/a.py": b"a"})
    assert sealed.workspace == Tree({"m.py": Entry(b"m"), "tests/a.py": Entry(b"a", "exec")})
    assert sealed.hidden == Tree({"tests/a.py": Entry(b"ab", "exec"), "tests/b.py": Entry(b"b")})
    assert sealed.workspace.with_changes(sealed.hidden) == whole


def test_hiding_what_is_not_there_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"'x\.py' is to be hidden"):
        seal(tree("m.py"), [], pruned={"x.py": b""})
    with pytest.raises(UsageError, match=r"'t\.py' is to be hidden"):
        seal(tree("m.py"), ["t.py"])


def git(folder: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True).stdout


TREE = Tree(
    {
        ".gitattributes": Entry(b"* text=auto eol=crlf\n*.id ident\n"),
        ".gitignore": Entry(b"ignored\n"),
        "ignored": Entry(b"1\n"),
        "crlf": Entry(b"a\r\nb\r\n"),
        "mixed": Entry(b"a\r\nb\n"),
        "run": Entry(b"#!\n", "exec"),
        "link": Entry(b"../out", "link"),
        "x.id": Entry(b"$Id$\n"),
        "d/caf\udce9": Entry(b"\0\xff"),
        "hooks/post-commit": Entry(b"", "exec"),
    }
)


def test_a_workspace_is_one_commit_that_depends_on_the_tree_alone(tmp_path: Path) -> None:
    first = git_workspace(TREE, tmp_path / "one")
    assert git_workspace(TREE, tmp_path / "other" / "two") == first
    assert git_workspace(TREE.with_changes({"run": None}), tmp_path / "three") != first
    folder = tmp_path / "one"
    logged = git(folder, "log", "--all", "--format=%H|%an <%ae>|%cn <%ce>|%ad|%cd|%s", "--date=iso").decode()
    who, when = "taskforge <taskforge@localhost>", "2000-01-01 00:00:00 +0000"
    assert logged == f"{first}|{who}|{who}|{when}|{when}|workspace\n"
    assert git(folder, "reflog") == b""
    assert not (folder / ".git" / "hooks").exists()


def test_a_workspace_holds_the_bytes_of_the_tree(tmp_path: Path) -> None:
    git_workspace(TREE, tmp_path)
    listed = git(tmp_path, "-c", "core.quotePath=false", "ls-tree", "-r", "-z", "HEAD").split(b"\0")[:-1]
    assert len(listed) == len(TREE)
    modes = {"file": b"100644", "exec": b"100755", "link": b"120000"}
    for line in listed:
        facts, name = line.split(b"\t")
        entry = TREE[name.decode("utf-8", "surrogateescape")]
        assert facts.split()[0] == modes[entry.kind]
        assert git(tmp_path, "cat-file", "blob", facts.split()[2].decode()) == entry.data
    assert git(tmp_path, "status", "--porcelain", "--ignored") == b""
    (tmp_path / "crlf").write_bytes(b"a\r\nc\r\n")
    assert b"-b\r\n+c\r\n" in git(tmp_path, "diff")


def test_nothing_but_the_tree_is_in_the_objects(tmp_path: Path) -> None:
    git_workspace(TREE, tmp_path)
    objects = git(tmp_path, "cat-file", "--batch-check", "--batch-all-objects").splitlines()
    reachable = git(tmp_path, "rev-list", "--objects", "--all").splitlines()
    assert {it.split()[0] for it in objects} == {it.split()[0] for it in reachable}


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"")
    with pytest.raises(UsageError, match="is not empty"):
        git_workspace(TREE, tmp_path)
