"""``taskforge grade``: one submission to one task, and why."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from taskforge.corpus import Corpus
    from taskforge.grade import Grader
    from taskforge.model import Image, Policy, TaskCard, Verdict
    from taskforge.sandbox import Backend, Environment
    from taskforge.settings import Settings

__all__ = ["grade", "grader_for", "print_verdict"]

EXIT_NOT_RESOLVED = 1
EXIT_NOT_APPLIED = 3


def grade(
    task: Annotated[
        str | None, typer.Argument(help="A task's folder, or its id (or the start of it) with --corpus.")
    ] = None,
    submission: Annotated[str | None, typer.Argument(help="A patch file, - for standard input, or a folder.")] = None,
    corpus: Annotated[Path | None, typer.Option(help="Where the task is, when it is named by id.")] = None,
    reference: Annotated[bool, typer.Option("--reference", help="Grade the task's own solution: a control.")] = False,
    empty: Annotated[bool, typer.Option("--empty", help="Grade doing nothing: a control.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Run every PASS_TO_PASS, not only the chosen ones.")] = False,
    reward: Annotated[str, typer.Option(help="binary or fraction.")] = "binary",
    strict: Annotated[bool, typer.Option("--strict", help="Refuse submissions that touch tests.")] = False,
    predictions: Annotated[
        Path | None, typer.Option(help="Grade SWE-bench predictions (.jsonl, .json) to tasks of --corpus instead.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="With --predictions: a file for all verdicts.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="With --predictions: gradings at a time.")] = None,
    sandbox: Annotated[str | None, typer.Option(help="bubblewrap, docker or auto.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
) -> None:
    """Grade a submission. Exit code: 0 resolved, 1 not resolved, 2 usage, 3 cannot be applied, 4 fault (no verdict)."""
    from taskforge.cli.common import console, print_json
    from taskforge.errors import UsageError
    from taskforge.model import Policy
    from taskforge.settings import Settings

    if predictions is None and (task is None or reference + empty + (submission is not None) != 1):
        raise UsageError(
            "there must be one task and exactly one submission",
            hint="give a patch file, - or a folder, or --reference, or --empty; or many with --predictions",
        )
    if predictions is not None and (corpus is None or task is not None or reference or empty):
        raise UsageError(
            "--predictions takes --corpus, and no task or submission", hint="each prediction names its task"
        )
    if reward not in {"binary", "fraction"}:
        raise UsageError(f"there is no reward {reward!r}", hint="write binary or fraction")
    policy = Policy.model_validate({"full": full, "reward": reward, "strict": strict})
    settings = Settings() if jobs is None else Settings(jobs=jobs)
    if predictions is not None and corpus is not None:
        from taskforge.cli.predictions import grade_predictions
        from taskforge.sandbox import backend

        chosen = backend(sandbox or settings.sandbox)
        grade_predictions(
            predictions, corpus, policy, backend=chosen, settings=settings, out=out, as_json=as_json
        )
        return
    assert task is not None
    verdict = _one(
        task, corpus, submission, policy, reference=reference, settings=settings, sandbox=sandbox, as_json=as_json
    )
    if as_json:
        print_json(verdict.model_dump(mode="json"))
    else:
        print_verdict(console(), verdict)
    if verdict.outcome == "patch_rejected":
        raise typer.Exit(EXIT_NOT_APPLIED)
    if not verdict.resolved:
        raise typer.Exit(EXIT_NOT_RESOLVED)


def _one(
    task: str,
    corpus: Path | None,
    submission: str | None,
    policy: Policy,
    *,
    reference: bool,
    settings: Settings,
    sandbox: str | None,
    as_json: bool,
) -> Verdict:
    from taskforge.cli.common import print_json
    from taskforge.corpus import locate
    from taskforge.corpus.atomic import store_fault
    from taskforge.errors import Fault
    from taskforge.grade import Submission, read_submission
    from taskforge.grade.grading import reference_of
    from taskforge.sandbox import backend
    from taskforge.sandbox.pool import Pool

    try:
        place, name = locate(task, corpus)
        chosen = backend(sandbox or settings.sandbox)
        with Pool(chosen, size=0) as pool:
            grader = grader_for(place, name, pool=pool, backend=chosen, settings=settings)
            given = reference_of(grader.bundle) if reference else Submission.empty()
            if submission is not None:
                given = read_submission(submission, sys.stdin.buffer)
            return _with_status(grader, given, policy, quiet=as_json)
    except (Fault, OSError) as error:
        # A raw error of the disk is a fault too: whoever reads the JSON must not see silence instead of null.
        fault = error if isinstance(error, Fault) else store_fault(error, Path(error.filename or settings.cache_dir))
        if not as_json:
            raise fault from error
        print_json({"outcome": "fault", "reward": None, "fault": {"kind": fault.kind, "message": str(fault)}})
        raise typer.Exit(fault.exit_code) from fault


def _with_status(grader: Grader, given: Any, policy: Any, *, quiet: bool) -> Verdict:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    err = Console(stderr=True)
    total = len(grader.required(policy))
    columns = (TextColumn("grading"), BarColumn(bar_width=24), MofNCompleteColumn())
    with Progress(*columns, console=err, transient=True, disable=quiet or not err.is_terminal) as progress:
        bar = progress.add_task("grading", total=total)
        return grader.grade(given, policy, on_report=lambda _report: progress.advance(bar))


def grader_for(
    corpus: Any,
    task: str,
    *,
    pool: Any,
    backend: Backend,
    settings: Settings,
    environments: dict[str, Any] | None = None,
) -> Grader:
    """A grader for a task of a corpus; its environment is rebuilt from the recipe when this host lacks it, and pinned
    to the corpus's image of it.

    Raises:
        CorpusError: when the task is damaged, or was proven in another image than the corpus has now.
        Fault: when the environment cannot be had, or the task is for another platform.
    """
    from dataclasses import replace

    from taskforge.errors import Fault, SourceError, TaskforgeError
    from taskforge.generate import environment as stage
    from taskforge.grade import Grader
    from taskforge.sandbox import Limits

    bundle = corpus.bundle(task)
    image = _image_of(corpus, bundle.card)
    recipe = corpus.recipe(bundle.card.environment)
    known: dict[str, Environment] = {} if environments is None else environments
    if recipe.digest not in known:
        try:
            known[recipe.digest] = stage.ensure(
                recipe, lambda: corpus.snapshot(recipe.snapshot), backend=backend, cache=settings.cache_dir
            )
        except SourceError:
            raise
        except Fault:
            raise
        except TaskforgeError as error:
            raise Fault(
                f"the environment of {task} cannot be built here: {error}",
                kind="environment_build",
                hint=error.hint or "try again where the package index can be reached",
            ) from error
    limits = Limits(memory_mb=settings.memory_mb, disk_mb=settings.disk_mb, pids=settings.pids)
    return Grader(bundle, replace(known[recipe.digest], image=image), pool, limits=limits)


def _image_of(corpus: Corpus, card: TaskCard) -> Image | None:
    """The image that a task's environment is pinned to, for this host."""
    from taskforge.errors import CorpusError, Fault
    from taskforge.sandbox.platforms import here

    if card.platform not in {"", here()}:
        raise Fault(
            f"task {card.id} is for {card.platform}, and this host is {here()}",
            kind="platform",
            hint="grade it on a host of its platform, or generate the task here",
            retryable=False,
        )
    image = corpus.image(card.environment)
    found = image.digest if image is not None else ""
    if card.image and card.image != found:
        raise CorpusError(
            f"task {card.id} was proven in image {card.image[7:19]}, and the corpus has"
            f" {found[7:19] or 'none'} for environment {card.environment[:12]}",
            hint="restore the environment's image.json from a copy, or generate the task again",
        )
    return image


