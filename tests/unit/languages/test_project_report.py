"""The report of the campaign over the standard library is there and complete."""

from __future__ import annotations

import re
from pathlib import Path

REPORT = Path(__file__).parents[2] / "reports" / "lib.md"


def test_the_report_of_the_library_is_complete() -> None:
    text = REPORT.read_text()
    assert re.search(r"^- date: \d{4}-\d\d-\d\d$", text, re.MULTILINE)
    assert re.search(r"^- commit: [0-9a-f]{12}$", text, re.MULTILINE), "measure a commit, without changes on top"
    assert "- command: `make campaign-lib`" in text
    alone, whole = text.split("\n## ")[1:]
    for part, fewest in ((alone, 200), (whole, 1000)):
        rows = dict(re.findall(r"^\| ([\w ]+) \| (\d+) \|$", part, re.MULTILINE))
        assert int(rows["files"]) >= fewest
        assert int(rows["done"]) > int(rows["skipped"])
        assert (rows["crashed"], rows["does not compile"]) == ("0", "0")
        assert re.search(r"^\| (stub|remove): \w+ \| \d+ \|$", part, re.MULTILINE)
