"""A worker that writes on the event pipe itself: what it may not say is not heard, and nothing breaks."""



from __future__ import annotations

import pytest

HEAD = """
import json, os, struct, time
FD = 5
def send(raw, blob=b""): os.write(FD, struct.pack(">IQ", len(raw), len(blob)) + raw + blob)
def say(**event): send(json.dumps(event).encode())
def test_first(): pass
def test_forge():
"""
TAIL = "\ndef test_last(): pass\ndef test_bad(): assert 0\n"
HONEST = {"test_first": "passed", "test_forge": "passed", "test_last": "passed", "test_bad": "failed"}

GARBLED = [
    "os.write(FD, os.urandom(4096))",
    "os.write(FD, b'\\xff' * 12)",
    "os.write(FD, struct.pack('>IQ', 2, 1 << 60) + b'{}')",
    "send(b'not json')",
    "send(b'[]')",
    "send(b'null')",
    "send(b'[' * 60000)",
    "send(b'9' * 60000)",
    "send(b'\\xff')",
    "send(b'{}')",
    "say(event='report', generation=1, id='test_it.py::test_bad', outcome='invented', seconds=0, reason='', cause='', enters=[])",
    "say(event='report', generation=1, id=7, outcome='passed', seconds=0, reason='', cause='', enters=[])",
    "say(event='report', generation=1, id='x', outcome='passed', seconds=float('nan'), reason='', cause='', enters=[])",
    "say(event='report', generation=1, id='x', outcome='passed', seconds=0, reason='', cause='', enters=['a'])",
    "say(event='collected', generation=1, items=[1])",
    "say(event='function', generation=1, number=-1, function=['a'])",
    "say(event='finish', generation=1, status='0')",
    "say(event=['ended'], generation=1)",
]
FORBIDDEN = [
    "say(event='ended', generation=1, ended='done', exit_code=0, seconds=0, cpu=0, evidence=[], disk_full=False)",
    "say(event='broken', generation=1, reason='x')",
    "say(event='laid', generation=1)",
    "say(event='tree', generation=1, entries=[])",
    "say(event='ready', generation=1)",
    "say(event='warm', generation=1, strangers=[])",
]


@pytest.mark.parametrize("deeds", [GARBLED[:3], GARBLED[3:], FORBIDDEN], ids=["streams", "frames", "forbidden"])
def test_what_makes_no_sense_is_evidence_and_changes_nothing(box, suite, deeds):
    sandbox = box()
    for deed in deeds:
        result, told = suite(f"{HEAD}    {deed}\n{TAIL}", sandbox=sandbox, collect_limit=2.0)
        if deed in GARBLED[:3]:
            # A garbled stream may lose what follows in it; nothing may be won by it.
            assert result.ended in {"done", "timeout"}
            assert told.pop("test_first") == "passed"
            for name, outcome in told.items():
                assert outcome in {HONEST[name], "timeout", "ended_early"}
        else:
            # A frame without sense costs itself alone.
            assert (deed, result.ended, told) == (deed, "done", HONEST)
        assert any("malformed" in one for one in result.evidence), deed


def test_another_generations_words_are_not_heard(suite):
    report = "say(event='report', generation={}, id='test_it.py::test_bad', outcome='passed', seconds=0, reason='', cause='', enters=[])"
    body = "\n    ".join(report.format(number) for number in (0, 2, 3, -1))
    result, told = suite(f"{HEAD}    {body}\n    os._exit(1)\n{TAIL}")
    assert told == {**HONEST, "test_forge": "ended_early"}
    assert len(result.reports) == 4


def test_a_report_of_a_test_that_did_not_run_is_seen(suite):
    report = "say(event='report', generation=1, id='test_it.py::test_bad', outcome='passed', seconds=0, reason='', cause='', enters=[])"
    result, _told = suite(f"{HEAD}    {report}\n{TAIL}")
    assert "a test was reported that was not running" in result.evidence
    assert [one.outcome for one in result.reports if one.id == "test_it.py::test_bad"] == ["passed", "failed"]


