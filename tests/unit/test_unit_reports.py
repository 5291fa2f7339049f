"""Each campaign's report is there and complete: what the README and the notes claim was measured."""

from __future__ import annotations

import re
from pathlib import Path

from tests.campaigns import generate

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
