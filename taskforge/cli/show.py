"""``taskforge show``: one task."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["show"]


def show(
    task: Annotated[str, typer.Argument(help="A task's folder, or its id (or the start of it) with --corpus.")],
    corpus: Annotated[Path | None, typer.Option(help="Where the task is, when it is named by id.")] = None,
    sealed: Annotated[bool, typer.Option("--sealed", help="Show the reference and the required tests, too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Show a task: its statement, what was removed, its counts and where it comes from."""
    from taskforge.cli.common import console, print_json
    from taskforge.corpus import locate

    place, name = locate(task, corpus)
    card, statement = place.card(name), place.statement(name)
    bundle = place.bundle(name) if sealed else None
    if as_json:
        data = {"card": card.model_dump(), "statement": statement}
        if bundle is not None:
            data["tests"] = bundle.tests.model_dump()
            data["reference_patch"] = bundle.reference_patch.decode("utf-8", "surrogateescape")
        print_json(data)
        return
    out, made, metrics = console(), card.provenance, card.metrics
    facts = {
        "id": card.id,
        "digest": card.digest,
        "feature": ", ".join(card.feature),
        "mode": card.mode,
        "size": f"{metrics.lines} lines, {metrics.symbols} symbols, {metrics.files} files,"
        f" complexity {metrics.complexity}",
        "tests": f"{metrics.fail_to_pass} FAIL_TO_PASS, {metrics.pass_to_pass} PASS_TO_PASS",
        "from": " ".join(filter(None, (made.kind, made.owner, made.name, made.version, made.commit, made.origin))),
        "license": made.license or "not declared",
        "environment": card.environment,
    }
    for label, value in facts.items():
        out.print(f"{label:<12}{value}".encode("utf-8", "replace").decode(), markup=False, soft_wrap=True)
    parts = [("Statement", statement)]
    if bundle is not None:
        parts.append(("FAIL_TO_PASS", "\n".join(bundle.tests.fail_to_pass)))
        parts.append(("Reference", bundle.reference_patch.decode("utf-8", "replace")))
    for title, text in parts:
        out.print()
        out.rule(title)
        out.print(text.encode("utf-8", "replace").decode(), markup=False, soft_wrap=True)
