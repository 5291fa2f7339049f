"""``taskforge list``: the tasks of a corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["list_tasks"]

#: Characters of a feature in the table.
WIDEST = 48


def list_tasks(
    corpus: Annotated[Path, typer.Argument(help="What `taskforge generate --out` wrote.")],
    sort: Annotated[str, typer.Option(help="difficulty, lines or tests, the most first; or id.")] = "id",
    as_json: Annotated[bool, typer.Option("--json", help="Print the cards as JSON.")] = False,
) -> None:
    """List the tasks of a corpus."""
    from rich.markup import escape
    from rich.table import Table

    from taskforge.cli.common import console, print_json
    from taskforge.corpus import Corpus
    from taskforge.errors import UsageError

    if sort not in {"difficulty", "lines", "tests", "id"}:
        raise UsageError(f"there is no order {sort!r}", hint="sort by difficulty, lines, tests or id")
    cards = list(Corpus.open(corpus).cards())
    if sort == "difficulty":
        cards.sort(key=lambda card: (-card.metrics.difficulty, card.id))
    elif sort == "lines":
        cards.sort(key=lambda card: (-card.metrics.lines, card.id))
    elif sort == "tests":
        cards.sort(key=lambda card: (-card.metrics.fail_to_pass, card.id))
    if as_json:
        print_json([card.model_dump() for card in cards])
        return
    table = Table(box=None, pad_edge=False)
    # An id is there to be copied: it is never cut or folded, whatever the terminal's width.
    longest = max((len(card.id) for card in cards), default=0)
    table.add_column("id", no_wrap=True, min_width=longest)
    table.add_column("mode", no_wrap=True)
    table.add_column("feature", no_wrap=True)
    for name in ("hard", "lines", "files", "F2P", "P2P"):
        table.add_column(name, justify="right")
    for card in cards:
        # The end of a path tells more than its start.
        first = card.feature[0] if len(card.feature[0]) <= WIDEST else "…" + card.feature[0][-WIDEST:]
        more = f" (+{len(card.feature) - 1})" if len(card.feature) > 1 else ""
        told = card.metrics
        numbers = (told.lines, told.files, told.fail_to_pass, told.pass_to_pass)
        hard = f"{told.difficulty:.1f}" if told.difficulty else ""
        table.add_row(card.id, card.mode, escape(first + more), hard, *(str(number) for number in numbers))
    show = console(least=longest + 100)
    show.print(table)
    show.print(f"{len(cards)} task{'' if len(cards) == 1 else 's'}")
