"""A command that is told to end leaves nothing of its sandboxes behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

REPO = Path(__file__).parents[1] / "repos" / "calc"


def children(pid: int) -> list[int]:
    return [int(one) for task in Path(f"/proc/{pid}/task").iterdir() for one in (task / "children").read_text().split()]


def test_sigterm_drains(tmp_path: Path, cache: Path) -> None:
    (tmp := tmp_path / "tmp").mkdir()
    argv = [sys.executable, "-m", "taskforge", "generate", str(REPO), "--out", str(tmp_path / "out"),
            "--sandbox", "bubblewrap"]  # fmt: skip
    env = {**os.environ, "TMPDIR": str(tmp), "TASKFORGE_CACHE_DIR": str(cache), "TASKFORGE_JOBS": "2"}
    command = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 120
    # In the midst of the candidates, when sandboxes wait and others are at work.
    assert command.stderr is not None
    assert any(line.startswith(b"candidates") for line in command.stderr)
    while not children(command.pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    boxes = children(command.pid)
    assert boxes
    command.send_signal(signal.SIGTERM)
    _out, err = command.communicate(timeout=60)
    assert command.returncode == 130, err.decode()
    assert b"run the same command again to resume" in err
    assert list(tmp.iterdir()) == []
    assert [pid for pid in boxes if Path(f"/proc/{pid}").exists()] == []
    assert list(Path("/sys/fs/cgroup").glob(f"**/taskforge-{command.pid}-*")) == []
