"""Sources as users write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskforge.errors import UsageError
from taskforge.model import Source


@pytest.mark.parametrize(
    ("text", "kind", "location", "revision"),
    [
        ("pypi:more-itertools==11.2.1", "pypi", "more-itertools", "11.2.1"),
        ("https://example.org/a/b.git@v1.0", "git", "https://example.org/a/b.git", "v1.0"),
        ("git+https://example.org/a/b@deadbeef", "git", "https://example.org/a/b", "deadbeef"),
        ("git@example.org:a/b.git@main", "git", "git@example.org:a/b.git", "main"),
        ("https://user@example.org/a/b@c0ffee", "git", "https://user@example.org/a/b", "c0ffee"),
        ("ssh://git@example.org/a/b@feature/x", "git", "ssh://git@example.org/a/b", "feature/x"),
    ],
)
def test_remote_forms(text: str, kind: str, location: str, revision: str) -> None:
    assert Source.parse(text).model_dump() == {"kind": kind, "location": location, "revision": revision}


def test_local_forms(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    (tmp_path / "odd@name").mkdir()
    (tmp_path / "a-1.0.tar.gz").write_bytes(b"")
    assert Source.parse(str(tmp_path / "repo")).kind == "folder"
    assert Source.parse(f"{tmp_path}/repo@v1").model_dump() == {
        "kind": "git",
        "location": str(tmp_path / "repo"),
        "revision": "v1",
    }
    # A folder that exists is that folder, whatever its name.
    assert Source.parse(str(tmp_path / "odd@name")).kind == "folder"
    assert Source.parse(str(tmp_path / "a-1.0.tar.gz")).kind == "archive"


@pytest.mark.parametrize(
    "text",
    ["pypi:glom", "pypi:glom==", "pypi:==1", "pypi:a b==1", "https://example.org/a/b", "no/such/place", "", "@main"],
)
def test_what_is_no_source_says_what_is(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        Source.parse(text)
    assert caught.value.hint


def test_a_file_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(UsageError, match="no kind known here"):
        Source.parse(str(tmp_path / "notes.txt"))
