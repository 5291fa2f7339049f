"""``taskforge demo``: the main job on a real release, in under two minutes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from taskforge.corpus.bundle import Bundle
    from taskforge.grade import Submission

__all__ = ["demo"]

SOURCE = "pypi:h11==0.16.0"


def demo(
    out: Annotated[Path, typer.Option("--out", help="Where the corpus goes.")] = Path("demo-corpus"),
    tasks: Annotated[int, typer.Option("--max", min=1, help="Tasks to make.")] = 5,
    sandbox: Annotated[str | None, typer.Option(help="bubblewrap, docker or auto.")] = None,
) -> None:
    """Make tasks from a real release, show one, and grade three submissions to it."""
    from taskforge.cli.common import console
    from taskforge.cli.generate import print_report
    from taskforge.cli.grade import grader_for, print_verdict
    from taskforge.cli.watching import watching
    from taskforge.corpus import Corpus
    from taskforge.errors import Fault
    from taskforge.generate.pipeline import Options, generate
    from taskforge.grade import Submission
    from taskforge.grade.grading import reference_of
    from taskforge.model import Policy, Source
    from taskforge.sandbox import backend
    from taskforge.sandbox.pool import Pool
    from taskforge.settings import Settings

    settings = Settings()
    chosen = backend(sandbox or settings.sandbox)
    show = console()
    show.rule(f"1. Tasks from {SOURCE}, in {chosen.name}")
    with watching() as watch:
        report = generate(
            Source.parse(SOURCE), out, Options(max_tasks=tasks, jobs=settings.jobs), settings=settings, backend=chosen,
            watch=watch,
        )  # fmt: skip
    print_report(show, report, out)
    corpus = Corpus.open(out)
    with Pool(chosen, size=1) as pool:
        graders = [
            grader_for(corpus, name, pool=pool, backend=chosen, settings=settings) for name in report.tasks
        ]
        grader, half = _with_half(graders)
        _show_task(show, grader.bundle)
        wanted = (
            ("the empty submission", Submission.empty(), 0.0),
            ("the reference", reference_of(grader.bundle), 1.0),
            ("a half-right one", half, 0.0),
        )
        for number, (what, submission, reward) in enumerate(wanted, 3):
            show.print()
            show.rule(f"{number}. Grading {what}")
            if what == "a half-right one":
                show.print(_indented(submission.data), highlight=False, markup=False)
            verdict = grader.grade(submission, Policy())
            print_verdict(show, verdict)
            if verdict.reward != reward:
                raise Fault(f"{what} earned {verdict.reward:g} instead of {reward:g}", kind="demo", retryable=False)
    show.print()
    show.print(f"The corpus lies in {out}. Try:", highlight=False)
    # As it was started: it need not be on PATH.
    program = sys.argv[0]
    show.print(f"  {program} list {out}", highlight=False, soft_wrap=True)
    show.print(f"  {program} grade {grader.card.id} --corpus {out} --reference", highlight=False, soft_wrap=True)


def _with_half(graders: list[Any]) -> tuple[Any, Submission]:
    """A grader, and a submission to it that passes some of the required tests but not all.

    Found by trying, with the grader itself: the reference cut off after each of its statements.
    """
    from taskforge.errors import Fault
    from taskforge.model import Policy

    for grader in graders:
        for submission in _cut(grader.bundle):
            verdict = grader.grade(submission, Policy(reward="fraction"))
            if 0 < verdict.reward < 1:
                return grader, submission
    raise Fault("no task of the demo has a half-right submission", kind="demo", retryable=False)


def _cut(bundle: Bundle) -> list[Submission]:
    """The reference without one of its added lines, for each line; those that do not parse are left out."""
    from taskforge.generate.patches import patch_between
    from taskforge.grade import Submission
    from taskforge.grade.grading import reference_of
    from taskforge.grade.submission import apply
    from taskforge.model import Entry

    changes = apply(reference_of(bundle), bundle.workspace)
    found = []
    for path, entry in changes.items():
        before = bundle.workspace.get(path)
        if entry is None or before is None:
            continue
        kept = set(before.data.splitlines())
        lines = entry.data.splitlines(keepends=True)
        for number, line in enumerate(lines):
            if line.strip() and line.rstrip(b"\r\n") not in kept:
                data = b"".join(lines[:number] + lines[number + 1 :])
                try:
                    compile(data, path, "exec", dont_inherit=True)
                except SyntaxError:
                    continue
                found.append(Submission.patch(patch_between({path: before}, {path: Entry(data, entry.kind)})))
    return found[:12]


def _show_task(show: Console, bundle: Bundle) -> None:
    show.print()
    show.rule(f"2. One of them: {bundle.card.id}")
    show.print(bundle.statement, highlight=False, markup=False)
    show.print("What was deleted:", highlight=False, style="bold")
    show.print(_indented(bundle.removal_patch), highlight=False, markup=False)


def _indented(patch: bytes) -> str:
    lines = patch.decode("utf-8", "replace").splitlines()
    return "\n".join("    " + line for line in lines if not line.startswith(("diff ", "index ")))
