"""A command that is told to end leaves nothing of its sandboxes behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from taskforge.corpus import Corpus

REPO = Path(__file__).parents[1] / "repos" / "calc"


def children(pid: int) -> list[int]:
    return [int(one) for task in Path(f"/proc/{pid}/task").iterdir() for one in (task / "children").read_text().split()]


def started(place: Path, cache: Path, *argv: object) -> subprocess.Popen[bytes]:
    (place / "tmp").mkdir()
    env = {**os.environ, "TMPDIR": str(place / "tmp"), "TASKFORGE_CACHE_DIR": str(cache), "TASKFORGE_JOBS": "2"}
    whole = [sys.executable, "-m", "taskforge", *map(str, argv), "--sandbox", "bubblewrap"]
    return subprocess.Popen(whole, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def ended(command: subprocess.Popen[bytes], place: Path) -> None:
    """Once it has sandboxes, tell it to end; then nothing is left."""
    deadline = time.monotonic() + 60
    while not (list((place / "tmp").iterdir()) and children(command.pid)) and time.monotonic() < deadline:
        time.sleep(0.02)
    boxes = children(command.pid)
    assert boxes
    command.send_signal(signal.SIGTERM)
    _out, err = command.communicate(timeout=60)
    assert command.returncode == 130, err.decode()
    assert b"run the same command again to resume" in err
    assert list((place / "tmp").iterdir()) == []
    assert [pid for pid in boxes if Path(f"/proc/{pid}").exists()] == []
    assert list(Path("/sys/fs/cgroup").glob(f"**/taskforge-{command.pid}-*")) == []


def test_sigterm_ends_what_waits_and_what_works(tmp_path: Path, cache: Path) -> None:
    command = started(tmp_path, cache, "generate", REPO, "--out", tmp_path / "out")
    assert command.stderr is not None
    assert any(line.startswith(b"candidates") for line in command.stderr)
    ended(command, tmp_path)


def test_sigterm_ends_a_single_grade(tmp_path: Path, cache: Path, calc_corpus: Path) -> None:
    task = min(Corpus.open(calc_corpus).task_ids())
    for path, entry in Corpus.open(calc_corpus).bundle(task).workspace.items():
        file = tmp_path / "solution" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"import time\ntime.sleep(600)\n" if path == "src/calc/__init__.py" else entry.data)
    ended(started(tmp_path, cache, "grade", task, tmp_path / "solution", "--corpus", calc_corpus), tmp_path)
