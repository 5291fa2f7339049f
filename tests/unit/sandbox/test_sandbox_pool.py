from __future__ import annotations

import dataclasses
import gc
import threading
import time

import pytest

from taskforge.errors import SandboxFault
from taskforge.model import Entry
from taskforge.sandbox import Limits, PytestJob
from taskforge.sandbox.pool import Pool

MIB = 1 << 20


def variant(spec, number):
    """Kin: another free file."""
    return dataclasses.replace(spec, tree=spec.tree.with_changes({"variant": Entry(b"%d" % number)}))


def stranger(spec, number):
    """No kin: another limit."""
    return dataclasses.replace(spec, limits=Limits(memory_mb=500 + number))


def settled(pool, waiting):
    """Wait until nothing is being started; then that many wait."""
    deadline = time.monotonic() + 60
    while pool.stats.starting and time.monotonic() < deadline:
        time.sleep(0.01)
    assert pool.stats.waiting == waiting


def ready(pool):
    return [one.future.result() for one in pool._all()]


def counts(pool):
    stats = pool.stats
    return stats.hits, stats.kin_hits, stats.misses


def test_what_is_expected_waits_warm_and_is_given_once(pool, calc_spec):
    pool.expect(calc_spec)
    with pool.take(calc_spec) as first:
        assert counts(pool) == (1, 0, 0)
        with pool.take(calc_spec) as second:
            assert first is not second
        assert len(first.run(PytestJob()).reports) == 15
    assert not first.alive


def test_one_taken_has_the_next_started(pool, calc_spec):
    with pool.take(calc_spec) as first:
        assert counts(pool) == (0, 0, 1)
        settled(pool, 1)
        assert ready(pool)[0] is not first
    with pool.take(calc_spec):
        assert counts(pool) == (1, 0, 1)
    with pool.take(variant(calc_spec, 1)) as kin:
        assert kin.spec is not calc_spec
    assert pool.stats.kin_hits == 1
    assert pool.stats.hit_rate == 2 / 3


def test_as_many_wait_as_were_out_at_once(bubblewrap, calc_spec):
    with Pool(bubblewrap, size=3) as pool:
        for wanted, together in ((1, 1), (2, 2), (3, 3), (3, 5)):
            boxes = [pool.take(calc_spec) for _ in range(together)]
            for box in boxes:
                box.close()
            settled(pool, wanted)
        assert pool.stats.out == 0


def test_one_that_died_waiting_costs_a_miss(pool, calc_spec):
    pool.expect(calc_spec)
    settled(pool, 1)
    ready(pool)[0].kill()
    with pool.take(calc_spec) as sandbox:
        assert len(sandbox.run(PytestJob()).reports) == 15
    assert counts(pool) == (0, 0, 1)
    assert pool.stats.wasted == 1


def test_no_more_than_its_size_wait_and_the_least_recently_wanted_go(bubblewrap, calc_spec):
    with Pool(bubblewrap, size=2) as pool:
        for number in range(3):
            pool.expect(stranger(calc_spec, number), 1)
            settled(pool, min(number + 1, 2))
        assert [box.spec.limits.memory_mb for box in ready(pool)] == [501, 502]
        assert (pool.stats.evictions, pool.stats.wasted) == (1, 1)
        # Wanting it again keeps it.
        pool.expect(stranger(calc_spec, 1), 1)
        pool.expect(stranger(calc_spec, 3), 1)
        settled(pool, 2)
        assert [box.spec.limits.memory_mb for box in ready(pool)] == [501, 503]


def test_fewer_wait_where_memory_is_short_and_all_are_served(bubblewrap, calc_spec):
    left = [1 << 40]
    with Pool(bubblewrap, size=3, available=lambda: left[0]) as pool:
        pool.expect(calc_spec, 3)
        settled(pool, 3)
        each = max(one.memory for one in pool._all())
        assert 10 * MIB < each < 200 * MIB
        # A quarter of what is left, the waiting ones included, is for two.
        left[0] = 4 * int(2.5 * each) - sum(one.memory for one in pool._all())
        pool.expect(calc_spec, 3)
        settled(pool, 2)
        left[0] = 0
        with pool.take(calc_spec) as sandbox:
            assert sandbox.alive
        settled(pool, 0)
        with pool.take(calc_spec) as sandbox:
            assert len(sandbox.run(PytestJob()).reports) == 15
        settled(pool, 0)
        assert counts(pool) == (1, 0, 1)


def test_what_nobody_wants_any_more_is_ended(bubblewrap, calc_spec):
    with Pool(bubblewrap, size=1, idle=3.0) as pool:
        pool.expect(calc_spec)
        settled(pool, 1)
        box = ready(pool)[0]
        deadline = time.monotonic() + 30
        while box.alive and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not box.alive
        assert (pool.stats.waiting, pool.stats.evictions) == (0, 1)
        assert pool._timer is None


def test_other_limits_are_another_sandbox(pool, calc_spec):
    pool.expect(calc_spec)
    with pool.take(dataclasses.replace(calc_spec, limits=Limits(memory_mb=512))):
        assert pool.stats.misses == 1


def test_a_pool_without_room_starts_on_demand_and_nothing_else(bubblewrap, calc_spec):
    with Pool(bubblewrap, size=0) as pool:
        pool.expect(calc_spec)
        with pool.take(calc_spec) as sandbox:
            assert sandbox.alive
        assert (pool.stats.waiting, pool.stats.starting, pool.stats.misses) == (0, 0, 1)
        assert not pool._starters._threads


def test_a_closed_pool_gives_nothing_and_leaves_nothing(bubblewrap, calc_spec):
    pool = Pool(bubblewrap, size=2)
    pool.expect(calc_spec)
    settled(pool, 1)
    boxes = ready(pool)
    pool.expect(calc_spec, 2)
    starting = [one.future for one in pool._all()]
    pool.close()
    pool.close()
    assert [box.alive for box in boxes] == [False]
    assert all(future.cancelled() or not future.result().alive for future in starting)
    with pytest.raises(SandboxFault) as caught:
        pool.take(calc_spec)
    assert caught.value.kind == "pool_closed"
    pool.expect(calc_spec)
    assert (pool.stats.waiting, pool.stats.starting, pool.stats.out) == (0, 0, 0)


def test_a_forgotten_pool_ends_what_waits(bubblewrap, calc_spec):
    pool = Pool(bubblewrap, size=1)
    pool.expect(calc_spec)
    settled(pool, 1)
    box = ready(pool)[0]
    del pool
    gc.collect()
    assert not box.alive


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
