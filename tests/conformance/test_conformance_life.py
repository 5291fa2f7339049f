"""Sandboxes start and end: together, by the hundred, from other threads, and when their host process is killed."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from taskforge.errors import SandboxFault
from taskforge.model import Entry, Tree
from taskforge.sandbox import PytestJob, SandboxSpec
from taskforge.sandbox.bubblewrap import Bubblewrap

HOLD = {"test_it.py": b"import os, time\ndef test_hold():\n    open('/tmp/began', 'w').close()\n    time.sleep(600)\n"}


def children() -> list[int]:
    return [int(pid) for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()]


def groups() -> list[Path]:
    return list(Path("/sys/fs/cgroup").glob(f"**/taskforge-{os.getpid()}-*"))


def held() -> tuple[int, int, int, int]:
    """What this process holds on the host: descriptors, children, control groups, mounts of its own."""
    gc.collect()
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    return descriptors, len(children()), len(groups()), Path("/proc/self/mounts").read_text().count("taskforge")


def marked(marker: str) -> list[str]:
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if marker.encode() in (place / "cmdline").read_bytes():
                found.append(place.name)
        except OSError:
            continue
    return found


def runs_inside(marker: str) -> bool:
    """Whether the test's own child runs."""
    for number in marked(marker):
        try:
            if Path("/proc", number, "cmdline").read_bytes().startswith(b"/bin/sh\0"):
                return True
        except OSError:
            continue
    return False


def test_fifty_starts_leak_nothing(box, engine, environment):
    tree = Tree({"a": Entry(b"1"), "tests/b": Entry(b"2")})
    spec = SandboxSpec(environment=environment, tree=tree, protected=("tests/",))
    with engine.start(spec):
        pass
    before = held()
    for _ in range(50):
        with engine.start(spec) as sandbox:
            assert sandbox.alive
        assert not sandbox.alive
    assert held() == before


def test_close_ends_everything_at_once(box):
    marker = uuid.uuid4().hex
    sandbox = box({"test_it.py": f"import subprocess, time\ndef test_hold():\n"
                   f"    subprocess.Popen(['/bin/sh', '-c', 'sleep 600; :', '{marker}'], start_new_session=True)\n"
                   f"    time.sleep(600)\n".encode()})  # fmt: skip
    sandbox.warm()
    results = []
    thread = threading.Thread(target=lambda: results.append(sandbox.run(PytestJob())))
    thread.start()
    while not marked(marker):
        time.sleep(0.01)
    sandbox.kill()
    assert marked(marker) == []
    thread.join(5)
    sandbox.close()
    sandbox.close()
    assert [result.ended for result in results] == ["lost"]
    assert groups() == []
    with pytest.raises(SandboxFault):
        sandbox.exec(["/bin/true"], timeout=1)


def test_killing_from_many_threads(box):
    sandbox = box()
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _number: sandbox.kill(), range(16)))
    assert not sandbox.alive


def test_starting_together(engine, environment):
    def one(number: int) -> bytes:
        spec = SandboxSpec(environment=environment, tree=Tree({"n": Entry(b"%d" % number)}))
        with engine.start(spec) as sandbox:
            return sandbox.exec(["/bin/cat", "n"], timeout=30).output

    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(one, range(18))) == [b"%d" % number for number in range(18)]


def test_one_end_closed_ends_only_its_own(engine, environment):
    """No sandbox holds a pipe of another, or the supervisor would not notice that its host has gone."""
    spec = SandboxSpec(environment=environment, tree=Tree({}))
    with ThreadPoolExecutor(4) as threads:
        boxes = list(threads.map(lambda _number: engine.start(spec), range(4)))
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, boxes[0]._channel.to, inheritable=False)
        os.close(null)
        deadline = time.monotonic() + 5
        while boxes[0].alive and time.monotonic() < deadline:
            time.sleep(0.01)
        assert [sandbox.alive for sandbox in boxes] == [False, True, True, True]
    finally:
        for sandbox in boxes:
            sandbox.close()


HOST = """
import json, sys
from pathlib import Path
from taskforge.model import Entry, Tree
from taskforge.sandbox import Environment, PytestJob, SandboxSpec, backend
told = json.loads(sys.argv[1])
environment = Environment(digest="0" * 64, python=told["python"], overlay=Tree({}),
                          **{key: Path(told[key]) for key in ("root", "interpreter", "base_prefix")})
test = "import subprocess, time\\ndef test_it():\\n    subprocess.Popen(['/bin/sh', '-c', 'sleep 600; :', '%s'], " \\
       "start_new_session=True)\\n    time.sleep(600)\\n" % sys.argv[3]
spec = SandboxSpec(environment=environment, tree=Tree({"test_it.py": Entry(test.encode()), "held/x": Entry(b"")}),
                   protected=("held/",))
backend(sys.argv[2]).start(spec).run(PytestJob())
"""


def test_a_killed_host_leaves_nothing_that_runs_and_the_next_start_sweeps(engine, environment, tmp_path, monkeypatch):
    marker = uuid.uuid4().hex
    told = {key: str(getattr(environment, key)) for key in ("root", "interpreter", "base_prefix", "python")}
    argv = [sys.executable, "-c", HOST, json.dumps(told), engine.name, marker]
    host = subprocess.Popen(argv, env={**os.environ, "TMPDIR": str(tmp_path)})
    deadline = time.monotonic() + 30
    # The host's own command line holds the marker too, and so does that of each child that it forks.
    while not runs_inside(marker) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert runs_inside(marker)
    (stranger := tmp_path / "taskforge-box-of-someone").mkdir()
    (stranger / "lock").touch()
    host.send_signal(signal.SIGKILL)
    host.wait()
    killed = time.monotonic()
    while marked(marker) and time.monotonic() < killed + 5:
        time.sleep(0.02)
    assert marked(marker) == []
    left = [path.name for path in tmp_path.iterdir() if path.name.startswith(f"taskforge-box-{host.pid}-")]
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Bubblewrap().start(SandboxSpec(environment=environment, tree=Tree({}))):
        remaining = [path.name for path in tmp_path.iterdir()]
    assert len(left) == (engine.name == "bubblewrap")
    assert not set(left) & set(remaining)
    assert list(Path("/sys/fs/cgroup").glob(f"**/taskforge-{host.pid}-*")) == []


def test_a_host_without_room_is_a_fault(environment, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/proc/1")
    with pytest.raises(SandboxFault) as caught:
        Bubblewrap().start(SandboxSpec(environment=environment, tree=Tree({})))
    assert caught.value.kind == "host_disk"
