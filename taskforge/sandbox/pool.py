"""Started, warmed sandboxes that wait for work.

One submission a sandbox: what is taken is never given back. When one has been handed out, the pool starts the next in
its own threads, so that as many wait as were lately out at once. What waits serves every spec that is kin to its own:
all tasks of one snapshot, as a rule.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Self

from taskforge.errors import SandboxFault, TaskforgeError
from taskforge.sandbox import Backend, Sandbox, SandboxSpec
from taskforge.sandbox.pool_kin import Kin, Layout, Layouts, difference
from taskforge.sandbox.pool_memory import available_bytes
from taskforge.sandbox.pool_shelf import Shelf, Waiting, start
from taskforge.sandbox.pool_stats import PoolStats

__all__ = ["Pool", "PoolStats"]

log = logging.getLogger("taskforge.sandbox")

#: Of the memory that the machine has left, what waiting sandboxes may take; the rest is for those at work.
SHARE = 0.25


class Pool:
    """At most ``size`` sandboxes wait at any time, and fewer where memory is short; any number may be at work, which is
    the caller's to bound. With ``size=0`` each is started on demand and nothing else ever is.

    Args:
        idle: seconds after which those are ended whose kin nobody has asked for.
        available: bytes of memory that this machine has left.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        size: int = 2,
        idle: float = 300.0,
        available: Callable[[], int] = available_bytes,
    ) -> None:
        self.backend = backend
        self.size = size
        self._idle = idle
        self._available = available
        self._counts = PoolStats()
        self._layouts = Layouts()
        self._shelves: OrderedDict[Kin, Shelf] = OrderedDict()
        self._taken: weakref.WeakSet[Sandbox] = weakref.WeakSet()
        self._mutex = threading.Lock()
        self._starters = ThreadPoolExecutor(max_workers=max(1, size), thread_name_prefix="pool")
        self._timer: threading.Timer | None = None
        self._closed = False
        # At the interpreter's end, and when everybody has forgotten the pool without closing it.
        weakref.finalize(self, _end_all, self._shelves, self._taken, os.getpid())

    @property
    def closed(self) -> bool:
        """Whether nothing can be taken any more."""
        return self._closed

    @property
    def stats(self) -> PoolStats:
        """Counts since the start, and what is held at this moment."""
        with self._mutex:
            held = [one.future.done() for shelf in self._shelves.values() for one in shelf.waiting]
            out = sum(shelf.demand.out for shelf in self._shelves.values())
            return replace(self._counts, waiting=sum(held), starting=held.count(False), out=out)

    # -- taking ---------------------------------------------------------------------------------------------------

    def take(self, spec: SandboxSpec) -> Sandbox:
        """A sandbox of this spec, warm, which has answered just now; the caller closes it.

        Raises:
            SandboxFault: when none can be started.
        """
        with self._mutex:
            self._refuse_if_closed()
            layout = self._layouts.of(spec)
            self._shelf(layout.kin).demand.enter()
        try:
            sandbox = self._waiting(layout) or self._fresh(layout)
        except BaseException:
            self._left(layout)
            raise
        sandbox.when_closed(partial(self._left, layout))
        with self._mutex:
            self._taken.add(sandbox)
            aborted = self._closed
        if aborted:
            sandbox.close()
            self._refuse_if_closed()
        # Now, and not when this one is closed: who grades one after the other takes the next at that very moment.
        self._tend(layout)
        return sandbox

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise SandboxFault("the pool has been closed", kind="pool_closed", retryable=False)

    def _waiting(self, layout: Layout) -> Sandbox | None:
        while True:
            with self._mutex:
                one = self._shelf(layout.kin).pick(layout)
            if one is None or one.future.cancel():
                # Nobody has begun with it, nor with any other: it is as quick to start one here.
                return None
            waited = not one.future.done()
            try:
                sandbox = one.future.result()
                sandbox.look()
                sandbox.become(layout.spec, difference(one.layout.free, layout.free))
            except TaskforgeError as fault:
                log.info("a sandbox started ahead is lost: %s", fault)
                self._drop([one])
                continue
            except BaseException:
                self._drop([one])
                raise
            same = one.layout.spec.key == layout.spec.key
            self._count(hits=same, kin_hits=not same, waited=waited)
            return sandbox

    def _fresh(self, layout: Layout) -> Sandbox:
        self._count(misses=1)
        return start(self.backend, layout)

    def _left(self, layout: Layout) -> None:
        """One that was taken has been closed, or was never had."""
        with self._mutex:
            self._shelf(layout.kin).demand.leave()

    # -- keeping --------------------------------------------------------------------------------------------------

    def expect(self, spec: SandboxSpec, count: int = 1) -> None:
        """A hint: start up to ``count`` ahead, before the first was ever taken."""
        with self._mutex:
            layout = self._layouts.of(spec)
        self._tend(layout, count)

    def _tend(self, layout: Layout, count: int = 0) -> None:
        """Have as many of this kin waiting as are wanted and fit. The least recently wanted make room."""
        if self.size < 1:
            return
        free = self._available()
        with self._mutex:
            if self._closed:
                return
            shelf = self._shelf(layout.kin)
            shelf.used = time.monotonic()
            self._shelves.move_to_end(layout.kin)
            budget = int(SHARE * (free + sum(one.memory for one in self._all())))
            wanted = min(max(count, shelf.demand.peak()), self.size, budget // shelf.memory)
            for _ in range(wanted - len(shelf.waiting)):
                one = Waiting(layout)
                one.future = self._starters.submit(shelf.prepare, self.backend, one)
                shelf.waiting.append(one)
            surplus = [*self._outdated(), *self._beyond(budget)]
            self._arm()
        self._drop(surplus, evictions=len(surplus))

    def _shelf(self, kin: Kin) -> Shelf:
        return self._shelves.setdefault(kin, Shelf())

    def _all(self) -> list[Waiting]:
        return [one for shelf in self._shelves.values() for one in shelf.waiting]

    def _beyond(self, budget: int) -> list[Waiting]:
        """Take out what is too much, in number or in bytes: the oldest of the least recently wanted kin first."""
        surplus = []
        number = len(self._all())
        used = sum(shelf.memory * len(shelf.waiting) for shelf in self._shelves.values())
        for shelf in self._shelves.values():
            while shelf.waiting and (number > self.size or used > budget):
                surplus.append(shelf.waiting.pop(0))
                number -= 1
                used -= shelf.memory
        return surplus

    def _outdated(self) -> list[Waiting]:
        """Take out those whose kin was not wanted for too long, and forget that kin."""
        since = time.monotonic() - self._idle
        old = []
        for kin, shelf in list(self._shelves.items()):
            if shelf.outdated(since):
                old += shelf.waiting
                shelf.waiting = []
                if shelf.forgotten:
                    del self._shelves[kin]
        return old

    def _arm(self) -> None:
        """See to it that somebody looks again when the first may be outdated, and that nobody does for nothing."""
        if self._timer is None and not self._closed and self._all():
            self._timer = threading.Timer(self._idle, _look_again, [weakref.ref(self)])
            self._timer.daemon = True
            self._timer.start()

    def _look(self) -> None:
        with self._mutex:
            self._timer = None
            old = self._outdated()
            self._arm()
        self._drop(old, evictions=len(old))

    def _drop(self, those: Iterable[Waiting], evictions: int = 0) -> None:
        """End what is not wanted any more, off the caller's path."""
        started = [one for one in those if not one.future.cancel()]
        self._count(wasted=len(started), evictions=evictions)
        for one in started:
            with self._mutex:
                if not self._closed:
                    self._starters.submit(_end, one.future)
                    continue
            _end(one.future)

    def _count(self, **more: int) -> None:
        with self._mutex:
            counts = self._counts
            self._counts = replace(counts, **{name: getattr(counts, name) + by for name, by in more.items()})

    # -- ending ---------------------------------------------------------------------------------------------------

    def abort(self) -> None:
        """Kill what is at work too: whoever waits for one of them sees it lost. For an interrupted command."""
        with self._mutex:
            self._closed = True
            taken = list(self._taken)
        for sandbox in taken:
            sandbox.kill()
        self.close()

    def close(self) -> None:
        """End every waiting sandbox, those being started too, and return when none is left. Idempotent."""
        with self._mutex:
            self._closed = True
            those = self._all()
            for shelf in self._shelves.values():
                shelf.waiting = []
            if self._timer is not None:
                self._timer.cancel()
        self._drop(those)
        self._starters.shutdown(wait=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _look_again(pool: weakref.ref[Pool]) -> None:
    found = pool()
    if found is not None:
        found._look()


def _end(future: Future[Sandbox]) -> None:
    """Close what came of it, now or when it comes."""

    def end(done: Future[Sandbox]) -> None:
        if not done.cancelled() and done.exception() is None:
            done.result().close()

    future.add_done_callback(end)


def _end_all(shelves: OrderedDict[Kin, Shelf], taken: Iterable[Sandbox], owner: int) -> None:
    if os.getpid() != owner:
        return  # A forked child: they are its parent's.
    for sandbox in list(taken):
        sandbox.kill()
    for shelf in shelves.values():
        for one in shelf.waiting:
            if not one.future.cancel():
                _end(one.future)
