"""``taskforge generate``: from a repository to validated tasks."""

from __future__ import annotations

import re
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
    mode: Annotated[
        str, typer.Option(help="stub, remove, module, cluster; several with commas, or all.")
    ] = "stub",
    per_module: Annotated[int | None, typer.Option(min=1, help="Candidates of a mode that one file may give.")] = None,
    difficulty: Annotated[
        str | None, typer.Option(help="Scores wanted, such as 3-8: see `list --sort difficulty`.")
    ] = None,
    min_lines: Annotated[
        int | None, typer.Option(min=1, help="Of the removed code; 2, and 40 for a cluster, when left out.")
    ] = None,
    max_lines: Annotated[int, typer.Option(min=1, help="Of the removed code.")] = 400,
    min_files: Annotated[int, typer.Option(min=1, help="Of a cluster.")] = 2,
    seed: Annotated[int, typer.Option(help="Of the order of candidates, the shuffled run and the samples.")] = 0,
    jobs: Annotated[int | None, typer.Option(min=1, help="Sandboxes at work; the number of cores by default.")] = None,
    min_pass: Annotated[float, typer.Option(min=0, max=100, help="Percent of tests that must pass untouched.")] = 90.0,
    runs: Annotated[int, typer.Option(min=1, help="Baseline runs of the suite; the last one is shuffled.")] = 3,
    p2p_seconds: Annotated[float, typer.Option(min=0, help="Seconds of PASS_TO_PASS that a grade runs.")] = 20.0,
    tests: Annotated[str, typer.Option(help="Files of FAIL_TO_PASS in the workspace: hidden or visible.")] = "hidden",
    docstrings: Annotated[
        bool,
        typer.Option("--keep-docstrings/--move-docstrings", help="Of stubs: in the code, or in the statement alone."),
    ] = True,
    twins: Annotated[
        bool, typer.Option("--keep-twins", help="Mark tasks that ask for nearly the same code, rather than drop them.")
    ] = False,
    statement: Annotated[
        str, typer.Option(help="template, or llm: by the endpoint that TASKFORGE_STATEMENT_BASE_URL and _MODEL name.")
    ] = "template",
    python: Annotated[str | None, typer.Option(help="Interpreter, such as 3.12; chosen when left out.")] = None,
    sandbox: Annotated[str | None, typer.Option(help="bubblewrap, docker or auto.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite tasks of the same id.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Make validated tasks from a repository. Interrupted and run again, it goes on where it was."""
    from taskforge.cli.common import console, print_json
    from taskforge.cli.watching import watching
    from taskforge.generate.pipeline import Options
    from taskforge.generate.pipeline import generate as run
    from taskforge.model import Source
    from taskforge.sandbox import backend
    from taskforge.settings import Settings

    settings = Settings()
    options = Options(
        modes=_modes(mode),
        max_tasks=max_tasks,
        per_module=per_module,
        difficulty=_range(difficulty),
        **_sizes(min_lines, max_lines, min_files),
        seed=seed,
        jobs=jobs or settings.jobs,
        min_pass=min_pass,
        baseline_runs=runs,
        p2p_seconds=p2p_seconds,
        tests_visible=_one_of("--tests", tests, ("hidden", "visible")) == "visible",
        keep_docstrings=docstrings,
        keep_twins=twins,
        statement=_one_of("--statement", statement, ("template", "llm")),  # type: ignore[arg-type]
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


def _one_of(option: str, given: str, known: tuple[str, ...]) -> str:
    from taskforge.errors import UsageError

    if given not in known:
        raise UsageError(f"{option} is {given!r}", hint=f"write {' or '.join(known)}")
    return given


def _sizes(min_lines: int | None, max_lines: int, min_files: int) -> dict[str, Any]:
    from taskforge.errors import UsageError

    if (min_lines or 0) > max_lines:
        raise UsageError(
            f"--min-lines {min_lines} is more than --max-lines {max_lines}", hint="raise the one or lower the other"
        )
    return {"min_lines": min_lines, "max_lines": max_lines, "min_files": min_files}


def _modes(text: str) -> tuple[Any, ...]:
    from typing import get_args

    from taskforge.errors import UsageError
    from taskforge.languages import Mode

    known = get_args(Mode)
    asked = known if text.strip() == "all" else tuple(part.strip() for part in text.split(",") if part.strip())
    unknown = [one for one in asked if one not in known]
    if unknown or not asked:
        raise UsageError(
            f"there is no mode {(unknown or [text])[0]!r}", hint=f"choose of {', '.join(known)}, with commas, or all"
        )
    return asked


def _range(text: str | None) -> tuple[float, float] | None:
    from taskforge.errors import UsageError

    if text is None:
        return None
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)?\s*-\s*(\d+(?:\.\d+)?)?\s*", text)
    low, high = (float(found[1] or 0), float(found[2] or "inf")) if found else (1.0, 0.0)
    if low > high:
        raise UsageError(f"--difficulty {text!r} is no range of scores", hint="write 3-8, 5- or -4")
    return low, high


def print_report(console: Console, report: Report, out: Path) -> None:
    """The table at the end of a run."""
    from rich.table import Table

    console.print(f"{report.source} -> {out}", highlight=False, markup=False, soft_wrap=True)
    counts = Table(box=None, show_header=False, pad_edge=False)
    counts.add_column()
    counts.add_column(justify="right")
    rows: list[tuple[str, object]] = [
        ("tests (stable)", f"{report.tests} ({report.stable_tests})"),
        ("functions and classes (entered by tests)", f"{report.symbols} ({report.entered})"),
        *((f"  passed over: {reason}", count) for reason, count in report.passed_over.items()),
        ("candidates (tried)", f"{report.candidates} ({report.tried})"),
        *((f"  {mode}", f"{count} ({report.tried_by_mode.get(mode, 0)})") for mode, count in report.eligible.items()),
        ("tasks", len(report.tasks)),
        *((f"  {mode}", count) for mode, count in report.tasks_by_mode.items()),
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
