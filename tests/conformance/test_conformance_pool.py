"""A warm pool over every backend: what waits becomes what is asked for, byte for byte, and leaves nothing behind."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from taskforge.model import Entry, Tree
from taskforge.sandbox import Backend, Environment, PytestJob, Sandbox, SandboxSpec
from taskforge.sandbox.pool import Pool

FILES: Mapping[str, Entry] = {
    "tests/test_it.py": Entry(
        b"import pytest\nfrom src import part\ndef test_one():\n    assert part.one() == 1\n"
        b"def test_two():\n    assert part.two() == 2\n"
    ),
    "tests/data/held": Entry(b"\x00\xff", "exec"),
    "conftest.py": Entry(b""),
    "src/__init__.py": Entry(b""),
    "src/part.py": Entry(b"def one():\n    return 1\ndef two():\n    raise NotImplementedError\n"),
    "src/deep/er/a": Entry(b"a"),
    "src/deep/er/tool": Entry(b"#!/bin/sh\n"),
    "src/deep/er/link": Entry(b"a", "link"),
    "src/deep/er/gone": Entry(b"gone"),
    "src/deep/er/linked": Entry(b"a"),
    "src/deep/er/file": Entry(b"held", "link"),
    "name \udcff\n": Entry(b"odd"),
}
PROTECTED = ("tests/", "conftest.py")
#: From FILES to a kindred tree: contents, modes, kinds, targets, deletions, new files.
CHANGES: Mapping[str, Entry | None] = {
    "src/part.py": Entry(b"def one():\n    raise NotImplementedError\ndef two():\n    return 2\n"),
    "src/deep/er/tool": Entry(b"#!/bin/sh\n", "exec"),
    "src/deep/er/link": Entry(b"tool", "link"),
    "src/deep/er/gone": None,
    "src/deep/er/linked": Entry(b"../../part.py", "link"),
    "src/deep/er/file": Entry(b"a file now"),
    "src/deep/er/empty": Entry(b""),
    "name \udcff\n": None,
    "name \udcfe": Entry(b"as odd"),
}
#: One line for everything in a workspace that a test could see, folders included.
LIST = """
import os
for top, folders, names in os.walk(b"/workspace"):
    folders.sort()
    for name in sorted([b"."] + folders + names):
        path = os.path.join(top, name)
        info = os.lstat(path)
        target = os.readlink(path) if os.path.islink(path) else b""
        print(path, oct(info.st_mode), info.st_uid, info.st_gid, info.st_nlink * (not os.path.isdir(path)), target)
"""


@pytest.fixture
def spec(environment: Environment) -> SandboxSpec:
    return SandboxSpec(environment=environment, tree=Tree(FILES), protected=PROTECTED)


@pytest.fixture
def warm(engine: Backend) -> Iterator[Pool]:
    with Pool(engine, size=1) as pool:
        yield pool


def changed(spec: SandboxSpec, changes: Mapping[str, Entry | None]) -> SandboxSpec:
    return dataclasses.replace(spec, tree=spec.tree.with_changes(changes))


def settled(pool: Pool, waiting: int) -> list[Sandbox]:
    """Wait until nothing is being started; then that many wait."""
    deadline = time.monotonic() + 60
    while pool.stats.starting and time.monotonic() < deadline:
        time.sleep(0.01)
    assert pool.stats.waiting == waiting
    return [one.future.result() for one in pool._all()]


def seen(sandbox: Sandbox) -> tuple[Tree, bytes]:
    done = sandbox.exec(["/env/bin/python", "-c", LIST], timeout=60)
    assert done.returncode == 0
    return sandbox.read("/workspace"), done.output


def verdicts(sandbox: Sandbox) -> dict[str, str]:
    result = sandbox.run(PytestJob())
    assert result.ended == "done"
    return {report.id: report.outcome for report in result.reports}


def test_one_that_waits_becomes_its_kin_byte_for_byte(engine, spec):
    other = changed(spec, CHANGES)
    for have, want, outcomes in ((spec, other, ["failed", "passed"]), (other, spec, ["passed", "failed"])):
        with Pool(engine, size=1) as pool:
            pool.expect(have)
            (waiting,) = settled(pool, 1)
            with pool.take(want) as sandbox, engine.start(want) as fresh:
                assert sandbox is waiting
                assert sandbox.spec is want
                assert seen(sandbox) == seen(fresh)
                assert sandbox.read("/workspace") == want.tree
                assert list(verdicts(sandbox).values()) == outcomes
                assert list(verdicts(fresh).values()) == outcomes
            assert pool.stats.kin_hits == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"tests/data/held": Entry(b"other", "exec")},
        {"tests/data/held": None},
        {"new/folder": Entry(b"")},
        {"src/deep/er": Entry(b"a file"), **dict.fromkeys(path for path in FILES if path.startswith("src/deep/er/"))},
    ],
    ids=["held file", "held file gone", "new folder", "folder to file"],
)
def test_what_is_no_kin_is_started(warm, spec, changes):
    other = changed(spec, changes)
    warm.expect(spec)
    settled(warm, 1)
    with warm.take(other) as sandbox:
        assert sandbox.read("/workspace") == other.tree
    assert (warm.stats.kin_hits, warm.stats.misses) == (0, 1)


def test_what_runs_in_one_that_was_changed_is_as_confined(warm, spec):
    """What is protected stays so, and what is not can still be written."""
    warm.expect(spec)
    with warm.take(changed(spec, CHANGES)) as sandbox:
        code = (
            "import os, sys\n"
            "for call in (lambda: open('tests/test_it.py', 'w'), lambda: os.rename('tests', 'elsewhere'),\n"
            "             lambda: os.unlink('conftest.py'), lambda: open('tests/new', 'w')):\n"
            "    try: call()\n"
            "    except OSError: continue\n"
            "    sys.exit(3)\n"
            "open('src/deep/er/empty', 'a').close(); os.unlink('src/part.py'); open('src/deep/er/new', 'w').close()\n"
        )
        assert sandbox.exec(["/env/bin/python", "-c", code], timeout=30).returncode == 0
        assert warm.stats.kin_hits == 1


def machinery(marker: str) -> tuple[int, int]:
    """Host's ids of the supervisor and of the warm interpreter whose environment holds ``marker``."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if marker.encode() in (place / "environ").read_bytes():
                above = int((place / "stat").read_bytes().rpartition(b")")[2].split()[1])
                return above, int(place.name)
        except OSError:
            continue
    raise AssertionError("it does not run")


