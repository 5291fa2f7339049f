"""``taskforge images save`` and ``load``: the images of a corpus as one file beside it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from taskforge.corpus import Corpus

__all__ = ["load_images", "save_images"]

ARCHIVE = "images.tar"
Environments = Annotated[
    list[str] | None, typer.Option("--environment", help="Only this one (its digest or the start of it); repeatable.")
]


def save_images(
    corpus: Annotated[Path, typer.Argument(help="The corpus.")],
    to: Annotated[Path | None, typer.Option(help="The file; CORPUS/images.tar by default.")] = None,
    environment: Environments = None,
) -> None:
    """Write the images of a corpus into one file, an OCI image layout that `docker load` takes, too."""
    from taskforge.cli.common import console, file_to_write
    from taskforge.cli.images_common import chosen, docker, human, pins_of, watching_bytes
    from taskforge.corpus import Corpus
    from taskforge.sandbox.docker_transport import save

    place = Corpus.open(corpus)
    pins = pins_of(place, chosen(place, environment or ()))
    named = to or corpus / ARCHIVE
    target = file_to_write(named, "--to")
    images = docker().images
    with watching_bytes() as watch:
        save(images, pins, target, watch)
    many = f"{len(pins)} image{'' if len(pins) == 1 else 's'}"
    console().print(f"{many} in {named}, {human(target.stat().st_size)}", markup=False)


def load_images(
    source: Annotated[Path, typer.Argument(help="A corpus, or a file that `taskforge images save` wrote.")],
    corpus: Annotated[
        Path | None, typer.Option(help="Whose pins the images of a file must be; the corpus it lies in by default.")
    ] = None,
    environment: Environments = None,
) -> None:
    """Give the daemon the images that it lacks, each proven to be the pinned one."""
    from taskforge.cli.common import console
    from taskforge.cli.images_common import chosen, docker, pins_of, watching_bytes
    from taskforge.errors import UsageError
    from taskforge.sandbox.docker_transport import load
    from taskforge.sandbox.oci import Layout

    file = source / ARCHIVE if source.is_dir() else source
    place = _corpus(corpus, source if source.is_dir() else source.parent, required=source.is_dir())
    if place is None and environment:
        raise UsageError("--environment needs a corpus", hint="name the corpus with --corpus")
    pins = None if place is None else pins_of(place, chosen(place, environment or ()))
    with Layout(file) as layout:
        images = docker().images
        with watching_bytes() as watch:
            done = load(images, layout, pins, watch)
    say = console()
    for one in done.loaded:
        say.print(f"loaded   {images.name(one)}")
    for one in done.present:
        say.print(f"present  {images.name(one)}")
    if place is None:
        say.print("no corpus says what these images should be: they were only held against themselves (--corpus)")
    if done.absent:
        raise UsageError(
            f"{file} lacks the images of {len(done.absent)} environments: {', '.join(one[:12] for one in done.absent)}",
            hint="write it again with `taskforge images save` where they are, or use `taskforge images pull`",
        )


def _corpus(named: Path | None, near: Path, *, required: bool) -> Corpus | None:
    from taskforge.corpus import Corpus

    if named is not None:
        return Corpus.open(named)
    if required or (near / "public" / "corpus.json").is_file():
        return Corpus.open(near)
    return None
