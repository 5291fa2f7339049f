from __future__ import annotations

import os
import signal
from pathlib import Path

from taskforge.process import run
from taskforge.sandbox import cgroup

HOG = "held = bytearray(b'x') * (256 << 20)"


def test_what_cannot_be_made_is_none_and_what_can_limits_memory_and_counts_kills():
    made = cgroup.create(memory=64 << 20, pids=32)
    # Either way this machine is, both answers agree.
    assert (made is not None) == cgroup.available()
    if made is None:
        return
    try:
        assert all(path.name.startswith(f"taskforge-{os.getpid()}-") for path in made.folders)
        assert made.kills() == 0
        enter = "".join(f"echo $$ > '{path}' || exit 71; " for path in made.procs)
        argv = ["/bin/sh", "-c", enter + 'exec "$@"', "sh", "/usr/bin/env", "python3", "-c", HOG]
        assert run(argv, timeout=30).returncode == -signal.SIGKILL
        assert made.kills() == 1
    finally:
        made.remove()
    assert not any(path.exists() for path in made.folders)
    made.remove()


def test_a_group_in_use_is_left_alone(tmp_path):
    (tmp_path / "group" / "inner").mkdir(parents=True)
    cgroup.Cgroup([tmp_path / "group"], v2=True).remove(0.05)
    assert (tmp_path / "group").is_dir()


def test_kills_are_read_from_either_version(tmp_path):
    (tmp_path / "memory.events").write_text("low 0\noom 2\noom_kill 3\noom_group_kill 0\n")
    assert cgroup.Cgroup([tmp_path], v2=True).kills() == 3
    (tmp_path / "memory.events").unlink()
    (tmp_path / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 7\n")
    assert cgroup.Cgroup([Path("/nowhere"), tmp_path], v2=False).kills() == 7


def test_sweep_leaves_the_groups_of_the_living():
    made = cgroup.create(memory=64 << 20, pids=32)
    cgroup.sweep()
    if made is not None:
        assert all(path.is_dir() for path in made.folders)
        made.remove()
