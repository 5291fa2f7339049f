"""Writes are whole or not there: full and read-only disks, killed writers, two writers at a time."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from taskforge.corpus import lock, write_bytes, write_folder, write_folders
from taskforge.errors import StoreFault, UsageError

Confined = Callable[..., "subprocess.CompletedProcess[str]"]
#: Calls a function of the package and prints the fault that it raises.
FAULT = """
import sys
from pathlib import Path
from taskforge.corpus import write_bytes, write_folder, lock
from taskforge.errors import StoreFault
try:
    {}
except StoreFault as fault:
    print(fault.kind, fault.retryable, fault.message, sep="|")
"""

WRITES = ["write_bytes(path, b'x')", "write_folder(path, {'a': b'x'})", "lock(path).__enter__()"]


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_file_is_made_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "file"
    write_bytes(path, b"one")
    write_bytes(path, b"two")
    assert content(tmp_path) == {"new/folder/file": b"two"}


def test_a_folder_is_made_and_replaced_as_a_whole(tmp_path: Path) -> None:
    write_folder(tmp_path / "f", {"a": b"1", "deep/er/b": b"2"})
    assert content(tmp_path) == {"f/a": b"1", "f/deep/er/b": b"2"}
    write_folder(tmp_path / "f", {"c": b"3"})
    assert content(tmp_path) == {"f/c": b"3"}
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_folders_come_together(tmp_path: Path) -> None:
    one, two = tmp_path / "one" / "t", tmp_path / "two" / "t"
    for text in (b"1", b"2"):
        write_folders([(one, {"a": text}), (two, {"b": text})])
        assert content(tmp_path) == {"one/t/a": text, "two/t/b": text}
    assert sorted(path.name for path in tmp_path.glob("*/*")) == ["t", "t"]


@pytest.mark.parametrize("call", ["write_bytes(path, data)", "write_folder(path, {'small': b'x', 'large': data})"])
def test_a_full_disk_is_a_fault_and_leaves_what_was_there(call: str, tmp_path: Path, confined: Confined) -> None:
    start = f"path, data = Path({str(tmp_path)!r}) / 'x', bytes(200_000)"
    script = FAULT.format(f"{start}; write_bytes(path.with_name('kept'), b'old'); {call}")
    script += "print({p.name: p.read_bytes() for p in path.parent.iterdir()})"
    done = confined(["--size", "65536", "--tmpfs", str(tmp_path)], "-c", script)
    assert done.stdout.splitlines() == [
        f"disk_full|True|cannot write {tmp_path / 'x'}: No space left on device",
        "{'kept': b'old'}",
    ], done.stderr


@pytest.mark.parametrize("call", WRITES)
def test_a_read_only_disk_is_a_fault(call: str, tmp_path: Path, confined: Confined) -> None:
    script = FAULT.format(f"path = Path({str(tmp_path)!r}) / 'x'; {call}")
    done = confined(["--ro-bind", str(tmp_path), str(tmp_path)], "-c", script)
    assert done.stdout == f"read_only|False|cannot write {tmp_path / 'x'}: Read-only file system\n", done.stderr


@pytest.mark.parametrize("call", WRITES)
def test_a_folder_of_somebody_else_is_a_fault(call: str, tmp_path: Path, confined: Confined) -> None:
    tmp_path.chmod(0o555)
    done = confined([], "-c", FAULT.format(f"path = Path({str(tmp_path)!r}) / 'x'; {call}"))
    tmp_path.chmod(0o755)
    assert done.stdout == f"permission|False|cannot write {tmp_path / 'x'}: Permission denied\n", done.stderr


def test_a_file_where_a_folder_belongs_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreFault, match=r"cannot write .*file/x"):
        write_bytes(tmp_path / "file" / "x", b"")


def test_killed_at_any_moment_a_folder_is_old_or_new(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from taskforge.corpus import write_folder\n"
        "path, n = Path(sys.argv[1]), 0\n"
        "while True:\n"
        "    n += 1\n"
        "    write_folder(path, {f'{i}': str(n).encode() for i in range(4)})\n"
    )
    target = tmp_path / "f"
    for wait in (0.0, 0.003, 0.011, 0.02, 0.031):
        process = subprocess.Popen([sys.executable, "-c", script, str(target)])
        deadline = time.monotonic() + 20
        before = content(target) if target.exists() else {}
        while not target.exists() or content_or_none(target) in ({}, before, None):
            assert time.monotonic() < deadline
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.wait()
        found = content(target)
        assert sorted(found) == ["0", "1", "2", "3"]
        assert len(set(found.values())) == 1
    write_folder(target, {"a": b"end"})
    # What the killed ones left is gone, too.
    assert content(tmp_path) == {"f/a": b"end"}


def content_or_none(folder: Path) -> dict[str, bytes] | None:
    try:
        return content(folder)
    except FileNotFoundError:
        return None


def test_leavings_of_the_dead_go_and_those_of_the_living_stay(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    (tmp_path / f".f.{gone.pid}.00000000.tmp").write_bytes(b"")
    (tmp_path / f".f.{os.getppid()}.00000000.tmp").write_bytes(b"")
    (tmp_path / ".other.tmp").write_bytes(b"")
    write_bytes(tmp_path / "f", b"")
    assert {path.name for path in tmp_path.iterdir()} == {"f", f".f.{os.getppid()}.00000000.tmp", ".other.tmp"}


HOLD = """
import sys, time
from pathlib import Path
from taskforge.corpus import lock
with lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_process_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "corpus" / ".lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    with holder.stdout:
        assert holder.stdout.readline() == b"held\n"
        message = rf"corpus is in use by another taskforge \(pid {holder.pid}\)"
        with pytest.raises(UsageError, match=message), lock(path):
            pass
        holder.kill()
        holder.wait()
    # The lock of a dead process holds nobody up.
    with lock(path):
        assert path.read_text() == f"{os.getpid()}\n"


def test_a_lock_is_free_after_its_block(tmp_path: Path) -> None:
    for _ in range(2):
        with lock(tmp_path / "l"):
            pass
    with pytest.raises(ValueError, match="mine"), lock(tmp_path / "l"):
        raise ValueError("mine")
    with lock(tmp_path / "l"):
        pass


def test_a_device_and_a_pipe_are_written_to_and_stay_what_they_are(tmp_path: Path) -> None:
    # A node of the test's own: replaced by a file, the machine's would be gone for everybody.
    device, pipe, link = tmp_path / "null", tmp_path / "pipe", tmp_path / "stdout"
    os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    write_bytes(device, b"lost")
    assert stat.S_ISCHR(device.stat().st_mode)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_bytes(link, b"told")
        assert os.read(reader, 100) == b"told"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert link.is_symlink()


def test_a_link_to_a_file_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    write_bytes(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"
