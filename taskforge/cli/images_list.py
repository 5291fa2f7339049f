"""``taskforge images list`` and ``prune``: what taskforge's images take of a daemon's disk, and making room."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from taskforge.model import Image
    from taskforge.sandbox.docker_image import Images
    from taskforge.sandbox.docker_prune import Stay

__all__ = ["list_images", "prune_images"]


def list_images(
    corpus: Annotated[Path | None, typer.Option(help="Say which of them it is pinned to, and which it lacks.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON.")] = False,
) -> None:
    """List the images of environments in the daemon, the one used longest ago first."""
    from taskforge.cli.common import console, print_json
    from taskforge.cli.images_common import docker, human
    from taskforge.corpus import Corpus
    from taskforge.sandbox.docker_prune import stays, taken

    place = None if corpus is None else Corpus.open(corpus)
    pins: dict[str, Image | None] = {}
    if place is not None:
        pins = {digest: place.image(digest) for digest in place.environment_digests()}
    images = docker().images
    every = stays(images)
    found = [one for one in every if one.kind == "environment"]
    rows = [_row(one, _digest(images, one.id), pins) for one in found]
    missing = _missing(rows, pins)
    if as_json:
        print_json({"images": rows, "missing": missing, "bytes": taken(every)})
        return
    say = console()
    say.print(_table(rows, with_pins=place is not None))
    say.print(f"{len(rows)} image{'' if len(rows) == 1 else 's'}, with their bases {human(taken(every))} on disk")
    for one in missing:
        where = one["reference"] or ("image " + one["image"][7:19] if one["image"] else "pinned to no image")
        say.print(f"missing  {one['environment'][:12]}  {where}", markup=False)


def _row(one: Stay, digest: str, pins: dict[str, Image | None]) -> dict[str, Any]:
    pin = pins.get(one.environment)
    return {
        "environment": one.environment, "image": digest, "id": one.id, "names": list(one.names), "python": one.python,
        "size": one.size, "own": one.own, "created": one.arrived or None, "last_used": one.last_used,
        "containers": one.containers, "leased": one.leased, "pinned": pin is not None and pin.digest == digest,
    }  # fmt: skip


def _digest(images: Images, name: str) -> str:
    """Empty for an image that was removed meanwhile, or that another version of taskforge made."""
    from taskforge.errors import SandboxFault

    try:
        return images.facts(name).digest
    except SandboxFault as fault:
        if fault.kind != "docker_image":
            raise
        return ""


def _missing(rows: list[dict[str, Any]], pins: dict[str, Image | None]) -> list[dict[str, Any]]:
    """Environments of the corpus whose pinned image is not here."""
    here = {row["environment"] for row in rows if row["pinned"]}
    return [
        {
            "environment": environment, "image": pin.digest if pin else "", "python": pin.python if pin else "",
            "reference": pin.reference if pin else "",
        }
        for environment, pin in pins.items() if environment not in here
    ]  # fmt: skip


def _table(rows: list[dict[str, Any]], *, with_pins: bool) -> Any:
    from rich.table import Table

    from taskforge.cli.images_common import human

    table = Table(box=None, pad_edge=False)
    for heading in ("environment", "python", "size", "own", "here since", "last used", "in use", "pinned"):
        if heading != "pinned" or with_pins:
            table.add_column(heading, justify="right" if heading in {"size", "own"} else "left", no_wrap=True)
    for row in rows:
        tools = " tools" if any(name.endswith("-tools") for name in row["names"]) else ""
        unnamed = " unnamed" if not row["names"] else ""
        used = [f"{row['containers']} containers"] if row["containers"] else []
        used += ["process"] if row["leased"] else []
        cells = [
            row["environment"][:12] + tools + unnamed, row["python"], human(row["size"]), human(row["own"]),
            _when(row["created"]), _when(row["last_used"]), ", ".join(used) or "-",
        ]  # fmt: skip
        table.add_row(*cells, *(["yes" if row["pinned"] else "no"] if with_pins else []))
    return table


def _when(seconds: float | None) -> str:
    import datetime as dt

    if seconds is None:
        return "-"
    return dt.datetime.fromtimestamp(seconds, dt.UTC).astimezone().strftime("%Y-%m-%d %H:%M")


def prune_images(
    budget: Annotated[str, typer.Option(help="What taskforge's images may take, such as 50GB or 500MiB.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Remove images of environments until they keep to a budget, the one used longest ago first; then bases that
    nobody needs. What a container or a process uses stays, and so does what has a name of somebody else's."""
    from taskforge.cli.common import console, print_json
    from taskforge.cli.images_common import bytes_of, docker, human
    from taskforge.sandbox.docker_prune import prune

    most = bytes_of(budget)
    done = prune(docker().images, most, dry_run=dry_run)
    if as_json:
        kept = [{"image": one.name, "id": one.id, "why": why} for one, why in done.kept]
        removed = [{"image": one.name, "id": one.id, "environment": one.environment} for one in done.removed]
        sizes = {"budget": most, "before": done.before, "after": done.after, "freed": done.before - done.after}
        print_json({"dry_run": dry_run, **sizes, "removed": removed, "kept": kept})
        return
    say = console()
    for one in done.removed:
        say.print(f"{'would remove' if dry_run else 'removed'}  {one.name}  {human(one.own)} of its own", markup=False)
    for one, why in done.kept:
        say.print(f"kept  {one.name}: {why}", markup=False)
    freed = f"{'would free' if dry_run else 'freed'} {human(done.before - done.after)}"
    say.print(f"{freed}: {human(done.before)} before, {human(done.after)} after, budget {human(most)}")
    if done.after > most:
        say.print("more than the budget: what is left is in use, or has a name of somebody else's")
