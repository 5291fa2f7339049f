"""Each campaign's report is there and complete: what the README and the notes claim was measured."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

from taskforge.sandbox import BACKENDS
from tests.campaigns import generate, sandbox_timeouts, sandboxes

REPORTS = Path(__file__).parents[1] / "reports"


def test_the_report_of_generation_is_complete() -> None:
    text = (REPORTS / "generate.md").read_text()
    assert re.search(r"^- date: \d{4}-\d\d-\d\d$", text, re.MULTILINE)
    assert re.search(r"^- commit: [0-9a-f]{12}$", text, re.MULTILINE), "measure a commit, without changes on top"
    assert "- command: `make campaign-generate`" in text
    parts = text.split("\n## ")[1:]
    assert [part.splitlines()[0] for part in parts] == [source for source, _wanted, _rounds in generate.SOURCES]
    for part in parts:
        assert re.search(r"^\| \*\*tasks\*\* \| [1-9]\d* \|$", part, re.MULTILINE)
        for stage in ("acquire", "environment", "test map", "validate", "leaks", "grade", "sum"):
            assert re.search(rf"^\| {stage} \| [\d.]+ \| [\d.]+ \|$", part, re.MULTILINE), stage
        assert re.search(r"ratio warm / bare pytest: [\d.]+ ", part)


def test_the_report_of_timeouts_is_complete() -> None:
    text = (REPORTS / "sandbox_timeouts.md").read_text()
    assert re.search(r"^- commit: [0-9a-f]{12}$", text, re.MULTILINE), "measure a commit, without changes on top"
    assert "- command: `make campaign-sandbox_timeouts`" in text
    parts = text.split("\n## ")[1:]
    assert [part.splitlines()[0] for part in parts] == sorted(BACKENDS)
    for part in parts:
        rows = [line.strip("| ").split(" | ") for line in part.splitlines()[4:]]
        assert [row[0] for row in rows] == list(sandbox_timeouts.PARTS)
        assert [int(row[1]) for row in rows] == [0, sandbox_timeouts.COUNT, sandbox_timeouts.COUNT]
        assert {word for row in rows for word in row[2:-2]} == {"0"}
        memory = [float(row[-2]) for row in rows]
        assert all(after - before < sandbox_timeouts.GROWTH for before, after in itertools.pairwise(memory))


def test_the_report_of_sandboxes_is_complete() -> None:
    text = (REPORTS / "sandboxes.md").read_text()
    assert re.search(r"^- commit: [0-9a-f]{12}$", text, re.MULTILINE), "measure a commit, without changes on top"
    assert "- command: `make campaign-sandboxes`" in text
    parts = text.split("\n## ")[1:]
    assert [part.splitlines()[0] for part in parts] == [source for source, *_rest in sandboxes.SOURCES]
    for part in parts:
        rows = {cells[0].strip("* "): int(cells[1]) for cells in re.findall(r"^\| (.*?) \| (\d+) \|$", part, re.MULTILINE)}
        graded = rows["submissions graded in both (reference and empty of each task)"]
        assert graded >= 10
        assert rows["same outcome, reward and outcome of each test"] == graded
        assert rows["resolved, in docker"] == graded // 2
        for name in ("bubblewrap, cold", "bubblewrap, warm", "docker, cold", "docker, warm"):
            assert re.search(rf"^ratio {name} / plain docker: [\d.]+ ", part, re.MULTILINE), name
        assert re.search(r"^share of the daemon's ceiling: [\d.]+ ", part, re.MULTILINE)
        assert len(re.findall(r"^pool of the last stream, \w+: PoolStats", part, re.MULTILINE)) == len(BACKENDS)
        assert re.search(r"^image of environment \w+: \d+ bytes in 2 layers$", part, re.MULTILINE)
        assert re.search(r"^\d+ bytes a task on disk", part, re.MULTILINE)
