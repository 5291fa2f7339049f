"""``taskforge grade --predictions``: many submissions into one report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from taskforge.corpus import Corpus
    from taskforge.grade.journal import Journal
    from taskforge.grade.predictions import Prediction, Report
    from taskforge.model import Policy, Verdict
    from taskforge.sandbox import Backend
    from taskforge.settings import Settings

__all__ = ["grade_predictions"]


def grade_predictions(
    path: Path, corpus: Path, policy: Policy, *, backend: Backend, settings: Settings, out: Path | None, as_json: bool
) -> None:
    """Grade every prediction of a file, ``settings.jobs`` at a time, and report. Exit code 4 when one had no verdict.

    Raises:
        UsageError: when the file is none, or names a task that the corpus does not have.
        StoreFault: when ``out`` cannot be written; nothing is graded then.
    """
    from taskforge.cli.common import console, file_to_write, print_json
    from taskforge.corpus import Corpus
    from taskforge.corpus.atomic import write_bytes
    from taskforge.corpus.bundle import json_bytes
    from taskforge.errors import UsageError
    from taskforge.grade.journal import Journal
    from taskforge.grade.predictions import read_predictions, report_of

    place = Corpus.open(corpus)
    predictions = read_predictions(path)
    tasks = place.task_ids()
    strangers = [one.task for one in predictions if one.task not in set(tasks)]
    if strangers:
        raise UsageError(f"{path} predicts {strangers[0]}, which {corpus} does not have", hint="see `taskforge list`")
    target = None if out is None else file_to_write(out, "--out")
    journal = Journal(None if target is None else target.with_name(f"{target.name}.partial"))
    verdicts, faults = _graded(predictions, place, policy, backend, settings, journal, quiet=as_json)
    report = report_of(predictions, verdicts, faults, tasks)
    content = {
        **report.model_dump(),
        "verdicts": {name: verdict.model_dump() for name, verdict in sorted(verdicts.items())},
    }
    if target is not None:
        write_bytes(target, json_bytes(content))
    if not faults:
        journal.remove()
    if as_json:
        print_json(content)
    else:
        _print(console(), report, out)
    if report.faults:
        raise typer.Exit(4)


def _graded(
    predictions: list[Prediction],
    place: Corpus,
    policy: Policy,
    backend: Backend,
    settings: Settings,
    journal: Journal,
    *,
    quiet: bool,
) -> tuple[dict[str, Verdict], dict[str, str]]:
    """Verdicts and faults by task id. A verdict that the journal of an interrupted run has is not made again."""
    from concurrent.futures import ThreadPoolExecutor

    from taskforge.cli.grade import grader_for
    from taskforge.cli.watching import watching
    from taskforge.errors import TaskforgeError
    from taskforge.sandbox.pool import Pool

    verdicts: dict[str, Verdict] = {}
    faults: dict[str, str] = {}
    environments: dict[str, Any] = {}
    with watching(quiet=quiet) as watch, Pool(backend, size=settings.jobs) as pool:
        watch.stage("grading", len(predictions))

        def one(prediction: Prediction) -> None:
            try:
                grader = grader_for(
                    place, prediction.task, pool=pool, backend=backend, settings=settings, environments=environments
                )
                given = prediction.submission
                known = journal.verdict(grader.card, given, policy)
                verdicts[prediction.task] = known or grader.grade(given, policy)
                if known is None:
                    journal.keep(verdicts[prediction.task])
                note: str = verdicts[prediction.task].outcome
            except TaskforgeError as error:
                if pool.closed:
                    raise
                faults[prediction.task] = str(error)
                note = "fault"
                watch.log(f"{prediction.task}: no verdict: {error}")
            watch.step(f"{prediction.task}: {note}")

        try:
            with ThreadPoolExecutor(max_workers=settings.jobs) as threads:
                for _done in threads.map(one, predictions):
                    continue
        except BaseException:
            pool.abort()
            raise
    return verdicts, faults


def _print(console: Console, report: Report, out: Path | None) -> None:
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column()
    table.add_column(justify="right")
    for name, count in (
        ("predictions", report.total),
        ("resolved", len(report.resolved)),
        ("not resolved", len(report.unresolved)),
        *((f"  {outcome}", count) for outcome, count in report.outcomes.items() if outcome != "resolved"),
        ("  of these without a patch", len(set(report.empty) & set(report.unresolved))),
        ("faults, no verdict", len(report.faults)),
        ("tasks without a prediction", len(report.missing)),
    ):
        table.add_row(name, str(count))
    console.print(table)
    if out is not None:
        console.print(f"every verdict: {out}", highlight=False)
