"""Environments are found in the cache only while they can be used."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest

from taskforge.model import Entry, Tree
from taskforge.sandbox import environments

DIGEST = "a" * 64
OVERLAY = Tree({
    "a/b.py": Entry(b"x\r\n"),
    "caf\udce9": Entry(b"\xff\0"),
    "l": Entry(b"a/b.py", "link"),
    "so": Entry(b"", "exec"),
})


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A complete environment in the cache ``tmp_path``, its interpreter a file of its own."""
    interpreter = tmp_path / "python3.12"
    interpreter.write_bytes(b"1")
    folder = environments.folder(tmp_path, DIGEST)
    site = folder / "env/lib/python3.12/site-packages"
    site.mkdir(parents=True)
    (site / "sitecustomize.py").touch()
    (folder / environments.OVERLAY).write_bytes(environments.pack(OVERLAY))
    environments.record(
        folder,
        interpreter=interpreter,
        base_prefix=tmp_path,
        python="3.12.1",
        variables={"A": "b"},
        pytest_args=("-x",),
    )
    return folder


def test_a_complete_environment_is_loaded(tmp_path: Path, place: Path) -> None:
    found = environments.load(tmp_path, DIGEST)
    assert found is not None
    assert (found.digest, found.root, found.python) == (DIGEST, place / "env", "3.12.1")
    assert (found.interpreter, found.base_prefix) == (tmp_path / "python3.12", tmp_path)
    assert (found.variables, found.pytest_args, found.tools) == ({"A": "b"}, ("-x",), None)
    assert found.overlay == OVERLAY
    assert found.overlay.digest == OVERLAY.digest
    (place / "tools").mkdir()
    (place / environments.OVERLAY).unlink()
    again = environments.load(tmp_path, DIGEST)
    assert again is not None
    assert (again.tools, len(again.overlay)) == (place / "tools", 0)


def test_one_of_an_older_layout_is_rebuilt(tmp_path: Path, place: Path) -> None:
    record = place / environments.RECORD
    told = json.loads(record.read_bytes())
    record.write_text(json.dumps({**told, "layout": environments.LAYOUT - 1}), encoding="utf-8")
    assert environments.load(tmp_path, DIGEST) is None
    del told["layout"]
    record.write_text(json.dumps(told), encoding="utf-8")
    assert environments.load(tmp_path, DIGEST) is None


def test_one_that_would_import_a_start_up_file_of_the_workspace_is_rebuilt(tmp_path: Path, place: Path) -> None:
    (place / "env/lib/python3.12/site-packages/sitecustomize.py").unlink()
    assert environments.load(tmp_path, DIGEST) is None


def test_what_was_never_built_is_none(tmp_path: Path) -> None:
    assert environments.load(tmp_path, DIGEST) is None


@pytest.mark.parametrize("change", ["replaced", "touched", "removed"])
def test_another_interpreter_means_a_rebuild(
    tmp_path: Path, place: Path, caplog: pytest.LogCaptureFixture, change: str
) -> None:
    caplog.set_level(logging.INFO, "taskforge.environments")
    interpreter = tmp_path / "python3.12"
    if change == "replaced":
        interpreter.write_bytes(b"another patch version")
    elif change == "touched":
        os.utime(interpreter, (1, 1))
    else:
        interpreter.unlink()
    assert environments.load(tmp_path, DIGEST) is None
    assert "rebuild" in caplog.text


@pytest.mark.parametrize(
    ("name", "data"),
    [("environment.json", b"{"), ("environment.json", b"[]"), ("environment.json", b"{}"), ("overlay.tar", b"x" * 600)],
)
def test_a_damaged_environment_means_a_rebuild(
    tmp_path: Path, place: Path, caplog: pytest.LogCaptureFixture, name: str, data: bytes
) -> None:
    caplog.set_level(logging.INFO, "taskforge.environments")
    (place / name).write_bytes(data)
    assert environments.load(tmp_path, DIGEST) is None
    assert "damaged" in caplog.text


def test_the_same_tree_packs_to_the_same_bytes() -> None:
    assert environments.pack(OVERLAY) == environments.pack(environments.unpack(environments.pack(OVERLAY)))
