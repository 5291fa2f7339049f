"""Limits, however a backend holds them: each ends as itself, and not as another."""

from __future__ import annotations

import time

import pytest

from taskforge.model import Entry
from taskforge.sandbox import PytestJob

HOG = "import time\nheld = []\nwhile True:\n    held.append(bytearray(b'x') * (8 << 20))\n    time.sleep(0.005)\n"
SMALL = {"memory_mb": 256, "disk_mb": 64}


def outcomes(result):
    return {report.id.partition("::")[2]: report.outcome for report in result.reports}


def test_memory_of_a_command(limited_box, python):
    sandbox = limited_box(**SMALL)
    result = python(sandbox, HOG)
    assert (result.ended, result.returncode) == ("oom", None)


def test_memory_of_children_counts(limited_box, python):
    code = (
        "import os, time\n"
        "for _ in range(4):\n"
        "    if os.fork() == 0:\n"
        "        held = bytearray(b'x') * (90 << 20)\n"
        "        time.sleep(2)\n"
        "        os._exit(0)\n"
        "os._exit(any([os.wait()[1] for _ in range(4)]))\n"
    )
    assert python(limited_box(**SMALL), code).ended == "oom"


def test_files_in_memory_count_as_memory(limited_box, python):
    code = (
        "import os\n"
        "for folder in ('/tmp', '/dev/shm', '/workspace'):\n"
        "    with open(folder + '/f', 'wb') as stream:\n"
        "        for _ in range(120):\n"
        "            stream.write(b'x' * (1 << 20)); stream.flush()\n"
        "import time; time.sleep(1)\n"
    )
    assert python(limited_box(memory_mb=256, disk_mb=128), code).ended == "oom"


def test_memory_of_a_test(limited_box):
    tests = f"def test_first(): pass\ndef test_hog():\n    exec({HOG!r})\ndef test_last(): pass\n"
    sandbox = limited_box({"test_it.py": tests.encode()}, **SMALL)
    result = sandbox.run(PytestJob(default_limit=20.0))
    assert result.ended == "oom"
    assert outcomes(result)["test_first"] == "passed"
    assert outcomes(result)["test_hog"] == "ended_early"


def test_other_kills_are_not_memory(limited_box):
    tests = b"import os, signal\ndef test_killed(): os.kill(os.getpid(), signal.SIGKILL)\ndef test_last(): pass\n"
    sandbox = limited_box({"test_it.py": tests})
    result = sandbox.run(PytestJob(default_limit=20.0))
    assert (result.ended, outcomes(result)) == ("done", {"test_killed": "ended_early", "test_last": "passed"})
    assert "SIGKILL" in result.reports[0].reason
    assert sandbox.exec(["/bin/sh", "-c", "kill -9 $$"], timeout=10).returncode == -9


def test_a_fork_bomb_is_contained(limited_box, python):
    sandbox = limited_box(pids=64)
    code = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass\n"
    started = time.monotonic()
    result = python(sandbox, code, timeout=2.0)
    assert result.ended in {"timeout", "crashed"}
    assert time.monotonic() - started < 10
    assert sandbox.exec(["/bin/sh", "-c", "echo /proc/[0-9]*"], timeout=10).output.count(b"/proc/") == 2


def test_a_fork_bomb_in_a_test_ends_the_run(limited_box, limiter):
    tests = b"""
import os
def test_first(): pass
def test_bomb():
    while True:
        try: os.fork()
        except OSError: pass
def test_last(): pass
"""
    sandbox = limited_box({"test_it.py": tests}, pids=64)
    started = time.monotonic()
    result = sandbox.run(PytestJob(default_limit=2.0))
    assert time.monotonic() - started < 15
    told = outcomes(result)
    assert told["test_first"] == "passed"
    bomb = told.get("test_bomb", "missing")
    if limiter.probe().facts["limits"] == "supervisor polling" and result.ended == "oom":
        # A bomb may have grown past what is polled for before its processes are counted.
        assert bomb in {"timeout", "ended_early", "missing"}
        return
    # The kernel refuses what is too many: the bomb hangs until its deadline, or takes its parent with it.
    assert result.ended in {"done", "crashed"}
    assert bomb in {"timeout", "ended_early"}


@pytest.mark.parametrize("folder", ["/tmp", "/workspace", "/dev/shm"])
def test_a_full_disk(limited_box, folder):
    tests = f"""
def test_fill():
    with open({folder + "/f"!r}, "wb", buffering=0) as stream:
        while True:
            if stream.write(b"x" * (1 << 20)) < 1 << 20:
                raise OSError("full")
"""
    sandbox = limited_box({"test_it.py": tests.encode()}, disk_mb=32)
    result = sandbox.run(PytestJob(default_limit=20.0))
    assert (result.ended, outcomes(result)) == ("disk_full", {"test_fill": "failed"})
    full = sandbox.exec(["/bin/sh", "-c", f"cat /dev/zero > {folder}/g"], timeout=20)
    assert (full.ended, full.returncode) == ("disk_full", None)


def test_a_limit_that_hurts_nothing_is_no_end(limited_box):
    tests = """
import pytest
def test_fill():
    with pytest.raises(OSError), open("/tmp/f", "wb", buffering=0) as stream:
        while stream.write(b"x" * (1 << 20)) == 1 << 20: pass
        raise OSError("full")
def test_skipped(): pytest.skip("no")
"""
    sandbox = limited_box({"test_it.py": tests.encode()}, disk_mb=32)
    result = sandbox.run(PytestJob(default_limit=20.0))
    assert (result.ended, outcomes(result)) == ("done", {"test_fill": "passed", "test_skipped": "skipped"})
    assert result.evidence == ("the sandbox's disk was full",)


def test_no_unlimited_place_to_write(limited_box, python):
    places = ("/", "/etc", "/dev", "/env", "/usr", "/bin", "/proc/sys/kernel")
    code = f"import os\nfor place in {places!r}:\n    print(place, os.access(place, os.W_OK))"
    said = python(limited_box(), code).output
    assert b"True" not in said
    assert said.count(b"False") == 7


def test_the_runs_wall_limit(limited_box):
    tests = b"import time, pytest\n@pytest.mark.parametrize('n', range(100))\ndef test_slow(n): time.sleep(0.2)\n"
    sandbox = limited_box({"test_it.py": tests})
    result = sandbox.run(PytestJob(default_limit=20.0, wall_seconds=1.5))
    assert result.ended == "timeout"
    assert 2 < len(result.reports) < 9
    assert {report.outcome for report in result.reports[:-1]} == {"passed"}
    assert result.reports[-1].outcome == "timeout"


def test_a_sandbox_serves_on_after_a_limit(limited_box, python):
    sandbox = limited_box({"test_it.py": b"def test_ok(): pass\n"}, **SMALL)
    sandbox.warm()
    assert python(sandbox, HOG).ended == "oom"
    sandbox.lay({"more": Entry(b"1")})
    assert outcomes(sandbox.run(PytestJob())) == {"test_ok": "passed"}
