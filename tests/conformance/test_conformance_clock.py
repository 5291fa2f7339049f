"""Clocks that are wrong: this host's against the daemon's, the sandbox's under a test that turns it, files of times that
have not come. Deadlines and durations are kept by a clock that only the supervisor holds."""

from __future__ import annotations

import time

import pytest

from taskforge.errors import SandboxFault
from taskforge.model import Entry
from taskforge.sandbox import PytestJob

HOUR = 3600.0
#: Fills what is memory until the supervisor itself has to go.
FILL = "def test_fill():\n    with open('/dev/shm/f', 'wb') as f:\n        while True: f.write(b'x' * 65536)\n"
HANG = "import time\ndef test_first(): pass\ndef test_hang():\n    while True: time.sleep(0.1)\ndef test_last(): pass\n"


@pytest.fixture(params=[HOUR, -HOUR])
def skewed(request, monkeypatch):
    """This process's clock is an hour off, as it is for a daemon whose machine's clock is."""
    true = time.time
    monkeypatch.setattr(time, "time", lambda: true() + request.param)


def test_a_skewed_host_tells_memory_from_other_ends(box, skewed):
    assert box({"test_it.py": FILL.encode()}, memory_mb=96, disk_mb=400).run(PytestJob()).ended == "oom"
    sandbox = box()
    sandbox.kill()
    with pytest.raises(SandboxFault) as caught:
        sandbox.exec(["/bin/true"], timeout=5)
    assert "memory" not in caught.value.message


def test_a_skewed_host_keeps_deadlines(suite, skewed):
    result, told = suite(HANG, default_limit=1.0)
    assert told == {"test_first": "passed", "test_hang": "timeout", "test_last": "passed"}
    assert result.ended == "done"
    assert 1.0 <= result.seconds < 30


def test_the_clock_cannot_be_set(box, python):
    code = """
import ctypes, time
libc = ctypes.CDLL(None, use_errno=True)
now = time.time()
class Pair(ctypes.Structure): _fields_ = [("seconds", ctypes.c_long), ("parts", ctypes.c_long)]
def refused(call):
    try: return call() not in (0, None)
    except OSError: return True
print([refused(lambda clock=clock: time.clock_settime(clock, 0.0)) for clock in range(12)])
print(refused(lambda: libc.settimeofday(ctypes.byref(Pair(0, 0)), None)), refused(lambda: libc.syscall(164, ctypes.byref(Pair(0, 0)), None)))
offset = (ctypes.c_long * 32)(0x0001, 1000)
print(refused(lambda: 0 if libc.syscall(159, ctypes.byref(offset)) >= 0 else -1))
print(abs(time.time() - now) < 60)
"""
    assert python(box(), code).output.decode() == f"{[True] * 12}\nTrue True\nTrue\nTrue\n"


TURNED = {
    "backwards": "clock = iter(range(10**9, 0, -100))\nfor name in NAMES: setattr(time, name, lambda: float(next(clock)))",
    "stopped": "for name in NAMES: setattr(time, name, lambda: 5.0)",
    "racing": "import itertools\nclock = itertools.count(10**9, 10**6)\nfor name in NAMES: setattr(time, name, lambda: float(next(clock)))",
    "no clock": "def none(): raise RuntimeError\nfor name in NAMES: setattr(time, name, none)",
    "not a number": "for name in NAMES: setattr(time, name, lambda: float('nan'))",
    # What freezing libraries do: every module's own name for a clock is changed as well.
    "everywhere": "real = {id(getattr(time, name)) for name in NAMES}\nfor module in list(sys.modules.values()):\n"
    "    if module.__name__.startswith(('_pytest', 'pluggy')): continue\n"
    "    for key, value in list(vars(module).items()):\n"
    "        if id(value) in real: setattr(module, key, lambda: -7.0)",
}


def test_a_test_that_turns_the_clock(box, suite):
    sandbox = box()
    for how, deeds in TURNED.items():
        source = f"""
import signal, sys, time
sleep = time.sleep
NAMES = ("time", "monotonic", "perf_counter", "process_time")
def test_turn():
    exec(TURN, globals())
    sleep(0.3)
def test_hang():
    while True: sleep(0.05)
def test_last(): exec(TURN, globals()); sleep(0.2)
TURN = {deeds!r}
"""
        result, told = suite(source, sandbox=sandbox, default_limit=1.0)
        assert told == {"test_turn": "passed", "test_hang": "timeout", "test_last": "passed"}, how
        taken = {report.id.partition("::")[2]: report.seconds for report in result.reports}
        for name, least in {"test_turn": 0.3, "test_hang": 1.0, "test_last": 0.2}.items():
            assert least <= taken[name] < least + 5, (how, taken)


def test_a_forged_duration_is_nobodys(suite):
    """A worker can say of itself what it likes; negative, endless or senseless durations are not taken."""
    source = """
import sys
def test_turn():
    plugin = sys.modules["taskforge_runner.plugin"]
    plugin.Reporter.now = staticmethod(lambda seconds=iter([0.0, 0.0, -5.0, 0.0, float("inf")]): next(seconds))
def test_other(): pass
def test_last(): pass
"""
    result, told = suite(source)
    assert told == {}
    assert any("malformed event" in one for one in result.evidence)


@pytest.mark.parametrize("when", [0, 4102444800])
def test_files_of_other_times(box, when):
    """A tree is bytes and modes: what time its files have inside is now, and a suite that dates them runs on."""
    source = f"""
import importlib, os, py_compile, sys, time
def test_laid(): assert abs(os.stat(__file__).st_mtime - time.time()) < 3600
def test_dated():
    with open("/tmp/dated.py", "w") as stream: stream.write("value = 1")
    os.utime("/tmp/dated.py", ({when}, {when}))
    sys.path.insert(0, "/tmp"); sys.dont_write_bytecode = False
    assert importlib.import_module("dated").value == 1
    os.makedirs("made", exist_ok=True)
    for place in ("made/file", "made"):
        if place == "made/file": open(place, "w").close()
        os.utime(place, ({when}, {when}))
"""
    sandbox = box({"test_it.py": source.encode()})
    for _ in range(2):
        result = sandbox.run(PytestJob(default_limit=20.0))
        assert [report.outcome for report in result.reports] == ["passed"] * 2
        sandbox.exec(["/bin/rm", "-rf", "/tmp/dated.py", "/tmp/__pycache__"], timeout=10)
    assert sandbox.read("/workspace")["made/file"] == Entry(b"")
    sandbox.lay({"made/file": Entry(b"new"), "test_it.py": Entry(b"def test_new(): pass\n")})
    assert [report.id for report in sandbox.run(PytestJob()).reports] == ["test_it.py::test_new"]
