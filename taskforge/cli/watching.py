"""Progress of long work, for people."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["watching"]


@contextmanager
def watching(*, quiet: bool = False) -> Iterator[Any]:
    """A watcher that shows stages on stderr: a live line on a terminal, plain lines elsewhere. SIGTERM ends like
    Ctrl-C."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from taskforge.generate.progress import Quiet

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        if quiet:
            yield Quiet()
            return
        console = Console(stderr=True)
        columns = (
            SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(),
            TimeElapsedColumn(), TextColumn("{task.fields[note]}", style="dim"),
        )  # fmt: skip
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
            yield _Shown(console, progress)
    finally:
        signal.signal(signal.SIGTERM, before)


class _Shown:
    """Progress by rich."""

    def __init__(self, console: Console, progress: Any) -> None:
        self.console, self.progress = console, progress
        self.current: Any = None

    def stage(self, name: str, total: int | None = None) -> None:
        if self.current is not None:
            self.progress.remove_task(self.current)
        self.current = self.progress.add_task(name, total=total, note="")
        if not self.console.is_terminal:
            self.console.print(f"{name} …", highlight=False, markup=False)

    def step(self, note: str = "") -> None:
        if self.current is not None:
            self.progress.update(self.current, advance=1, note=note[:60].replace("[", "("))

    def log(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)
