"""The waiting sandboxes of one kin: what was asked for lately, and what stands ready."""

from __future__ import annotations

import time
from concurrent.futures import Future
from dataclasses import dataclass, field

from taskforge.sandbox import Backend, Sandbox
from taskforge.sandbox.pool_kin import Layout

__all__ = ["Demand", "Shelf", "Waiting", "start"]

#: Seconds that a peak counts: in its window and the one after it.
WINDOW = 60.0


class Demand:
    """How many were out at the same time, lately: the peak of this window and of the one before it."""

    def __init__(self) -> None:
        self.out = 0
        self._peak = self._before = 0
        self._began = time.monotonic()

    def enter(self) -> None:
        """One is being taken."""
        self._turn()
        self.out += 1
        self._peak = max(self._peak, self.out)

    def leave(self) -> None:
        """One that was taken has been closed."""
        self._turn()
        self.out -= 1

    def peak(self) -> int:
        """As many as were out at once, lately."""
        self._turn()
        return max(self._peak, self._before)

    def _turn(self) -> None:
        passed = time.monotonic() - self._began
        if passed > WINDOW:
            self._before = self._peak if passed < 2 * WINDOW else self.out
            self._peak = self.out
            self._began = time.monotonic()


@dataclass(eq=False)
class Waiting:
    """One sandbox that was started ahead, or is being started."""

    layout: Layout
    future: Future[Sandbox] = field(init=False)
    asked: float = field(default_factory=time.monotonic)
    memory: int = 0
    """Bytes, measured when it was warm; 0 before."""


class Shelf:
    """One kin."""

    def __init__(self) -> None:
        self.waiting: list[Waiting] = []
        self.demand = Demand()
        self.used = time.monotonic()
        #: What one takes, in bytes: a guess until the first was measured.
        self.memory = 64 * 1024 * 1024

    def outdated(self, moment: float) -> bool:
        """Whether nobody has wanted this kin since ``moment``."""
        return self.used < moment and not self.demand.out and all(one.future.done() for one in self.waiting)

    @property
    def forgotten(self) -> bool:
        """Whether there is nothing left to remember of this kin."""
        return not self.waiting and not self.demand.peak()

    def pick(self, layout: Layout) -> Waiting | None:
        """Take the best one: ready before being started, of the same tree before kin, the oldest first."""
        if not self.waiting:
            return None
        key = layout.spec.key
        best = min(self.waiting, key=lambda one: (not one.future.done(), one.layout.spec.key != key, one.asked))
        self.waiting.remove(best)
        return best

    def prepare(self, backend: Backend, one: Waiting) -> Sandbox:
        """Start ``one``, and measure it."""
        sandbox = start(backend, one.layout)
        try:
            self.memory = one.memory = sandbox.look()
        except BaseException:
            sandbox.close()
            raise
        self.used = time.monotonic()
        return sandbox


def start(backend: Backend, layout: Layout) -> Sandbox:
    """A new one, warm.

    Raises:
        SandboxFault: when there is none to be had.
    """
    sandbox = backend.start(layout.spec)
    try:
        sandbox.warm()
    except BaseException:
        sandbox.close()
        raise
    return sandbox
