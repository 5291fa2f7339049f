"""A stream of grades over every task of a corpus, with a warm pool and without, interleaved in blocks.

``python tests/bench/bench_pool.py CORPUS [--sandbox NAME] [--jobs N] [--blocks N] [--block N] [--size N]``: tasks come in
random order, and in groups of 8 of the same task, as a trainer sends them. Prints the pool's hit rate, ms per grade
(p50, p95, of which for having a sandbox), and grades per second of the whole stream. Blocks of both alternate; between
them nothing is being started.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from taskforge.cli.grade import grader_for
from taskforge.corpus import Corpus
from taskforge.grade import Grader, Submission
from taskforge.grade.grading import reference_of
from taskforge.sandbox import backend
from taskforge.sandbox.pool import Pool
from taskforge.settings import Settings

GROUP = 8


def stream(names: list[str], order: str, draw: random.Random) -> Iterator[str]:
    """Task ids without end."""
    while True:
        shuffled = draw.sample(names, len(names))
        yield from shuffled if order == "random" else (name for name in shuffled for _ in range(GROUP))


def settled(pool: Pool) -> None:
    deadline = time.monotonic() + 60
    while pool.stats.starting and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.1)


class Arm:
    """One way of grading, and what it has cost."""

    def __init__(self, pool: Pool, graders: dict[str, Grader], jobs: int) -> None:
        self.pool, self.graders, self.jobs = pool, graders, jobs
        self.grades: list[float] = []
        self.starts: list[float] = []
        self.seconds = 0.0

    def block(self, names: list[str]) -> None:
        began = time.perf_counter()
        with ThreadPoolExecutor(self.jobs) as threads:
            list(threads.map(self.one, range(len(names)), names))
        self.seconds += time.perf_counter() - began

    def one(self, number: int, name: str) -> None:
        grader = self.graders[name]
        reference = number % 2 == 0
        began = time.perf_counter()
        verdict = grader.grade(reference_of(grader.bundle) if reference else Submission.empty())
        self.grades.append(1000 * (time.perf_counter() - began))
        self.starts.append(verdict.phases["start"])
        assert verdict.resolved == reference, verdict

    def told(self, name: str) -> str:
        p95 = statistics.quantiles(self.grades, n=20)[-1]
        return (
            f"  {name:<12} p50 {statistics.median(self.grades):>6.0f}  p95 {p95:>6.0f}"
            f"  having a sandbox p50 {statistics.median(self.starts):>5.0f}"
            f"  grades/s {len(self.grades) / self.seconds:>6.2f}  ({len(self.grades)} grades)"
        )


def measure(order: str, given: argparse.Namespace, place: Corpus, chosen: Any, settings: Settings) -> None:
    names = sorted(place.task_ids())
    environments: dict[str, Any] = {}
    arms: dict[str, Arm] = {}
    size = given.size or given.jobs
    with Pool(chosen, size=0) as without, Pool(chosen, size=size) as warm:
        for label, pool in (("without", without), ("pool", warm)):
            graders = {
                name: grader_for(
                    place, name, pool=pool, backend=chosen, settings=settings, environments=environments
                )
                for name in names
            }
            arms[label] = Arm(pool, graders, given.jobs)
        streams = {label: stream(names, order, random.Random(given.seed)) for label in arms}
        for number in range(given.blocks):
            for label in random.Random(number).sample(sorted(arms), len(arms)):
                arms[label].block([next(streams[label]) for _ in range(given.block)])
                settled(warm)
        stats = warm.stats
    print(f"{order}, {given.jobs} at a time, {chosen.name}: hit rate {stats.hit_rate:.3f}, {stats}")
    for label, arm in arms.items():
        print(arm.told(label))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--sandbox", default="auto")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--size", type=int, default=0, help="of the pool; as many as jobs by default")
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--block", type=int, default=24, help="grades in one block")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    place, chosen = Corpus.open(given.corpus), backend(given.sandbox)
    for order in ("random", f"groups of {GROUP}"):
        measure(order, given, place, chosen, Settings())


if __name__ == "__main__":
    main()
