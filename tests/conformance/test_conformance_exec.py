"""Commands: how they end, what they say, and that nothing of them stays."""



from __future__ import annotations

import resource
import signal
import time
import uuid
from pathlib import Path

import pytest


def alive(marker: str) -> list[int]:
    """Processes of this host with ``marker`` in their command line, whatever namespace they live in."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if marker.encode() in (place / "cmdline").read_bytes():
                found.append(int(place.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("code", [0, 1, 42, 255])
def test_exit_codes(box, code):
    result = box().exec(["/bin/sh", "-c", f"exit {code}"], timeout=10)
    assert (result.ended, result.returncode) == ("done", code)


def test_signals_are_negative_exit_codes(box):
    sandbox = box()
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, 40):
        result = sandbox.exec(["/bin/sh", "-c", f"kill -{int(number)} $$"], timeout=10)
        assert (result.ended, result.returncode) == ("done", -number)


def test_what_cannot_be_started_is_127(box):
    sandbox = box()
    for argv in (["/no/such/program"], ["/bin/echo", "a\0b"], ["/workspace"]):
        assert sandbox.exec(argv, timeout=10).returncode == 127
    assert sandbox.exec(["/bin/pwd"], timeout=10, cwd="/absent").returncode == 127
    assert sandbox.exec(["/bin/pwd"], timeout=10, cwd="/tmp").output == b"/tmp\n"


def test_stdin_is_closed(box, python):
    result = python(box(), "import sys\nprint(repr(sys.stdin.read()))", timeout=10)
    assert result.output == b"''\n"


def test_output_is_capped_by_bytes_and_split_characters_survive(box, python):
    sandbox = box(output_kb=1)
    code = "import os, time\nfor block in (b'\\xc3', b'\\xa9'):\n    os.write(1, block)\n    time.sleep(0.05)"
    assert python(sandbox, code).output.decode() == "é"
    capped = python(sandbox, "print('é' * 5000)")
    assert capped.output == ("é" * 512).encode()
    assert capped.returncode == 0


def test_a_flood_leaves_the_hosts_memory_flat(box, python):
    sandbox = box(output_kb=64)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = python(sandbox, "import os\nfor _ in range(200):\n    os.write(1, b'x' * (1 << 20))", timeout=60)
    assert (result.returncode, len(result.output)) == (0, 64 << 10)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 << 10


DAEMONS = """
import os, subprocess, sys, time
marker = sys.argv[1]
subprocess.Popen(["/env/bin/python", "-c", "import time; time.sleep(600)", marker], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execv("/env/bin/python", ["python", "-c", "import signal, time\\nfor n in range(1, 32):\\n    n in (9, 19) or "
            "signal.signal(n, signal.SIG_IGN)\\ntime.sleep(600)", marker])
    os._exit(0)
time.sleep(0.3)
if sys.argv[2] == "hang":
    time.sleep(600)
"""


@pytest.mark.parametrize("how", ["hang", "leave"])
def test_nothing_outlives_a_command(box, python, how):
    marker = uuid.uuid4().hex
    sandbox = box()
    started = time.monotonic()
    result = python(sandbox, DAEMONS, marker, how, timeout=1.0 if how == "hang" else 10.0)
    assert time.monotonic() - started < 4
    assert (result.ended, result.returncode) == (("timeout", None) if how == "hang" else ("done", 0))
    assert alive(marker) == []
    # PID 1 and the shell itself.
    assert sandbox.exec(["/bin/sh", "-c", "echo /proc/[0-9]*"], timeout=10).output.count(b"/proc/") == 2


def test_output_before_the_deadline_is_kept(box):
    result = box().exec(["/bin/sh", "-c", "echo said; exec sleep 600"], timeout=0.5)
    assert (result.ended, result.returncode, result.output) == ("timeout", None, b"said\n")


def test_the_specs_own_wall_limit_holds(box):
    result = box(wall_seconds=0.5).exec(["/bin/sleep", "600"], timeout=600)
    assert result.ended == "timeout"
    assert result.seconds < 3


def test_a_command_is_quick(box):
    sandbox = box()
    taken = sorted(sandbox.exec(["/bin/true"], timeout=10).seconds for _ in range(9))
    assert taken[4] < 0.1
