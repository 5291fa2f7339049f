"""``make campaign-sandbox_timeouts``: two hundred timeouts in a row in one sandbox, and as many more in twenty sandboxes
one after the other, on each backend. What is left of them on the host is counted after each part."""

from __future__ import annotations

import gc
import os
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from taskforge.generate import environment as environments
from taskforge.generate.acquire import acquire
from taskforge.model import Entry, Source, Tree
from taskforge.sandbox import BACKENDS, Backend, Environment, PytestJob, SandboxSpec, backend
from taskforge.sandbox.docker import Docker
from taskforge.sandbox.docker_daemon import OWNER
from tests.campaigns import reporting

COUNT = 200
SANDBOXES = 20
PARTS = ("before", f"{COUNT} in one sandbox", f"{COUNT} in {SANDBOXES} sandboxes")
LEFT = ("zombies", "processes", "containers", "mounts", "folders", "control groups")
#: MiB that this process may have grown by from one part to the next.
GROWTH = 8.0

TESTS = '''
import os, signal, subprocess, sys, time
import pytest

MARKER = "%s"
SLEEP = [sys.executable, "-c", "import time; time.sleep(600)", MARKER]

def sleeps(): time.sleep(600)

def spins():
    while True: pass

def leaves_daemons():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0: os.execv(SLEEP[0], SLEEP)
        os._exit(0)
    time.sleep(600)

def ignores_signals():
    for number in range(1, 65):
        try: signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError): pass
    subprocess.Popen(SLEEP, start_new_session=True)
    while True: time.sleep(600)

def holds_pipes():
    subprocess.Popen(SLEEP, stdout=os.dup(1), stderr=os.dup(2), close_fds=False, start_new_session=True)
    subprocess.Popen(["/bin/sh", "-c", "sleep 600 & exit 0"])
    reader, writer = os.pipe()
    os.read(reader, 1)

HOW = [sleeps, spins, leaves_daemons, ignores_signals, holds_pipes]

@pytest.mark.parametrize("number", range(%d))
def test_hang(number): HOW[number %% len(HOW)]()
'''


def _hangs(marker: str, count: int) -> Tree:
    return Tree({"test_hang.py": Entry((TESTS % (marker, count)).encode())})


def _run(engine: Backend, environment: Environment, marker: str, count: int, sandboxes: int) -> None:
    """``count`` timeouts, each of which must have been told as one."""
    share = count // sandboxes
    spec = SandboxSpec(environment=environment, tree=_hangs(marker, share))
    for _ in range(sandboxes):
        with engine.start(spec) as sandbox:
            result = sandbox.run(PytestJob(default_limit=0.25, max_restarts=share + 1))
            assert [report.outcome for report in result.reports] == ["timeout"] * share, result
            inside = sandbox.exec(["/bin/sh", "-c", "cat /proc/[0-9]*/stat"], timeout=20).output
            assert b") Z " not in inside, inside
            # PID 1, the warm interpreter, and what asks.
            assert len(inside.splitlines()) == 3, inside


def _processes(marker: str) -> tuple[int, int]:
    """``(zombies, others)``: children of this process that nobody waited for, and whatever bears the marker."""
    zombies = others = 0
    for place in Path("/proc").glob("[0-9]*"):
        try:
            fields = (place / "stat").read_text().rpartition(")")[2].split()
            zombies += fields[0] == "Z" and int(fields[1]) == os.getpid()
            others += marker.encode() in (place / "cmdline").read_bytes()
        except OSError:
            continue
    return zombies, others


def _left(engine: Backend, marker: str, folder: Path) -> list[int]:
    containers = 0
    if isinstance(engine, Docker):
        mine = engine.daemon.labels("sandbox")[OWNER]
        found = engine.daemon.client.api.containers(all=True, filters={"label": f"{OWNER}={mine}"})
        containers = len(found)
    # The folder of this process with the trees that sandboxes bind, and nothing beside it.
    folders = len([one for one in folder.iterdir() if not one.name.startswith(f"taskforge-box-{os.getpid()}-")])
    groups = len(list(Path("/sys/fs/cgroup").glob(f"**/taskforge-{os.getpid()}-*")))
    mounted = Path("/proc/self/mounts").read_text().count(str(folder))
    return [*_processes(marker), containers, mounted, folders, groups]


def _resident() -> float:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@contextmanager
def _private() -> Iterator[Path]:
    """A folder for all that is temporary, so that whatever is left in it is ours."""
    with tempfile.TemporaryDirectory(prefix="campaign-", dir="/var/tmp") as name:
        before, tempfile.tempdir = tempfile.tempdir, name
        try:
            yield Path(name)
        finally:
            tempfile.tempdir = before


def one(engine: Backend, environment: Environment, folder: Path, count: int, sandboxes: int) -> str:
    """The section of one backend."""
    marker = uuid.uuid4().hex
    # What is made once (imports, connections, images) is made before anything is measured.
    _run(engine, environment, marker, 10, 2)
    rows: list[list[object]] = []
    last = _resident()
    for part, (many, boxes) in zip(PARTS, ((0, 0), (count, 1), (count, sandboxes)), strict=True):
        began = time.monotonic()
        if many:
            _run(engine, environment, marker, many, boxes)
        left, now = _left(engine, marker, folder), _resident()
        assert not any(left), dict(zip(LEFT, left, strict=True))
        assert now - last < GROWTH, f"grew by {now - last:.1f} MiB"
        last = now
        rows.append([part, many, *left, f"{now:.1f}", f"{time.monotonic() - began:.0f}"])
    heads = ["part", "timeouts", *LEFT, "resident MiB", "seconds"]
    return f"## {engine.name}\n\n{reporting.table(heads, rows)}"


def main(count: int = COUNT, sandboxes: int = SANDBOXES) -> str:
    """Run it all; returns the report's text."""
    work = reporting.ROOT / ".campaign" / "sandbox_timeouts"
    work.mkdir(parents=True, exist_ok=True)
    calc = acquire(Source.parse(str(reporting.ROOT / "tests/repos/calc")), cache=work, index_url="", timeout=60)
    environment = environments.build(calc, backend=backend("bubblewrap"), cache=work, log=print)[1]
    with _private() as folder:
        parts = [one(backend(name), environment, folder, count, sandboxes) for name in sorted(BACKENDS)]
    return "\n\n".join([
        "Tests that sleep, spin, leave daemons of a session of their own, ignore every signal, and hold pipes, in turn; "
        "each has 0.25 s. What is left on the host after each part, and this process's own memory:",
        *parts,
    ])  # fmt: skip


if __name__ == "__main__":
    print(reporting.write("sandbox_timeouts", "make campaign-sandbox_timeouts", main()))
