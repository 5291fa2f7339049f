"""Trees by bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskforge.model import Entry, Tree, check_path

NAMES = st.text("ab\udc80é ", min_size=1, max_size=3).filter(lambda name: name.strip())
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
ENTRIES = st.builds(Entry, data=st.binary(max_size=8), kind=st.sampled_from(["file", "exec", "link"]))
TREES = st.dictionaries(PATHS, ENTRIES, max_size=6).map(Tree)


@given(TREES, TREES)
def test_changes_turn_one_tree_into_the_other(one: Tree, two: Tree) -> None:
    assert one.with_changes(one.changes_to(two)).digest == two.digest


@given(TREES, TREES)
def test_the_digest_is_the_content(one: Tree, two: Tree) -> None:
    assert (one.digest == two.digest) == (dict(one) == dict(two))


def test_kind_path_and_data_each_change_the_digest() -> None:
    digests = {
        Tree(entries).digest
        for entries in (
            {},
            {"a": Entry(b"")},
            {"b": Entry(b"")},
            {"a": Entry(b"x")},
            {"a": Entry(b"", "exec")},
            {"a": Entry(b"", "link")},
        )
    }
    assert len(digests) == 6


@pytest.mark.parametrize("path", ["", "/a", "a/", "a//b", "./a", "a/../b", "..", "a\0b", ".git/config", "a/.GIT/x"])
def test_paths_that_leave_the_tree_are_refused(path: str) -> None:
    with pytest.raises(ValueError, match="is not a normal|lies inside"):
        check_path(path)


@pytest.mark.parametrize("path", ["a", "a/b", ".gitignore", "a b/ü", "..a"])
def test_ordinary_paths_are_fine(path: str) -> None:
    assert check_path(path) == path
