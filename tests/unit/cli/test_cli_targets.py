"""Files that a caller names for what a command writes: asked before the work, and only files are replaced."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from taskforge.cli.common import file_to_write
from taskforge.errors import StoreFault, UsageError


def test_what_is_no_file_stays(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name, says in (("pipe", "pipe is no regular file"), ("link", "link is no regular file"), (".", "is a folder")):
        with pytest.raises(UsageError, match=says) as caught:
            file_to_write(tmp_path / name, "--to")
        assert "--to" in caught.value.hint
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    with pytest.raises(UsageError, match="/dev/null is no regular file"):
        file_to_write(Path("/dev/null"), "--to")


def test_a_link_leads_to_the_file_that_is_written(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("new/file")
    assert file_to_write(tmp_path / "link", "--to") == (tmp_path / "new" / "file").resolve()
    assert list((tmp_path / "new").iterdir()) == []


def test_a_place_that_cannot_be_written_is_told_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreFault, match="cannot write"):
        file_to_write(tmp_path / "file" / "report.json", "--out")
    with pytest.raises(StoreFault, match="cannot write /proc/report.json") as caught:
        file_to_write(Path("/proc/report.json"), "--out")
    assert caught.value.hint
