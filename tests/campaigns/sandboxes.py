"""``make campaign-sandboxes``: what a grade costs in either sandbox beside ``docker run`` by hand, how near a stream of
grades comes to what the daemon can do, and whether both sandboxes say the same of every task. Interrupted and run again
it resumes: corpora lie in ``.campaign/sandboxes``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from taskforge.cli.grade import grader_for
from taskforge.corpus import Corpus
from taskforge.grade import Submission
from taskforge.grade.grading import reference_of
from taskforge.sandbox import backend
from taskforge.sandbox.pool import Pool
from taskforge.settings import Settings
from tests.campaigns import reporting

#: Source, tasks wanted, rounds of the benchmark, grades of the stream.
SOURCES: tuple[tuple[str, int, int, int], ...] = (
    ("pypi:h11==0.16.0", 20, 7, 40),
    ("pypi:glom==25.12.0", 10, 5, 20),
)
SANDBOXES = ("bubblewrap", "docker")


def taskforge(*argv: str) -> str:
    done = subprocess.run([sys.executable, "-m", "taskforge", *argv], stdout=subprocess.PIPE, check=False)
    assert done.returncode in (0, 1), done
    return done.stdout.decode()


def verdicts(corpus: Corpus, sandbox: str) -> dict[str, tuple[object, ...]]:
    """Outcome, reward and the outcome of every test, by what was graded: reference and nothing, for all tasks."""
    chosen, settings = backend(sandbox), Settings()
    environments: dict[str, object] = {}
    told: dict[str, tuple[object, ...]] = {}
    with Pool(chosen, size=1) as pool:
        for task in corpus.task_ids():
            grader = grader_for(
                corpus, task, pool=pool, backend=chosen, settings=settings, environments=environments
            )
            for name, given in (("reference", reference_of(grader.bundle)), ("empty", Submission.empty())):
                verdict = grader.grade(given)
                tests = tuple((test.id, test.outcome) for test in verdict.tests)
                told[f"{task}, {name}"] = (verdict.outcome, verdict.reward, tests)
    return told


def one(source: str, wanted: int, rounds: int, count: int, out: Path) -> str:
    taskforge("generate", source, "--out", str(out), "--json", "--max", str(wanted), "--sandbox", "docker")
    corpus = Corpus.open(out)
    bubblewrap, docker = (verdicts(corpus, name) for name in SANDBOXES)
    assert bubblewrap.keys() == docker.keys()
    same = sum(bubblewrap[name] == docker[name] for name in bubblewrap)
    other = [name for name in bubblewrap if bubblewrap[name] != docker[name]]
    resolved = sum(verdict[0] == "resolved" for verdict in docker.values())
    argv = [sys.executable, str(reporting.ROOT / "tests/bench/bench_sandboxes.py"), str(out)]
    done = subprocess.run([*argv, "--rounds", str(rounds), "--stream", str(count)], stdout=subprocess.PIPE, check=True)
    rows: list[list[object]] = [
        ["submissions graded in both (reference and empty of each task)", len(bubblewrap)],
        ["resolved, in docker", resolved],
        ["**same outcome, reward and outcome of each test**", same],
    ]
    return "\n\n".join(
        [
            f"## {source}",
            reporting.table(["", "count"], rows),
            *([f"Different: {', '.join(other)}"] if other else []),
            f"```\n{done.stdout.decode().strip()}\n```",
        ]
    )


def main() -> None:
    work = reporting.ROOT / ".campaign" / "sandboxes"
    parts = [one(*planned, work / planned[0].split(":")[1].split("=")[0]) for planned in SOURCES]
    print(reporting.write("sandboxes", "make campaign-sandboxes", "\n\n".join(parts)))


if __name__ == "__main__":
    main()
