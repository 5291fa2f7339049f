from __future__ import annotations

import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from taskforge.model import Entry, Tree
from taskforge.sandbox.hostfolder import HostFolder, sweep


@pytest.fixture
def base(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def numbered(number: int) -> Tree:
    return Tree({"n": Entry(b"%d" % number)})


def test_a_tree_lies_there_by_bytes(base):
    host = HostFolder()
    odd = os.fsdecode(b"d/\xff")
    folder = host.tree(Tree({"a/x": Entry(b"\0", "exec"), "a/l": Entry(b"x", "link"), odd: Entry(b"odd")}))
    assert (folder / "a/x").read_bytes() == b"\0"
    assert (folder / "a/x").stat().st_mode & 0o777 == 0o755
    assert (folder / odd).stat().st_mode & 0o777 == 0o644
    assert (folder / "a/l").readlink() == Path("x")
    host.remove()
    assert list(base.iterdir()) == []


def test_one_folder_for_the_same_tree_from_many_threads(base):
    host = HostFolder()
    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(lambda _number: host.tree(numbered(1)), range(32)))) == 1


def test_what_nobody_uses_is_kept_for_a_while_and_what_is_used_for_ever(base):
    host = HostFolder()
    used = host.tree(numbered(0))
    for number in range(1, 41):
        host.tree(numbered(number))
        host.release(numbered(number))
    assert used.is_dir()
    folders = [path for path in host.path.iterdir() if path.is_dir()]
    assert len(folders) == 33
    assert not (host.path / numbered(1).digest).exists()
    assert (host.path / numbered(40).digest).is_dir()
    assert (host.tree(numbered(1)) / "n").read_bytes() == b"1"


def test_a_tree_that_cannot_be_written_leaves_nothing(base):
    host = HostFolder()
    with pytest.raises(OSError, match="File name too long"):
        host.tree(Tree({"x" * 300: Entry(b"")}))
    assert [path.name for path in host.path.iterdir()] == ["lock"]


def test_sweep_takes_what_its_owner_left_and_nothing_else(base):
    mine = HostFolder()
    (dead := base / "taskforge-box-99999999-abc").mkdir()
    (dead / "lock").touch()
    (older := base / "taskforge-box-99999998-abc").mkdir()
    (starting := base / f"taskforge-box-{os.getpid()}-starting").mkdir()
    (other := base / "other-box-99999999").mkdir()
    (target := base / "elsewhere").mkdir()
    (link := base / "taskforge-box-99999997-link").symlink_to(target)
    assert sorted(sweep(base)) == sorted([dead, older])
    assert all(path.exists() for path in (mine.path, starting, other, link, target))


def test_a_forked_childs_exit_removes_nothing(base):
    host = HostFolder()
    if (child := os.fork()) == 0:
        host.remove()
        os._exit(0)
    os.waitpid(child, 0)
    assert host.path.is_dir()
