"""Flaky, order-dependent, unordered, skipped and environment-bound tests: none becomes a required one."""

from __future__ import annotations

from pathlib import Path

from taskforge.generate import environment as environments
from taskforge.generate.acquire import acquire
from taskforge.generate.testmap import build_testmap
from taskforge.model import Source
from taskforge.sandbox import Backend, Limits
from taskforge.sandbox.pool import Pool

FLAKY = '''
import os, random, socket, time
import unittest
import pytest
from datetime import datetime

SEEN = []

def slow():
    return 7

class TestShared:
    @pytest.fixture(scope="class")
    def value(self):
        return slow()

    def test_a(self, value):
        assert value == 7

    def test_b(self, value):
        assert value == 7

def test_first():
    SEEN.append(1)

def test_needs_first():
    assert SEEN == [1]

def test_flaky():
    assert int.from_bytes(os.urandom(4), "big") % 2

def test_network():
    socket.create_connection(("example.com", 80), timeout=2)

def test_time_zone():
    assert datetime(2020, 3, 2).timestamp() == 1583074800.0

@pytest.mark.parametrize("colour", {"red", "green", "blue", "teal", "pink"})
def test_colour(colour):
    assert colour

@pytest.mark.parametrize("text", ["no key 'a'", "no key 'b'", "trail ", "x[0]", "a::b", "caf\\u00e9", "l1\\nl2", ""])
def test_text(text):
    assert text is not None

@pytest.mark.skip(reason="never")
def test_skipped():
    assert True

@pytest.mark.xfail
def test_expected_failure():
    assert False

@pytest.mark.xfail
def test_unexpected_success():
    assert True

def test_ask():
    input()

class SubTests(unittest.TestCase):
    def test_some_fail(self):
        for number in range(3):
            with self.subTest(number=number):
                self.assertNotEqual(number, 1)

    def test_all_pass(self):
        for number in range(3):
            with self.subTest(number=number):
                self.assertLess(number, 3)
'''


def test_what_is_unstable_is_known(tmp_path: Path, cache: Path, bubblewrap: Backend, pool: Pool) -> None:
    (tmp_path / "test_many.py").write_text(FLAKY)
    snapshot = acquire(Source.parse(str(tmp_path)), cache=cache, index_url="", timeout=60)
    _recipe, environment = environments.build(snapshot, backend=bubblewrap, cache=cache, log=print)
    found = build_testmap(
        snapshot.tree, environment, pool=pool, protected=("test_many.py",), limits=Limits(), runs=6, seed=1, min_pass=10
    )
    names = {record.id.split("::", 1)[1] for record in found.tests if record.stable}
    texts = ["no key 'a'", "no key 'b'", "trail ", "x[0]", "a::b", "caf\\xe9", "l1\\nl2", ""]
    assert names == {
        "TestShared::test_a",
        "TestShared::test_b",
        "test_first",
        *(f"test_colour[{colour}]" for colour in ("red", "green", "blue", "teal", "pink")),
        *(f"test_text[{text}]" for text in texts),
        "SubTests::test_all_pass",
    }
    outcomes = {record.id.split("::", 1)[1]: set(record.outcomes) for record in found.tests}
    assert outcomes["test_skipped"] == {"skipped"}
    assert outcomes["test_expected_failure"] == {"xfailed"}
    assert outcomes["test_unexpected_success"] == {"xpassed"}
    assert outcomes["SubTests::test_some_fail"] == {"failed"}
    assert outcomes["test_ask"] == {"failed"}
    assert outcomes["test_needs_first"] == {"passed", "failed"}


def test_each_id_runs_exactly_one_test(tmp_path: Path, cache: Path, bubblewrap: Backend) -> None:
    from taskforge.sandbox import PytestJob, SandboxSpec

    (tmp_path / "test_many.py").write_text(FLAKY)
    snapshot = acquire(Source.parse(str(tmp_path)), cache=cache, index_url="", timeout=60)
    _recipe, environment = environments.build(snapshot, backend=bubblewrap, cache=cache, log=print)
    spec = SandboxSpec(environment=environment, tree=snapshot.tree)
    with bubblewrap.start(spec) as sandbox:
        ids = sandbox.run(PytestJob(collect_only=True)).collected
    assert len(ids) == len(set(ids)) == 26
    for name in ids:
        with bubblewrap.start(spec) as sandbox:
            result = sandbox.run(PytestJob(files=("test_many.py",), ids=frozenset([name])))
        assert [report.id for report in result.reports] == [name]
