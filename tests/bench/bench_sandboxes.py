"""Both sandboxes against what a user would run without taskforge, interleaved.

``python tests/bench/bench_sandboxes.py CORPUS [--rounds N] [--stream N] [--task ID]``. Rows, in ms, median (minimum to maximum):

* *plain docker*: ``docker run --rm -i --network none IMAGE``, in it ``git apply`` of the reference from standard input,
  then ``pytest`` of the files that hold the required tests. The image holds workspace, tests and history ready made.
* *cold*: a grade with nothing started ahead. *warm*: a sandbox of the pool waits.

Then a stream: the references of all tasks, ``--jobs`` at a time, through one pool; its hit rate; and the rate at which
the daemon creates, starts and removes containers that do nothing, which no grader with a container for each submission
can pass. Last, bytes.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import random
import statistics
import subprocess
import tarfile
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from taskforge.cli.grade import grader_for
from taskforge.corpus import Corpus
from taskforge.generate.seal import git_workspace
from taskforge.grade import Grader
from taskforge.grade.grading import reference_of
from taskforge.sandbox import BACKENDS, Backend, backend
from taskforge.sandbox.payload import variables_of
from taskforge.sandbox.pool import Pool
from taskforge.settings import Settings


def timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - began)


def shown(name: str, values: list[float]) -> str:
    return f"{name:<34}{statistics.median(values):>9.1f} ({min(values):.1f} to {max(values):.1f})"


@contextlib.contextmanager
def plain_image(docker: Any, grader: Grader) -> Iterator[str]:
    """An image as a benchmark without taskforge has it: environment, workspace and tests in one."""
    api = docker.daemon.client.api
    parent = docker.images.ensure(grader.environment, tools=False)
    name = f"taskforge-bench:{uuid.uuid4().hex[:12]}"
    made = api.create_container_from_config({"Image": parent, "Entrypoint": ["/bin/true"], "Cmd": []})["Id"]
    try:
        with tempfile.TemporaryDirectory() as folder:
            git_workspace(grader.bundle.graded_tree.with_changes(dict(grader.environment.overlay)), Path(folder, "w"))
            packed = io.BytesIO()
            with tarfile.open(fileobj=packed, mode="w") as archive:
                archive.add(Path(folder, "w"), "workspace")
        api.put_archive(made, "/", packed.getvalue())
        api.commit(made, *name.split(":"))
    finally:
        api.remove_container(made, force=True)
    try:
        yield name
    finally:
        api.remove_image(name, force=True)


def plain(grader: Grader, image: str) -> Callable[[], float]:
    """Milliseconds of one grade by hand."""
    tests = grader.bundle.tests
    files = list(dict.fromkeys(tests.files[name] for name in (*tests.fail_to_pass, *tests.graded)))
    script = "cd /workspace && git apply - && exec /env/bin/python -m pytest -q -p no:cacheprovider " + " ".join(files)
    # What the environment says in a sandbox, an image of one's own would say by ENV.
    told = [word for name, value in variables_of(grader.spec).items() for word in ("--env", f"{name}={value}")]
    argv = ["docker", "run", "--rm", "-i", "--network", "none", *told, "--entrypoint", "/bin/sh", image, "-c", script]

    def once() -> float:
        began = time.perf_counter()
        done = subprocess.run(argv, input=grader.bundle.reference_patch, capture_output=True, timeout=600, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return 1000 * (time.perf_counter() - began)

    return once


def interleaved(corpus: Corpus, task: str, rounds: int, docker: Any, settings: Settings) -> None:
    rows: dict[str, list[float]] = {"plain docker": []}
    phases: dict[str, dict[str, list[float]]] = {}
    with contextlib.ExitStack() as stack:
        graders: dict[str, Grader] = {}
        for name in BACKENDS:
            chosen: Backend = docker if name == "docker" else backend(name)
            for size, how in ((0, "cold"), (1, "warm")):
                pool = stack.enter_context(Pool(chosen, size=size))
                graders[f"{name}, {how}"] = grader_for(corpus, task, pool=pool, backend=chosen, settings=settings)
        image = stack.enter_context(plain_image(docker, graders["docker, cold"]))
        by_hand = plain(graders["docker, cold"], image)
        for number in range(rounds + 1):
            figures = {"plain docker": by_hand()}
            for name, grader in graders.items():
                if name.endswith("warm"):
                    grader.expect(1)
                    time.sleep(1.0)
                began = time.perf_counter()
                verdict = grader.grade(reference_of(grader.bundle))
                figures[name] = 1000 * (time.perf_counter() - began)
                assert verdict.resolved, verdict
                if number:
                    for phase, ms in verdict.phases.items():
                        phases.setdefault(name, {}).setdefault(phase, []).append(ms)
            if number:  # The first round warms the disk's cache.
                for name, ms in figures.items():
                    rows.setdefault(name, []).append(ms)
        tests = graders["docker, cold"].bundle.tests
    print(f"{task}: {len(tests.fail_to_pass)} FAIL_TO_PASS, {len(tests.graded)} PASS_TO_PASS, {rounds} rounds")
    for name, values in rows.items():
        print(shown(name, values))
        for phase, found in phases.get(name, {}).items():
            print(shown(f"    {phase}", found))
    for name, values in rows.items():
        if name != "plain docker":
            ratios = [a / b for a, b in zip(values, rows["plain docker"], strict=True)]
            middle, low, high = statistics.median(ratios), min(ratios), max(ratios)
            print(f"ratio {name} / plain docker: {middle:.2f} ({low:.2f} to {high:.2f})")


def ceiling(docker: Any, grader: Grader, count: int, jobs: int) -> float:
    """Containers a second that the daemon creates, starts and removes, ``jobs`` at a time."""
    api = docker.daemon.client.api
    image = docker.images.ensure(grader.environment, tools=False)

    def once(_number: int) -> None:
        config = {
            "Image": image, "Entrypoint": ["/bin/true"], "Cmd": [], "NetworkDisabled": True,
            "HostConfig": {"NetworkMode": "none", "LogConfig": {"Type": "none", "Config": {}}},
        }  # fmt: skip
        made = api.create_container_from_config(config)["Id"]
        api.start(made)
        api.remove_container(made, force=True)

    began = time.perf_counter()
    with ThreadPoolExecutor(jobs) as threads:
        list(threads.map(once, range(count)))
    return count / (time.perf_counter() - began)


def stream(corpus: Corpus, chosen: Backend, count: int, jobs: int, settings: Settings) -> tuple[float, str]:
    """Grades a second of references in random order, as from many trainers; and what the pool counted."""
    environments: dict[str, Any] = {}
    with Pool(chosen, size=jobs) as pool:
        graders = {
            task: grader_for(
                corpus, task, pool=pool, backend=chosen, settings=settings, environments=environments
            )
            for task in corpus.task_ids()
        }
        order = random.Random(0).choices(sorted(graders), k=count)

        def once(task: str) -> None:
            verdict = graders[task].grade(reference_of(graders[task].bundle))
            assert verdict.resolved, verdict

        began = time.perf_counter()
        with ThreadPoolExecutor(jobs) as threads:
            list(threads.map(once, order))
        rate = count / (time.perf_counter() - began)
        return rate, str(pool.stats)


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--stream", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--task")
    given = parser.parse_args()
    corpus, settings = Corpus.open(given.corpus), Settings()
    docker: Any = backend("docker")
    task = given.task or min(corpus.task_ids())
    interleaved(corpus, task, given.rounds, docker, settings)
    with Pool(docker, size=0) as pool:
        grader = grader_for(corpus, task, pool=pool, backend=docker, settings=settings)
    rates: dict[str, list[float]] = {"containers that do nothing": [], **{f"grades, {name}": [] for name in BACKENDS}}
    told: dict[str, str] = {}
    for _ in range(3):
        rates["containers that do nothing"].append(ceiling(docker, grader, given.stream, given.jobs))
        for name in BACKENDS:
            chosen = docker if name == "docker" else backend(name)
            rate, told[name] = stream(corpus, chosen, given.stream, given.jobs, settings)
            rates[f"grades, {name}"].append(rate)
    print(f"\na second, {given.jobs} at a time, {given.stream} each, {len(corpus.task_ids())} tasks in random order")
    for name, values in rates.items():
        print(shown(name, values))
    shares = [a / b for a, b in zip(rates["grades, docker"], rates["containers that do nothing"], strict=True)]
    print(f"share of the daemon's ceiling: {statistics.median(shares):.2f} ({min(shares):.2f} to {max(shares):.2f})")
    for name, text in told.items():
        print(f"pool of the last stream, {name}: {text}")
    image = docker.images.facts(docker.images.ensure(grader.environment, tools=False))
    count = len(corpus.task_ids())
    own = sum(size_of(corpus.path / half / "tasks") for half in ("public", "sealed"))
    print(f"\nimage of environment {grader.environment.digest[:12]}: {image.size} bytes in {len(image.layers)} layers")
    print(f"its environment alone: {size_of(grader.environment.root)} bytes of files")
    print(f"{own // count} bytes a task on disk, both halves, {count} tasks, beyond environment and snapshot")


if __name__ == "__main__":
    main()
