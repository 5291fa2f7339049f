"""``make campaign-deletion``: every listed Python repository in every mode: what tests enter, what is eligible, what
becomes a task, and why not. A sample of candidates of each, in the order that generation has for them.

``python -m tests.campaigns.deletion [NAME …]`` runs those alone, and keeps what is known of the others. Interrupted and
run again it resumes: corpora lie in ``.campaign/deletion``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from taskforge.cli.grade import grader_for
from taskforge.corpus import Corpus
from taskforge.errors import TaskRejected
from taskforge.generate.validate import prove
from taskforge.sandbox import backend
from taskforge.sandbox.pool import Pool
from taskforge.settings import Settings
from tests.campaigns import reporting

MODES = ("stub", "remove", "module", "cluster")
#: Release -> tasks wanted of all modes together. Fewer where the suite takes a minute and more.
RELEASES: dict[str, int] = {
    "arrow==1.4.0": 8, "attrs==26.1.0": 8, "boltons==26.2.0": 16, "glom==25.12.0": 24, "h11==0.16.0": 24,
    "humanize==4.17.0": 16, "idna==3.20": 8, "inflect==7.6.0": 16, "iniconfig==2.3.1": 16, "markdown==3.11.3": 16,
    "marshmallow==4.4.0": 16, "more-itertools==11.2.1": 8, "msgpack==1.2.4": 16, "packaging==26.4": 4,
    "parso==0.8.7": 16, "pyyaml==6.0.4": 16, "simplejson==4.3.0": 16, "sqlparse==0.6.1": 16, "starlette==1.10.0": 8,
    "tinydb==4.9.0": 24, "voluptuous==0.16.0": 24, "webob==1.8.11": 16, "wrapt==2.5.2": 16,
}  # fmt: skip
DEADLINE = 1800.0
#: Validations again of one task of each mode.
RUNS = 5


def generated(release: str, wanted: int, work: Path) -> dict[str, Any]:
    """What ``taskforge generate`` told at its end, or how it ended; kept for the next run."""
    name = release.split("==", maxsplit=1)[0]
    kept = work / f"{name}.json"
    if kept.exists():
        found: dict[str, Any] = json.loads(kept.read_text())
        return found
    began = time.monotonic()
    argv = ["generate", f"pypi:{release}", "--out", str(work / name), "--mode", "all", "--max", str(wanted), "--json"]
    try:
        done = subprocess.run([sys.executable, "-m", "taskforge", *argv], capture_output=True, timeout=DEADLINE, check=False)
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {DEADLINE:.0f} s; run again to go on"}
    if done.returncode:
        told: dict[str, Any] = {"failed": done.stderr.decode(errors="replace").strip().partition("error: ")[2][:400]}
    else:
        told = json.loads(done.stdout)
        told["again"] = _again(work / name, told["tasks"])
    told["seconds"] = round(time.monotonic() - began)
    kept.write_text(json.dumps(told))
    return told


def _again(corpus: Path, tasks: list[str]) -> list[int]:
    """How many of the tasks that were tried hold on some more references: the first of each mode."""
    first: dict[str, str] = {}
    for task in tasks:
        first.setdefault(task.split(".")[-1].split("-")[0], task)
    chosen, settings, place = backend("auto"), Settings(), Corpus.open(corpus)
    hold = 0
    with Pool(chosen, size=1) as pool:
        for task in first.values():
            grader = grader_for(place, task, pool=pool, backend=chosen, settings=settings)
            try:
                prove(grader.bundle, environment=grader.environment, pool=pool, limits=grader.spec.limits, runs=RUNS)
                hold += 1
            except TaskRejected as rejection:
                print(f"{task} does not hold: {rejection}", flush=True)
    return [hold, len(first)]


def row(release: str, told: dict[str, Any]) -> list[object]:
    if "failed" in told:
        return [release, f"none: {told['failed'].splitlines()[0]}", *[""] * 8]
    cells = []
    for mode in MODES:
        tried, made = told["tried_by_mode"].get(mode, 0), told["tasks_by_mode"].get(mode, 0)
        cells.append(f"{made} of {tried} ({told['eligible'].get(mode, 0)})")
    hold, asked = told["again"]
    return [
        release, f"{told['stable_tests']} of {told['tests']}", told["symbols"], told["entered"], *cells,
        f"{hold} of {asked}", told["seconds"],
    ]  # fmt: skip


def main() -> None:
    work = reporting.ROOT / ".campaign" / "deletion"
    work.mkdir(parents=True, exist_ok=True)
    named = sys.argv[1:]
    told: dict[str, dict[str, Any]] = {}
    for release, wanted in RELEASES.items():
        name = release.split("==")[0]
        if (work / f"{name}.json").exists() or not named or name in named:
            told[release] = generated(release, wanted, work)
            print(release, told[release].get("tasks_by_mode", told[release].get("failed")), flush=True)
    print(reporting.write("deletion", "make campaign-deletion", report(told)))


def report(told: dict[str, dict[str, Any]]) -> str:
    made, tried, reasons, passed = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    modes: dict[str, Counter[str]] = {mode: Counter() for mode in MODES}
    for one in told.values():
        made.update(one.get("tasks_by_mode", {}))
        tried.update(one.get("tried_by_mode", {}))
        reasons.update(one.get("rejections", {}))
        passed.update(one.get("passed_over", {}))
        for rejected in one.get("rejected", ()):
            modes[rejected["mode"]][rejected["reason"]] += 1
    left = [release for release in RELEASES if release not in told]
    heads = ["release", "stable tests", "units", "entered", *(f"{mode} (eligible)" for mode in MODES), "hold", "s"]
    sums = [
        [mode, made[mode], tried[mode], f"{100 * made[mode] / max(1, tried[mode]):.0f} %",
         ", ".join(f"{reason} {count}" for reason, count in modes[mode].most_common())]
        for mode in MODES
    ]  # fmt: skip
    return "\n\n".join([
        "Tasks of candidates tried, and in brackets how many were eligible; *hold* is validation again of the first task of"
        f" each mode, {RUNS} references each.",
        reporting.table(heads, [row(release, one) for release, one in told.items()]),
        "## By mode",
        reporting.table(["mode", "**tasks**", "tried", "share", "rejected"], sums),
        "## Passed over before anything ran",
        reporting.table(["reason", "units and modes"], [[reason, count] for reason, count in passed.most_common()]),
        *([f"Not run: {', '.join(left)}."] if left else []),
    ])  # fmt: skip


if __name__ == "__main__":
    main()