def print_verdict(console: Console, verdict: Verdict) -> None:
    """A verdict for people."""
    from rich.markup import escape
    from rich.table import Table

    colour = "green" if verdict.resolved else "red"
    head = f"[bold {colour}]{verdict.outcome}[/]  reward {verdict.reward:g}"
    console.print(f"{head}  {escape(verdict.task)}", highlight=False)
    if verdict.tests:
        table = Table(box=None, pad_edge=False)
        for heading in ("tests", "passed", "not passed", "of"):
            table.add_column(heading, justify="left" if heading == "tests" else "right")
        totals = {"FAIL_TO_PASS": None, "PASS_TO_PASS": verdict.pass_to_pass_total}
        for group, total in totals.items():
            mine = [one for one in verdict.tests if one.group == group]
            passed = sum(one.outcome == "passed" for one in mine)
            of = f"{len(mine)}" if total is None or total == len(mine) else f"{len(mine)} (chosen out of {total})"
            table.add_row(group, str(passed), str(len(mine) - passed), of)
        console.print(table)
    bad = [one for one in verdict.tests if one.outcome != "passed"]
    for one in bad[:10]:
        console.print(f"\n[bold]{one.outcome}[/]  {one.group}  {escape(one.id)}", highlight=False)
        for line in one.reason.rstrip().splitlines()[-8:]:
            console.print(f"    {escape(line)}", highlight=False, soft_wrap=True)
    if len(bad) > 10:
        console.print(f"\n… and {len(bad) - 10} more; --json has all of them")
    for line in verdict.evidence:
        console.print(f"- {escape(line)}", highlight=False, soft_wrap=True)
    for path in verdict.restored:
        console.print(f"- put back as it was: {escape(path)}", highlight=False)
    times = "  ".join(f"{name} {ms:.0f}" for name, ms in verdict.phases.items())
    console.print(f"[dim]ms: {times}; {verdict.sandbox}[/]", highlight=False)
