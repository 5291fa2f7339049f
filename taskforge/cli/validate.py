"""``taskforge validate``: prove every task of a corpus again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from taskforge.grade import Grader

__all__ = ["validate"]


def validate(
    corpus: Annotated[Path, typer.Argument(help="The corpus.")],
    runs: Annotated[int, typer.Option(min=1, help="Times that each reference must be resolved.")] = 3,
    full: Annotated[bool, typer.Option("--full", help="Run every PASS_TO_PASS, not only the chosen ones.")] = False,
    jobs: Annotated[int | None, typer.Option(min=1, help="Tasks at a time; one for each core by default.")] = None,
    sandbox: Annotated[str | None, typer.Option(help="bubblewrap, docker or auto.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Prove every task again: the empty submission fails, the reference passes each time. Exit code 1 if one does not
    hold, 4 if one could not be tried."""
    from concurrent.futures import ThreadPoolExecutor

    from taskforge.cli.common import console, print_json
    from taskforge.cli.grade import grader_for
    from taskforge.cli.watching import watching
    from taskforge.corpus import Corpus
    from taskforge.errors import UsageError
    from taskforge.sandbox import backend
    from taskforge.sandbox.pool import Pool
    from taskforge.settings import Settings

    settings = Settings()
    chosen = backend(sandbox or settings.sandbox)
    place = Corpus.open(corpus)
    names = list(place.task_ids())
    if not names:
        raise UsageError(f"{corpus} has no tasks to prove", hint="make some with `taskforge generate`")
    environments: dict[str, object] = {}
    with watching(quiet=as_json) as watch, Pool(chosen, size=jobs or settings.jobs) as pool:
        watch.stage("validate", len(names))

        def one(name: str) -> dict[str, object]:
            return _proven(
                lambda: grader_for(
                    place, name, pool=pool, backend=chosen, settings=settings, environments=environments
                ),
                name,
                runs=runs,
                full=full,
            )

        try:
            with ThreadPoolExecutor(max_workers=jobs or settings.jobs) as threads:
                results = []
                for result in threads.map(one, names):
                    results.append(result)
                    watch.step(str(result["task"]))
                    if not result["holds"]:
                        watch.log(f"{result['task']}: {result['reason']}: {result['message']}")
        except BaseException:
            pool.abort()
            raise
    held = sum(result["holds"] is True for result in results)
    if as_json:
        print_json({"tasks": len(results), "hold": held, "runs": runs, "results": results})
    else:
        console().print(f"{held} of {len(results)} tasks hold: empty failed, reference resolved {runs} times each")
    if any(result["holds"] is False for result in results):
        raise typer.Exit(1)
    if any(result["holds"] is None for result in results):
        raise typer.Exit(4)


def _proven(grader: Callable[[], Grader], name: str, *, runs: int, full: bool) -> dict[str, object]:
    """What became of one task; ``holds`` is None when it could not be tried."""
    from taskforge.errors import TaskforgeError, TaskRejected
    from taskforge.generate.validate import prove

    try:
        made = grader()
        proof = prove(
            made.bundle, environment=made.environment, pool=made.pool, limits=made.spec.limits, runs=runs, full=full
        )
    except TaskRejected as rejection:
        return {"task": name, "holds": False, "reason": rejection.reason, "message": str(rejection)}
    except TaskforgeError as error:
        return {"task": name, "holds": None, "reason": type(error).__name__, "message": str(error)}
    return {"task": name, "holds": True, **proof}
