from __future__ import annotations

import dataclasses
import threading
import time

import pytest

from taskforge.errors import SandboxFault
from taskforge.model import Entry
from taskforge.sandbox import Limits, PytestJob
from taskforge.sandbox.pool import Pool


def variant(spec, number):
    return dataclasses.replace(spec, tree=spec.tree.with_changes({"variant": Entry(b"%d" % number)}))


def test_what_is_expected_waits_warm_and_is_given_once(pool, calc_spec):
    pool.expect(calc_spec)
    with pool.take(calc_spec) as first:
        assert (pool.hits, pool.misses) == (1, 0)
        with pool.take(calc_spec) as second:
            assert first is not second
            assert (pool.hits, pool.misses) == (1, 1)
        assert len(first.run(PytestJob()).reports) == 15
    assert not first.alive


def test_one_that_died_waiting_is_replaced(pool, calc_spec):
    pool.expect(calc_spec)
    queue = next(iter(pool._waiting.values()))
    queue[0].result().kill()
    with pool.take(calc_spec) as sandbox:
        assert sandbox.alive
    assert (pool.hits, pool.misses) == (0, 1)


def test_no_more_than_its_size_wait_and_the_oldest_go(bubblewrap, calc_spec):
    with Pool(bubblewrap, size=2) as pool:
        for number in range(3):
            pool.expect(variant(calc_spec, number), 5)
        waiting = {key: len(queue) for key, queue in pool._waiting.items() if queue}
        assert sum(waiting.values()) == 2
        assert variant(calc_spec, 2).key in waiting
        with pool.take(variant(calc_spec, 0)):
            assert pool.misses == 1


def test_other_limits_are_another_sandbox(pool, calc_spec):
    pool.expect(calc_spec)
    with pool.take(dataclasses.replace(calc_spec, limits=Limits(memory_mb=512))):
        assert pool.misses == 1


def test_a_pool_without_room_starts_on_demand(bubblewrap, calc_spec):
    with Pool(bubblewrap, size=0) as pool:
        pool.expect(calc_spec)
        with pool.take(calc_spec) as sandbox:
            assert sandbox.alive


def test_a_closed_pool_gives_nothing_and_leaves_nothing(bubblewrap, calc_spec):
    pool = Pool(bubblewrap, size=1)
    pool.expect(calc_spec)
    waiting = next(iter(pool._waiting.values()))[0]
    pool.close()
    pool.close()
    assert waiting.cancelled() or not waiting.result().alive
    with pytest.raises(SandboxFault) as caught:
        pool.take(calc_spec)
    assert caught.value.kind == "pool_closed"
    pool.expect(calc_spec)
    assert not pool._waiting


def test_abort_ends_what_is_at_work(bubblewrap, calc_spec):
    slow = dataclasses.replace(
        calc_spec, tree=calc_spec.tree.with_changes({"tests/test_core.py": Entry(b"import time\ntime.sleep(600)\n")})
    )
    pool = Pool(bubblewrap, size=1)
    sandbox = pool.take(slow)
    results = []
    thread = threading.Thread(target=lambda: results.append(sandbox.run(PytestJob())))
    thread.start()
    time.sleep(0.3)
    pool.abort()
    thread.join(10)
    sandbox.close()
    assert [result.ended for result in results] == ["lost"]