def test_starting_again_buys_no_time(suite):
    body = "while True:\n        say(event='start', generation=1, id='test_it.py::test_forge')\n        time.sleep(0.05)"
    result, told = suite(f"{HEAD}    {body}\n{TAIL}", default_limit=0.5)
    assert told == {**HONEST, "test_forge": "timeout"}
    assert result.seconds < 6


def test_reports_without_end_are_cut_off(suite):
    body = (
        "raw = json.dumps(dict(event='report', generation=1, id='x', outcome='passed', seconds=0, reason='y' * 900000,"
        " cause='', enters=[])).encode()\n"
        "    data = struct.pack('>IQ', len(raw), 0) + raw\n"
        "    while True:\n"
        "        view = memoryview(data)\n"
        "        while view: view = view[os.write(FD, view):]"
    )
    result, told = suite(f"{HEAD}    {body}\n{TAIL}", default_limit=60.0)
    assert result.ended == "crashed"
    assert "the tests' process reported without end" in result.evidence
    assert told["test_first"] == "passed"


def test_a_closed_event_pipe_is_a_timeout_and_no_pass(suite):
    result, told = suite(f"{HEAD}    os.close(FD)\n{TAIL}", default_limit=0.5)
    assert told["test_forge"] in {"timeout", "ended_early"}
    assert {name: told[name] for name in ("test_first", "test_last", "test_bad")} == {
        "test_first": "passed", "test_last": "passed", "test_bad": "failed"
    }  # fmt: skip
    assert result.ended == "done"


def test_a_thief_of_the_pipe_harms_itself_alone(suite):
    body = (
        "try: r = os.open('/proc/self/fd/%d' % FD, os.O_RDONLY | os.O_NONBLOCK)\n"
        "    except PermissionError: return\n"
        "    import threading\n"
        "    def steal():\n"
        "        while True:\n"
        "            try: os.read(r, 1 << 16)\n"
        "            except OSError: pass\n"
        "    threading.Thread(target=steal, daemon=True).start()"
    )
    result, told = suite(f"{HEAD}    {body}\n{TAIL}", default_limit=1.0, collect_limit=1.5, wall_seconds=8.0)
    assert result.ended in {"done", "timeout", "crashed"}
    for name, outcome in told.items():
        assert outcome in {HONEST[name], "timeout", "ended_early"}


def test_the_status_that_was_told_must_be_the_one_that_the_process_ended_with(suite):
    source = "import os\nreal = os._exit\nos._exit = lambda code: real(5)\ndef test_it(): pass\n"
    result, outcomes = suite(source)
    assert outcomes == {"test_it": "passed"}
    assert result.exit_code is None
    assert result.evidence == ("pytest told status 0, and its process ended with another",)
    assert suite("def test_it(): pass\n")[0].exit_code == 0


def test_a_second_warm_interpreter_imports_nothing_of_the_workspace(engine, calc, calc_environment):
    from taskforge.model import Entry
    from taskforge.sandbox import PytestJob, SandboxSpec

    # The environment's .pth puts src on the path, before the interpreter looks for these two.
    mark = Entry(b"open('/tmp/imported-at-start', 'w').close()\n")
    killer = Entry(b"import os, signal\ndef test_kill(): os.kill(os.getppid(), signal.SIGKILL)\n")
    looker = Entry(b"import os\ndef test_look(): assert not os.path.exists('/tmp/imported-at-start')\n")
    hostile = {"src/sitecustomize.py": mark, "src/usercustomize.py": mark, "test_kill.py": killer, "test_look.py": looker}
    tree = calc.tree.with_changes(hostile)
    with engine.start(SandboxSpec(environment=calc_environment, tree=tree)) as sandbox:
        sandbox.run(PytestJob(files=("test_kill.py",), default_limit=5.0, max_restarts=1))
        result = sandbox.run(PytestJob(files=("test_look.py",)))
    assert [(report.id, report.outcome) for report in result.reports] == [("test_look.py::test_look", "passed")]
