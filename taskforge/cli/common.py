"""What commands share: how they print, and where they write."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["console", "file_to_write", "print_json"]


def console(*, least: int = 0) -> Console:
    """A console on standard output, ``least`` columns wide whatever the terminal has: it wraps what is longer.

    Where standard output is no terminal, lines are not cut to a terminal's width.
    """
    from rich.console import Console

    found = Console(width=None if sys.stdout.isatty() else max(160, least), highlight=False)
    return Console(width=least, highlight=False) if found.width < least else found


def print_json(data: Any) -> None:
    """One JSON document on standard output, ASCII, so that ids which are not UTF-8 survive."""
    sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=True) + "\n")


def file_to_write(path: Path, option: str) -> Path:
    """Where a file that the caller named will be, asked before the work that it is for; a link stays one.

    Args:
        option: what the caller may name another file with.

    Raises:
        UsageError: when something is there that is no file. A write moves a new file into the old one's place, which
            would take ``/dev/null`` from the whole machine.
        StoreFault: when nothing can be written there.
    """
    from taskforge.corpus.atomic import store_fault
    from taskforge.errors import UsageError

    target = path.resolve()
    try:
        if target.is_dir():
            raise UsageError(f"{path} is a folder", hint=f"name a file with {option}")
        if target.exists() and not target.is_file():
            raise UsageError(f"{path} is no regular file", hint=f"name a file with {option}")
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=target.parent):
            return target
    except OSError as error:
        raise store_fault(error, path) from error
