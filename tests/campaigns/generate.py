"""``make campaign-generate``: two real releases through the whole flow, one grade against bare pytest, and a sample's
tasks validated again. Interrupted and run again it resumes: corpora lie in ``.campaign/generate``."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from tests.campaigns import reporting

#: Source, tasks wanted (None: every candidate is tried), rounds of the benchmark.
SOURCES: tuple[tuple[str, int | None, int], ...] = (
    ("pypi:more-itertools==11.2.1", 6, 3),
    ("pypi:glom==25.12.0", None, 9),
)
RUNS = 2


def taskforge(*argv: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, "-m", "taskforge", *argv], stdout=subprocess.PIPE, check=False)
    return done.returncode, done.stdout.decode()


def one(source: str, wanted: int | None, rounds: int, out: Path) -> str:
    limit = [] if wanted is None else ["--max", str(wanted)]
    began = time.monotonic()
    code, text = taskforge("generate", source, "--out", str(out), "--json", *limit)
    assert code == 0, text
    seconds = time.monotonic() - began
    report = json.loads(text)
    rows: list[list[object]] = [
        ["tests (stable)", f"{report['tests']} ({report['stable_tests']})"],
        ["functions", report["symbols"]],
        *([f"passed over: {reason}", count] for reason, count in report["passed_over"].items()),
        ["candidates", report["candidates"]],
        ["tried", report["tried"]],
        ["**tasks**", len(report["tasks"])],
        *([f"rejected: {reason}", count] for reason, count in report["rejections"].items()),
        ["Python", report["python"]],
        ["seconds of this command (known results are not made again)", f"{seconds:.0f}"],
    ]
    stages = [[name, f"{row['wall']:.1f}", f"{row['cpu']:.1f}"] for name, row in report["stages"].items()]
    stages.append(["sum", *(f"{sum(row[what] for row in report['stages'].values()):.1f}" for what in ("wall", "cpu"))])
    again = "not run for a whole repository" if wanted is None else _validated(out)
    text = _bench(out, rounds)
    return "\n\n".join(
        [
            f"## {source}",
            reporting.table(["", "count"], rows),
            "Seconds by stage, added up over two candidates at a time:",
            reporting.table(["stage", "wall s", "CPU s"], stages),
            f"`taskforge validate --runs {RUNS}`: {again}",
            "One grade of the reference, and bare pytest of the same tests, interleaved:",
            f"```\n{text.strip()}\n```",
        ]
    )


def _validated(out: Path) -> str:
    began = time.monotonic()
    _code, text = taskforge("validate", str(out), "--runs", str(RUNS), "--json")
    proof = json.loads(text)
    bad = Counter(str(result["reason"]) for result in proof["results"] if not result["holds"])
    seconds = time.monotonic() - began
    said = f"{proof['hold']} of {proof['tasks']} tasks hold on {RUNS} more references each ({seconds:.0f} s)"
    return said + (f"; not: {dict(bad)}" if bad else "")


def _bench(out: Path, rounds: int) -> str:
    argv = [sys.executable, str(reporting.ROOT / "tests/bench/bench_grade.py"), str(out), "--rounds", str(rounds)]
    done = subprocess.run(argv, stdout=subprocess.PIPE, check=True)
    return done.stdout.decode()


def main() -> None:
    work = reporting.ROOT / ".campaign" / "generate"
    parts = [one(*planned, work / planned[0].split(":")[1].split("=")[0]) for planned in SOURCES]
    print(reporting.write("generate", "make campaign-generate", "\n\n".join(parts)))


if __name__ == "__main__":
    main()
