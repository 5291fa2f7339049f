"""How generation tells what it is doing, and where its time went."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

__all__ = ["Quiet", "Stages", "Watcher"]


class Watcher(Protocol):
    """Told about progress; called from several threads."""

    def stage(self, name: str, total: int | None = None) -> None:
        """A stage begins; ``total`` steps are known or not."""

    def step(self, note: str = "") -> None:
        """One step of the current stage is done."""

    def log(self, text: str) -> None:
        """A line worth keeping on the screen."""


class Quiet:
    """Tells nobody."""

    def stage(self, name: str, total: int | None = None) -> None:
        del name, total

    def step(self, note: str = "") -> None:
        del note

    def log(self, text: str) -> None:
        del text


class Stages:
    """Wall and CPU seconds by stage. CPU is this process's threads plus what sandboxes reported."""

    def __init__(self, known: Mapping[str, Mapping[str, float]] | None = None) -> None:
        self._mutex = threading.Lock()
        self._table: dict[str, dict[str, float]] = {}
        if known:
            self.merge(known)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        wall, cpu = time.monotonic(), time.thread_time()
        try:
            yield
        finally:
            self.add(name, wall=time.monotonic() - wall, cpu=time.thread_time() - cpu)

    def add(self, name: str, *, wall: float = 0.0, cpu: float = 0.0) -> None:
        with self._mutex:
            row = self._table.setdefault(name, {"wall": 0.0, "cpu": 0.0})
            row["wall"] += wall
            row["cpu"] += cpu

    def merge(self, other: Mapping[str, Mapping[str, float]]) -> None:
        for name, row in other.items():
            self.add(name, wall=row["wall"], cpu=row["cpu"])

    @property
    def table(self) -> dict[str, dict[str, float]]:
        with self._mutex:
            return {
                name: {what: round(value, 3) for what, value in row.items()} for name, row in self._table.items()
            }