def state(pid: int) -> str:
    """One letter; empty when there is no such process any more."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0].decode()
    except OSError:
        return ""


@pytest.mark.parametrize(
    ("who", "how"), [(0, signal.SIGKILL), (0, signal.SIGSTOP), (1, signal.SIGKILL)],
    ids=["supervisor killed", "supervisor stopped", "warm interpreter killed"],
)  # fmt: skip
def test_what_is_handed_out_is_alive(warm, spec, who, how):
    marker = uuid.uuid4().hex
    marked = dataclasses.replace(spec, environment=dataclasses.replace(spec.environment, variables={"MARK": marker}))
    warm.expect(marked)
    settled(warm, 1)
    pid = machinery(marker)[who]
    os.kill(pid, how)
    while state(pid) not in ("", "T", "Z"):
        time.sleep(0.01)
    with warm.take(marked) as sandbox:
        assert list(verdicts(sandbox).values()) == ["passed", "failed"]
    assert (warm.stats.hits, warm.stats.misses, warm.stats.wasted) == (0, 1, 1)


def test_a_busy_pool_serves_each_its_own_and_leaves_nothing(engine, spec):
    trees = [changed(spec, {"src/deep/er/gone": Entry(b"%d" % number)}) for number in range(6)]

    def one(number: int) -> bytes:
        with pool.take(trees[number % 6]) as sandbox:
            return sandbox.exec(["/bin/cat", "src/deep/er/gone"], timeout=60).output

    with Pool(engine, size=2) as pool, ThreadPoolExecutor(3) as threads:
        assert list(threads.map(one, range(18))) == [b"%d" % (number % 6) for number in range(18)]
        assert pool.stats.out == 0
        boxes = settled(pool, 2)
    assert not any(sandbox.alive for sandbox in boxes)
    assert pool.stats.kin_hits > 0


HOST = """
import json, os, signal, sys, time
from pathlib import Path
from taskforge.model import Entry, Tree
from taskforge.sandbox import Environment, SandboxSpec, backend
from taskforge.sandbox.pool import Pool
told = json.loads(sys.argv[1])
environment = Environment(digest="0" * 64, python=told["python"], overlay=Tree({}), variables={"MARK": sys.argv[3]},
                          **{key: Path(told[key]) for key in ("root", "interpreter", "base_prefix")})
spec = SandboxSpec(environment=environment, tree=Tree({"a": Entry(b"1"), "held/x": Entry(b"")}), protected=("held/",))
pool = Pool(backend(sys.argv[2]), size=1)
taken = pool.take(spec)
while not pool.stats.waiting:
    time.sleep(0.01)
assert taken.alive
print("waits", flush=True)
"""


def test_an_interpreter_that_ends_without_closing_leaves_nothing(engine, environment, tmp_path):
    marker = uuid.uuid4().hex
    told = {key: str(getattr(environment, key)) for key in ("root", "interpreter", "base_prefix", "python")}
    argv = [sys.executable, "-c", HOST, json.dumps(told), engine.name, marker]
    done = subprocess.run(
        argv, env={**os.environ, "TMPDIR": str(tmp_path)}, timeout=60, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "waits\n", "")
    with pytest.raises(AssertionError, match="does not run"):
        machinery(marker)
    assert list(tmp_path.iterdir()) == []
