"""What commands share: how they print."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["console", "print_json"]


def console() -> Console:
    """A console on standard output. Where that is no terminal, lines are not cut to a terminal's width."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 160, highlight=False)


def print_json(data: Any) -> None:
    """One JSON document on standard output, ASCII, so that ids which are not UTF-8 survive."""
    sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=True) + "\n")
