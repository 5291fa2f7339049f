"""Runs of pytest that go wrong: the rest is reported, and nothing that a test says can bring the supervisor down."""



from __future__ import annotations

import resource
import time

import pytest

from taskforge.sandbox import PytestJob


def test_waiting_for_input_ends_at_once(suite):
    source = "import sys\ndef test_ask(): input()\ndef test_read(): assert sys.__stdin__.read() == ''\ndef test_last(): pass\n"
    result, told = suite(source)
    assert told == {"test_ask": "failed", "test_read": "passed", "test_last": "passed"}
    assert result.ended == "done"
    assert result.seconds < 5


def test_a_hanging_test_times_out_and_its_siblings_report(suite):
    source = """
import signal, time
def test_first(): pass
def test_hang():
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))
    time.sleep(600)
def test_spin():
    while True: pass
def test_last(): pass
"""
    result, told = suite(source, limits={"test_it.py::test_hang": 0.5, "test_it.py::test_spin": 0.5})
    assert told == {"test_first": "passed", "test_hang": "timeout", "test_spin": "timeout", "test_last": "passed"}
    assert (result.ended, result.exit_code) == ("done", 0)
    assert len(result.collected) == 4


@pytest.mark.parametrize(
    ("deed", "how"),
    [
        ("os._exit(0)", "ended with status 0"),
        ("os._exit(77)", "ended with status 77"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "was killed by SIGKILL"),
        ("os.kill(os.getpid(), 40)", "was killed by signal 40"),
        ("import ctypes; ctypes.string_at(0)", "was killed by SIGSEGV"),
        ("sys.stdout.close(); os.close(1); os.close(2); os._exit(3)", "ended with status 3"),
    ],
)
def test_ending_the_process_is_no_pass(suite, deed, how):
    source = f"import os, signal, sys\ndef test_first(): pass\ndef test_it():\n    {deed}\ndef test_last(): pass\n"
    result, told = suite(source)
    assert told == {"test_first": "passed", "test_it": "ended_early", "test_last": "passed"}
    assert how in result.reports[1].reason
    assert result.ended == "done"


def test_a_run_may_end_at_its_first_failure(suite):
    source = "def test_good(): pass\ndef test_bad(): assert 0\ndef test_worse(): assert 0\ndef test_last(): pass\n"
    result, told = suite(source, max_failures=1)
    assert (result.ended, told) == ("done", {"test_good": "passed", "test_bad": "failed"})
    assert len(result.collected) == 4
    assert result.places == {}


def test_every_failure_has_its_cause(suite):
    source = """
import unittest, pytest
@pytest.fixture
def broken(): raise KeyError("setup")
def test_call(): raise LookupError("x")
def test_setup(broken): pass
class It(unittest.TestCase):
    def test_unit(self): raise OSError("x")
    def test_assert(self): self.assertEqual(1, 2)
    def test_sub(self):
        with self.subTest(n=1): raise NameError("x")
def test_good(): pass
"""
    result, _told = suite(source)
    assert {one.id.rpartition("::")[2]: one.cause for one in result.reports} == {
        "test_call": "LookupError", "test_setup": "KeyError", "test_unit": "OSError", "test_assert": "AssertionError",
        "test_sub": "NameError", "test_good": "",
    }  # fmt: skip


def test_ending_at_import_is_a_crash(suite):
    result, told = suite("import os\nos._exit(0)\ndef test_it(): pass\n")
    assert (result.ended, told) == ("crashed", {})
    assert result.evidence == ("the tests' process ended with status 0 outside any test",)


@pytest.mark.parametrize("number", ["SIGKILL", "SIGSTOP"])
def test_attacking_the_warm_interpreter(suite, number):
    source = f"""
import os, signal, time
def test_first(): pass
def test_attack():
    os.kill(os.getppid(), signal.{number})
    time.sleep(1)
def test_last(): pass
"""
    result, told = suite(source, collect_limit=2.0)
    assert told["test_first"] == "passed"
    if "PermissionError" in result.reports[1].reason:
        # Where it is another user, nothing happens.
        assert (result.ended, told["test_last"]) == ("done", "passed")
    elif number == "SIGKILL":
        assert result.ended == "crashed"
        assert told["test_attack"] == "ended_early"
        assert "the warm interpreter was killed from inside" in result.evidence
    else:
        # Nobody waits for the process then: the end of the session is overdue.
        assert result.ended == "timeout"


