"""Reports of campaigns: dated, with the commit they measured and the machine they ran on."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[2]
REPORTS = ROOT / "tests" / "reports"


def commit() -> str:
    """The commit of the tree, marked when files differ from it."""
    head = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, check=True)
    dirty = subprocess.run(["git", "status", "--porcelain", "-uno"], cwd=ROOT, capture_output=True, check=True)
    return head.stdout.decode().strip() + (" (with changes)" if dirty.stdout.strip() else "")


def machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**30
    return f"{os.cpu_count()} cores, {memory} GiB, {platform.system()} {platform.machine()}"


def write(name: str, command: str, body: str) -> Path:
    """Write ``tests/reports/NAME.md``; a new run replaces the old report."""
    REPORTS.mkdir(parents=True, exist_ok=True)
    today = datetime.now(UTC).date().isoformat()
    head = f"# Campaign {name}\n\n- date: {today}\n- commit: {commit()}\n- machine: {machine()}\n- command: `{command}`\n"
    path = REPORTS / f"{name}.md"
    path.write_text(f"{head}\n{body.rstrip()}\n")
    return path


def table(headings: list[str], rows: list[list[object]]) -> str:
    lines = ["| " + " | ".join(headings) + " |", "| " + " | ".join("---" for _ in headings) + " |"]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)
