"""What commands share: how they print."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["console", "print_json"]


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
