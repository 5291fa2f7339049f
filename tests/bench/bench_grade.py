"""One grade against bare pytest of the same tests in the same environment, interleaved.

``python tests/bench/bench_grade.py CORPUS [--rounds N] [--task ID]``: prints medians (minimum to maximum) in ms and
ratios. *Cold*: nothing is started ahead. *Warm*: a sandbox of the pool waits, as in a service. *Bare*: a fresh
interpreter runs ``pytest FILES`` with the same ids deselected from nothing, in the same kind of sandbox's environment.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from taskforge.cli.grade import grader_for
from taskforge.corpus import Corpus
from taskforge.grade import Grader
from taskforge.grade.grading import reference_of
from taskforge.grade.submission import apply
from taskforge.sandbox import backend
from taskforge.sandbox.pool import Pool
from taskforge.settings import Settings


def timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - began)


def bare(grader: Grader) -> Callable[[], float]:
    """Milliseconds of ``python -m pytest`` over the required ids, in a sandbox of the same environment."""
    tests = grader.bundle.tests
    ids = [*tests.fail_to_pass, *tests.graded]
    files = list(dict.fromkeys(tests.files[name] for name in ids))
    # As a user would: by file when the files hold nothing else, by id otherwise.
    whole = set(ids) == {name for name, file in tests.files.items() if file in files}
    argv = ["/env/bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *(files if whole else ids)]
    changes = apply(reference_of(grader.bundle), grader.bundle.workspace)

    def once() -> float:
        with grader.pool.backend.start(grader.spec) as sandbox:
            sandbox.lay(changes)
            done = sandbox.exec(argv, timeout=600)
        assert done.returncode == 0, done.output[-2000:]
        return 1000 * done.seconds

    return once


def shown(name: str, values: list[float]) -> str:
    return f"{name:<28}{statistics.median(values):>9.0f} ({min(values):.0f} to {max(values):.0f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--task")
    given = parser.parse_args()
    corpus = Corpus.open(given.corpus)
    task = given.task or min(corpus.task_ids())
    chosen = backend("auto")
    settings = Settings()
    with Pool(chosen, size=0) as cold_pool, Pool(chosen, size=1) as warm_pool:
        cold = grader_for(corpus, task, pool=cold_pool, backend=chosen, settings=settings)
        warm = grader_for(corpus, task, pool=warm_pool, backend=chosen, settings=settings)
        reference = reference_of(cold.bundle)
        plain = bare(cold)
        rows: dict[str, list[float]] = {"grade, cold": [], "grade, warm": [], "bare pytest": []}
        phases: dict[str, dict[str, list[float]]] = {"cold": {}, "warm": {}}
        for _round in range(given.rounds):
            rows["bare pytest"].append(plain())
            for name, grader in (("cold", cold), ("warm", warm)):
                if name == "warm":
                    grader.expect(1)
                    time.sleep(1.0)
                began = time.perf_counter()
                verdict = grader.grade(reference)
                rows[f"grade, {name}"].append(1000 * (time.perf_counter() - began))
                assert verdict.resolved
                for phase, ms in verdict.phases.items():
                    phases[name].setdefault(phase, []).append(ms)
    tests = cold.bundle.tests
    print(f"{task}: {len(tests.fail_to_pass)} FAIL_TO_PASS, {len(tests.graded)} PASS_TO_PASS, {given.rounds} rounds")
    print("ms, median (min to max)")
    for name, values in rows.items():
        print(shown(name, values))
    for name, table in phases.items():
        for phase, values in table.items():
            print(shown(f"  {name}: {phase}", values))
    for name in ("cold", "warm"):
        ratios = [a / b for a, b in zip(rows[f"grade, {name}"], rows["bare pytest"], strict=True)]
        middle, low, high = statistics.median(ratios), min(ratios), max(ratios)
        print(f"ratio {name} / bare pytest: {middle:.2f} ({low:.2f} to {high:.2f})")


if __name__ == "__main__":
    main()