def test_another_run_follows_a_crash(box, suite):
    sandbox = box()
    source = "import os, signal\ntry: os.kill(os.getppid(), signal.SIGKILL)\nexcept PermissionError: os._exit(1)\n"
    result, _told = suite(source, sandbox=sandbox)
    assert result.ended == "crashed"
    result, told = suite("def test_fine(): pass\n", sandbox=sandbox)
    assert (result.ended, told) == ("done", {"test_fine": "passed"})


def test_what_tests_leave_running_ends_with_them(box, suite):
    sandbox = box()
    source = "import subprocess\ndef test_leave(): subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
    result, told = suite(source, sandbox=sandbox)
    assert told == {"test_leave": "passed"}
    assert result.evidence == ("1 processes were left running by the tests",)
    assert b"sleep" not in sandbox.exec(["/bin/sh", "-c", "cat /proc/[0-9]*/comm"], timeout=10).output


def test_sixty_timeouts_leave_no_zombie(box, suite):
    sandbox = box()
    source = """
import subprocess, time, pytest
@pytest.mark.parametrize("n", range(60))
def test_hang(n):
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    subprocess.Popen(["sh", "-c", "sleep 0.01 & exit 0"])
    time.sleep(600)
"""
    result, told = suite(source, sandbox=sandbox, default_limit=0.05, max_restarts=100)
    assert result.ended == "done"
    assert set(told.values()) == {"timeout"}
    assert len(result.reports) == 60
    states = sandbox.exec(["/bin/sh", "-c", "cat /proc/[0-9]*/stat"], timeout=10).output
    assert b") Z " not in states
    assert len(states.splitlines()) == 3  # PID 1, the warm interpreter, and what asks.


def test_restarts_and_timeouts_are_bounded(suite):
    hangs = "import time, pytest\n@pytest.mark.parametrize('n', range(9))\ndef test_hang(n): time.sleep(600)\n"
    result, told = suite(hangs, default_limit=0.1, max_timeouts=2)
    assert (result.ended, set(told.values()), len(told)) == ("timeout", {"timeout"}, 2)
    result, told = suite(hangs, default_limit=0.1, max_restarts=2)
    assert (result.ended, len(told)) == ("timeout", 3)
    dies = hangs.replace("time.sleep(600)", "__import__('os')._exit(0)")
    result, told = suite(dies, max_restarts=2)
    assert (result.ended, set(told.values()), len(told)) == ("crashed", {"ended_early"}, 3)


def test_a_flood_of_output_keeps_head_and_tail(suite):
    source = """
import os
def test_flood(capfd):
    with capfd.disabled(): flood()
def flood():
    os.write(1, b"HEAD")
    for _ in range(200): os.write(1, "é".encode() * (1 << 19))
    os.write(1, b"TAIL")
"""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result, told = suite(source, default_limit=60.0)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 << 10
    assert told == {"test_flood": "passed"}
    assert len(result.output.encode()) < 300 << 10
    assert "bytes dropped" in result.output
    assert "HEAD" in result.output
    assert "TAIL" in result.output
    assert "1 passed in" in result.output[-200:]


def test_a_forked_child_that_runs_on_says_nothing(suite):
    source = "import os\ndef test_fork(): os.fork()\ndef test_last(): pass\n"
    result, _told = suite(source)
    assert [report.outcome for report in result.reports] == ["passed", "passed"]
    assert result.ended == "done"


def test_ids_come_verbatim(box, suite):
    sandbox = box()
    names = ["no key 'a'", "trail ", "x[0]", "a::b", "caf\u00e9", "l1\nl2", "", "\udc80", "n\0l"]
    source = f"import pytest\n@pytest.mark.parametrize('s', {names!r}, ids={names!r})\ndef test_p(s): pass\n"
    result, told = suite(source, sandbox=sandbox)
    assert len(told) == len(names)
    assert tuple(report.id for report in result.reports) == result.collected
    for name in result.collected:
        again, _told = suite(source, sandbox=sandbox, ids=frozenset([name]))
        assert [(report.id, report.outcome) for report in again.reports] == [(name, "passed")]


def test_thousands_of_tests_and_a_slow_host(box):
    source = b"import pytest\n@pytest.mark.parametrize('n', range(2000))\ndef test_n(n): assert n != 77\n"
    slow = []

    def listen(report):
        # A host that is slow to read holds up the supervisor, and loses nothing.
        if not slow:
            time.sleep(1.0)
        slow.append(report.id)

    result = box({"test_it.py": source}).run(PytestJob(default_limit=30.0), listen)
    assert result.ended == "done"
    assert len(slow) == len(result.reports) == 2000
    assert [report.id for report in result.reports if report.outcome != "passed"] == ["test_it.py::test_n[77]"]
