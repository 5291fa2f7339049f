"""``taskforge generate``: from a repository to validated tasks."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from taskforge.generate.pipeline import Report

__all__ = ["generate", "print_report"]


def generate(
    source: Annotated[str, typer.Argument(help="pypi:NAME==VERSION, URL@COMMIT, PATH@COMMIT, an sdist or a folder.")],
    out: Annotated[Path, typer.Option("--out", help="The corpus: made when missing, added to when there.")],
    max_tasks: Annotated[int | None, typer.Option("--max", min=1, help="Stop after this many tasks.")] = None,
    mode: Annotated[str, typer.Option(help="How a feature is taken out.")] = "stub",
    seed: Annotated[int, typer.Option(help="Of the order of candidates, the shuffled run and the samples.")] = 0,
    jobs: Annotated[int | None, typer.Option(min=1, help="Sandboxes at work; the number of cores by default.")] = None,
    min_pass: Annotated[float, typer.Option(min=0, max=100, help="Percent of tests that must pass untouched.")] = 90.0,
    runs: Annotated[int, typer.Option(min=1, help="Baseline runs of the suite; the last one is shuffled.")] = 3,
    p2p_seconds: Annotated[float, typer.Option(min=0, help="Seconds of PASS_TO_PASS that a grade runs.")] = 20.0,
    tests: Annotated[str, typer.Option(help="Files of FAIL_TO_PASS in the workspace: hidden or visible.")] = "hidden",
    python: Annotated[str | None, typer.Option(help="Interpreter, such as 3.12; chosen when left out.")] = None,
    sandbox: Annotated[str | None, typer.Option(help="bubblewrap, docker or auto.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite tasks of the same id.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Make validated tasks from a repository. Interrupted and run again, it goes on where it was."""
    from taskforge.cli.common import console, print_json
    from taskforge.errors import UsageError
    from taskforge.generate.pipeline import Options
    from taskforge.generate.pipeline import generate as run
    from taskforge.model import Source
    from taskforge.sandbox import backend
    from taskforge.settings import Settings

    if mode != "stub":
        raise UsageError(f"there is no mode {mode!r}", hint="the mode is stub")
    if tests not in {"hidden", "visible"}:
        raise UsageError(f"--tests is {tests!r}", hint="write hidden or visible")
    settings = Settings()
    options = Options(
        max_tasks=max_tasks,
        seed=seed,
        jobs=jobs or settings.jobs,
        min_pass=min_pass,
        baseline_runs=runs,
        p2p_seconds=p2p_seconds,
        tests_visible=tests == "visible",
        python=python,
        replace=replace,
    )
    parsed = Source.parse(source)
    with watching(quiet=as_json) as watch:
        report = run(
            parsed, out, options, settings=settings, backend=backend(sandbox or settings.sandbox), watch=watch
        )
    if as_json:
        print_json(report.model_dump(mode="json"))
        return
    print_report(console(), report, out)


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


def print_report(console: Console, report: Report, out: Path) -> None:
    """The table at the end of a run."""
    from rich.table import Table

    console.print(f"{report.source} -> {out}", highlight=False, markup=False, soft_wrap=True)
    counts = Table(box=None, show_header=False, pad_edge=False)
    counts.add_column()
    counts.add_column(justify="right")
    rows: list[tuple[str, object]] = [
        ("tests (stable)", f"{report.tests} ({report.stable_tests})"),
        ("functions", report.symbols),
        *((f"  passed over: {reason}", count) for reason, count in report.passed_over.items()),
        ("candidates (tried)", f"{report.candidates} ({report.tried})"),
        ("tasks", len(report.tasks)),
        *((f"  rejected: {reason}", count) for reason, count in report.rejections.items()),
    ]
    if report.skipped_files:
        rows.append(("files skipped", len(report.skipped_files)))
    for name, value in rows:
        counts.add_row(name, str(value))
    console.print(counts)
    times = Table(box=None, pad_edge=False)
    times.add_column("stage")
    times.add_column("wall s", justify="right")
    times.add_column("CPU s", justify="right")
    for name, row in report.stages.items():
        times.add_row(name, f"{row['wall']:.1f}", f"{row['cpu']:.1f}")
    console.print()
    console.print(times)
