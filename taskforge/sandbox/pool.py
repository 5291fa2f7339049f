"""Started, warmed sandboxes that wait for work.

One submission a sandbox: what is taken is never given back. The pool starts the next one while the last one works,
keeps those waiting that were asked for most recently, and ends all of them when it is closed.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from taskforge.errors import SandboxFault
from taskforge.sandbox import Backend, Sandbox, SandboxSpec

__all__ = ["Pool"]

log = logging.getLogger("taskforge.sandbox")


class Pool:
    """At most ``size`` sandboxes wait at any time; any number may be at work, which is the caller's to bound."""

    def __init__(self, backend: Backend, *, size: int = 2) -> None:
        self.backend = backend
        self.size = size
        self.hits = 0
        self.misses = 0
        self._waiting: OrderedDict[tuple[object, ...], list[Future[Sandbox]]] = OrderedDict()
        self._mutex = threading.Lock()
        self._starters = ThreadPoolExecutor(max_workers=max(1, size), thread_name_prefix="pool")
        self._closed = False
        self._taken: weakref.WeakSet[Sandbox] = weakref.WeakSet()

    @property
    def closed(self) -> bool:
        """Whether nothing can be taken any more."""
        return self._closed

    def take(self, spec: SandboxSpec) -> Sandbox:
        """A sandbox of this spec, warm and alive; the caller closes it.

        Raises:
            SandboxFault: when none can be started.
        """
        sandbox = self._take(spec)
        with self._mutex:
            self._taken.add(sandbox)
            aborted = self._closed
        if aborted:
            sandbox.close()
            raise SandboxFault("the pool has been closed", kind="pool_closed", retryable=False)
        return sandbox

    def _take(self, spec: SandboxSpec) -> Sandbox:
        while True:
            with self._mutex:
                queue = self._waiting.get(spec.key)
                future = queue.pop(0) if queue else None
            if future is None:
                break
            try:
                sandbox = future.result()
            except SandboxFault as fault:
                log.warning("a sandbox started ahead is lost: %s", fault)
                continue
            if sandbox.alive:
                self.hits += 1
                return sandbox
            sandbox.close()
        self.misses += 1
        return self._start(spec)

    def expect(self, spec: SandboxSpec, count: int = 1) -> None:
        """Start up to ``count`` ahead, off the caller's path. The least recently wanted make room."""
        with self._mutex:
            if self._closed or self.size < 1:
                return
            queue = self._waiting.setdefault(spec.key, [])
            self._waiting.move_to_end(spec.key)
            for _ in range(min(count, self.size) - len(queue)):
                queue.append(self._starters.submit(self._start, spec))
            surplus: list[Future[Sandbox]] = []
            while sum(map(len, self._waiting.values())) > self.size:
                oldest = next(key for key, held in self._waiting.items() if held)
                surplus.append(self._waiting[oldest].pop(0))
            for key in [key for key, held in self._waiting.items() if not held and key != spec.key]:
                del self._waiting[key]
        for future in surplus:
            _drop(future)

    def _start(self, spec: SandboxSpec) -> Sandbox:
        sandbox = self.backend.start(spec)
        try:
            sandbox.warm()
        except BaseException:
            sandbox.close()
            raise
        return sandbox

    def abort(self) -> None:
        """Kill what is at work too: whoever waits for one of them sees it lost. For an interrupted command."""
        with self._mutex:
            self._closed = True
            taken = list(self._taken)
        for sandbox in taken:
            sandbox.kill()
        self.close()

    def close(self) -> None:
        """End every waiting sandbox. Idempotent."""
        with self._mutex:
            self._closed = True
            futures = [future for queue in self._waiting.values() for future in queue]
            self._waiting.clear()
        for future in futures:
            _drop(future)
        self._starters.shutdown(wait=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _drop(future: Future[Sandbox]) -> None:
    def end(done: Future[Sandbox]) -> None:
        if not done.cancelled() and done.exception() is None:
            done.result().close()

    if not future.cancel():
        future.add_done_callback(end)
