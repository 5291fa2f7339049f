"""What the commands of ``taskforge images`` share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from taskforge.errors import UsageError

if TYPE_CHECKING:
    from taskforge.corpus import Corpus
    from taskforge.model import Image
    from taskforge.sandbox.docker import Docker
    from taskforge.sandbox.oci import Watch

__all__ = ["bytes_of", "chosen", "docker", "human", "pins_of", "watching_bytes"]

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([kmgt])(i?))?b?", re.IGNORECASE)
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}


def docker() -> Docker:
    """The docker sandbox.

    Raises:
        UsageError: when no daemon answers.
    """
    from taskforge.sandbox import backend
    from taskforge.sandbox.docker import Docker

    found = backend("docker")
    assert isinstance(found, Docker)
    return found


def chosen(corpus: Corpus, wanted: Iterable[str]) -> list[str]:
    """Digests of environments of a corpus: all, or those that ``wanted`` are, or are the start of.

    Raises:
        UsageError: when one means none or several, or there are none.
    """
    known = corpus.environment_digests()
    if not known:
        raise UsageError(f"{corpus.path} has no environments", hint="make tasks with `taskforge generate`")
    found = []
    for one in wanted:
        mine = [digest for digest in known if one and digest.startswith(one)]
        if len(mine) != 1:
            raise UsageError(
                f"{corpus.path} has {'no environment' if not mine else f'{len(mine)} environments'} {one!r}",
                hint="it has " + ", ".join(digest[:12] for digest in known[:8]) + (", …" if len(known) > 8 else ""),
            )
        found += mine
    return found or known


def pins_of(corpus: Corpus, environments: Iterable[str]) -> dict[str, Image]:
    """The images that environments are pinned to.

    Raises:
        UsageError: when one is pinned to none.
    """
    found = {}
    for one in environments:
        image = corpus.image(one)
        if image is None:
            raise UsageError(
                f"environment {one[:12]} of {corpus.path} is pinned to no image",
                hint=f"make it, and its pin, with `taskforge images build {corpus.path}`",
            )
        found[one] = image
    return found


def bytes_of(text: str) -> int:
    """``50GB`` is 50 thousand million bytes, ``50GiB`` 50 times 2**30; k, M, G, T, and the B may be left out.

    Raises:
        UsageError: for anything else.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{text!r} is no size", hint="write a number with k, M, G or T, such as 50GB, 1.5T or 500MiB")
    number, unit, binary = found.groups()
    return int(float(number) * (1024 if binary else 1000) ** _POWERS.get((unit or "").lower(), 0))


def human(size: float) -> str:
    """A number of bytes for people, in decimal units."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


@contextmanager
def watching_bytes(*, quiet: bool = False) -> Iterator[Watch]:
    """Shows on standard error how far each step is; nothing where that is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    err = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=err, transient=True, disable=quiet or not err.is_terminal) as progress:
        bars = {}

        def watch(what: str, done: int, total: int) -> None:
            if what not in bars:
                bars[what] = progress.add_task(what, total=total or None)
            progress.update(bars[what], completed=done, total=total or None)

        yield watch
