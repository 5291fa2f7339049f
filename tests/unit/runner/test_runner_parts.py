"""The parts of what runs inside, each on its own. Inside they are ``taskforge_runner``; here they are plain modules."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskforge.runner import events, files, frames, output, plugin
from taskforge.sandbox import payload

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def raw(header, blob=b""):
    reader, writer = os.pipe()
    try:
        thread = threading.Thread(target=frames.write, args=(writer, header, blob))
        thread.start()
        data = b""
        size = len(json.dumps(header)) + len(blob) + 12
        while len(data) < size:
            data += os.read(reader, 1 << 16)
        thread.join()
    finally:
        os.close(reader)
        os.close(writer)
    return data


@given(st.dictionaries(st.text(), JSON, max_size=4), st.binary(max_size=200))
def test_a_frame_comes_out_as_it_went_in(header, blob):
    reader, writer = os.pipe()
    try:
        frames.write(writer, header, blob)
        assert frames.read(reader) == (header, blob)
    finally:
        os.close(reader)
        os.close(writer)


@given(st.lists(st.tuples(st.dictionaries(st.text(max_size=5), JSON, max_size=2), st.binary(max_size=9)), max_size=4),
       st.integers(min_value=1, max_value=17))  # fmt: skip
def test_a_stream_cut_anywhere_gives_the_same_frames(sent, step):
    stream = b"".join(raw(header, blob) for header, blob in sent)
    buffer = frames.Buffer()
    found = []
    for start in range(0, len(stream), step):
        found += [(frames.header(one), blob) for one, blob in buffer.feed(stream[start : start + step])]
    assert found == sent
    assert buffer.data == b""


@given(st.binary(max_size=300))
def test_garbage_is_a_value_error_or_waits(data):
    buffer = frames.Buffer(1 << 16)
    try:
        for header, _blob in buffer.feed(data):
            frames.header(header)
    except ValueError:
        pass
    assert len(buffer.data) <= len(data)


def test_frames_before_an_oversized_one_are_not_lost():
    buffer = frames.Buffer(100)
    fed = buffer.feed(raw({"a": 1}) + raw({"a": "x" * 200}))
    assert frames.header(next(fed)[0]) == {"a": 1}
    with pytest.raises(ValueError, match="oversized"):
        next(fed)


def test_a_stream_that_ends_within_a_frame_is_closed():
    reader, writer = os.pipe()
    os.write(writer, raw({"a": 1}, b"12345")[:-1])
    os.close(writer)
    with pytest.raises(frames.Closed):
        frames.read(reader)
    os.close(reader)


def test_surrogates_survive_a_frame():
    name = os.fsdecode(b"\xff\xe9")
    reader, writer = os.pipe()
    frames.write(writer, {"id": name})
    assert frames.read(reader)[0]["id"] == name
    os.close(reader)
    os.close(writer)


WHOLE = [("setup", "passed"), ("call", "passed"), ("teardown", "passed")]


@pytest.mark.parametrize(
    ("phases", "outcome"),
    [
        (WHOLE, "passed"),
        ([], "error"),
        (WHOLE[:1], "error"),
        (WHOLE[:2], "error"),
        (WHOLE[1:], "error"),
        ([WHOLE[0], WHOLE[2]], "error"),
        ([*WHOLE, ("call", "passed")], "duplicated"),
        ([*WHOLE, *WHOLE], "duplicated"),
        ([("setup", "passed"), ("call", "failed"), ("teardown", "passed")], "failed"),
        ([("setup", "failed"), ("teardown", "passed")], "error"),
        ([*WHOLE[:2], ("teardown", "failed")], "error"),
        ([("setup", "passed"), ("call", "failed"), ("teardown", "failed")], "error"),
        ([("setup", "skipped"), ("teardown", "passed")], "skipped"),
        ([("setup", "passed"), ("call", "skipped"), ("teardown", "passed")], "skipped"),
        ([("setup", "passed"), ("call", "xfailed"), ("teardown", "passed")], "xfailed"),
        ([("setup", "passed"), ("call", "xpassed"), ("teardown", "passed")], "xpassed"),
        ([WHOLE[0], ("subtest", "passed"), *WHOLE[1:]], "passed"),
        ([WHOLE[0], ("subtest", "passed"), ("subtest", "failed"), *WHOLE[1:]], "failed"),
        ([WHOLE[0], ("subtest", "skipped"), *WHOLE[1:]], "passed"),
    ],
)
def test_one_outcome_of_all_phases(phases, outcome):
    assert plugin.judge(phases) == outcome


@given(st.lists(st.binary(max_size=40), max_size=40), st.integers(min_value=0, max_value=60))
def test_output_keeps_head_and_tail_within_its_cap(blocks, cap):
    kept = output.Output(cap)
    for block in blocks:
        kept.add(block)
        assert len(kept.head) + len(kept.tail) <= 2 * cap + 40
    whole = b"".join(blocks)
    half = cap // 2
    if len(whole) <= 2 * half:
        assert kept.bytes() == whole
    else:
        dropped = b"\n[%d bytes dropped]\n" % (len(whole) - 2 * half)
        assert kept.bytes() == whole[:half] + dropped + whole[len(whole) - half :]


def report(**changes):
    honest = {"event": "report", "generation": 1, "id": "t", "outcome": "passed", "seconds": 1, "reason": "",
              "cause": "", "enters": [1]}  # fmt: skip
    return {**honest, **changes}


def test_an_event_is_rebuilt_of_known_fields_only():
    assert events.cleaned(report(extra="x")) == report(seconds=1.0)
    defined = {"event": "defined", "generation": 1, "items": [["a", [["p.py", 1, "f"]]]]}
    assert events.cleaned({**defined, "extra": "x"}) == defined


@pytest.mark.parametrize(
    "event",
    [
        {}, [], None, "x", {"event": "ended", "generation": 1}, {"event": "broken", "generation": 1, "reason": ""},
        report(generation=True), report(generation="1"), report(outcome="timeout"), report(outcome=["passed"]),
        report(seconds=float("nan")), report(seconds=float("inf")), report(seconds=-1), report(seconds="1"),
        report(id=1), report(id="x" * (1 << 21)), report(enters=[1.5]), report(enters=None), report(enters=[1 << 40]),
        {"event": "collected", "generation": 1, "items": [["a"]]}, {"event": "start", "generation": 1},
        {"event": "function", "generation": 1, "number": 0, "function": ["a", "b"]},
        {"event": "defined", "generation": 1, "items": [["a", [["p.py", "1", "f"]]]]},
        {"event": "defined", "generation": 1, "items": [["a", [["p.py", 1]]]]},
    ],
)  # fmt: skip
def test_what_no_worker_says_is_refused(event):
    with pytest.raises((ValueError, KeyError, TypeError, AttributeError)):
        events.cleaned(event)


def test_lay_and_collect_are_each_others_inverse(tmp_path):
    odd = os.fsdecode(b"d/\xff\n")
    entries = [["a", "file", 2], ["x", "exec", 1], [odd, "file", 0], ["d/link", "link", 4], ["e/f/g", "file", 3]]
    files.lay(str(tmp_path), entries, b"\x00\xffX../aggg")
    found, held = files.collect(str(tmp_path), 100)
    assert sorted(found) == sorted(entries)
    assert [len(data) for data in held] == [size for _name, _kind, size in found]
    assert {name: data for (name, _kind, _size), data in zip(found, held, strict=True)} == {"a": b"\x00\xff", "x": b"X", odd: b"", "d/link": b"../a", "e/f/g": b"ggg"}


def test_lay_follows_no_link(tmp_path):
    (outside := tmp_path / "outside").mkdir()
    (root := tmp_path / "root").mkdir()
    (root / "out").symlink_to(outside)
    (root / "file").symlink_to(outside / "target")
    files.lay(str(root), [["out/f", "file", 1], ["file", "file", 1], ["out/gone", "absent", 0]], b"12")
    assert list(outside.iterdir()) == []
    assert (root / "out" / "f").read_bytes() == b"1"
    assert (root / "file").read_bytes() == b"2"


def test_collect_has_a_limit_and_says_what_it_cannot_read(tmp_path):
    (tmp_path / "big").write_bytes(b"x" * 11)
    with pytest.raises(ValueError, match="more than 10 bytes"):
        files.collect(str(tmp_path), 10)
    with pytest.raises(FileNotFoundError):
        files.collect(str(tmp_path / "absent"), 10)
    os.mkfifo(tmp_path / "pipe")
    assert [entry[0] for entry in files.collect(str(tmp_path), 11)[0]] == ["big"]


def test_the_bootstrap_makes_the_sources_importable_and_nothing_else():
    names = {"bootstrap", "definitions", "events", "files", "frames", "identity", "output", "plugin", "processes", "recorder", "session",
             "supervisor", "warm", "zygote"}  # fmt: skip
    blob = payload.sources()
    found = json.loads(blob)
    assert set(found) == names
    found["zygote"] = (
        "import sys\nfrom . import frames, plugin\n"
        "def main():\n"
        "    try:\n        from . import absent\n"
        "    except ImportError:\n        print(frames.__name__, plugin.judge([]), 'taskforge' in sys.modules)\n"
    )
    code = (
        "import json, sys\ns = json.loads(sys.stdin.read())\n"
        "exec(compile(s['bootstrap'], 'b', 'exec'), {'SOURCES': s, 'MAIN': 'zygote', 'BLOB': b''})"
    )
    argv = [sys.executable, "-I", "-S", "-c", code]
    done = subprocess.run(argv, input=json.dumps(found).encode(), capture_output=True, timeout=30, check=True)
    assert done.stdout == b"taskforge_runner.frames error False\n"


def test_a_bootstrap_whose_host_goes_away_ends():
    blob = payload.sources()
    for given_bytes in (b"", b"\0\0\0", len(blob).to_bytes(8, "big") + blob[:100]):
        argv = [sys.executable, "-I", "-S", "-c", payload.BOOTSTRAP]
        done = subprocess.run(argv, input=given_bytes, capture_output=True, timeout=30, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
