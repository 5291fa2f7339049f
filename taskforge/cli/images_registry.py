"""``taskforge images push`` and ``pull``: the images of a corpus in a registry."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from taskforge.cli.images_archive import Environments

__all__ = ["pull_images", "push_images"]


def push_images(
    corpus: Annotated[Path, typer.Argument(help="The corpus.")],
    repository: Annotated[str, typer.Argument(help="REGISTRY/REPOSITORY, without a tag.")],
    environment: Environments = None,
) -> None:
    """Push the images of a corpus, each tagged by its environment; the corpus notes where each is to be had.

    Who may push, the daemon's client takes from Docker's configuration: see `docker login`."""
    from taskforge.cli.common import console
    from taskforge.cli.images_common import chosen, docker, pins_of, watching_bytes
    from taskforge.corpus import Corpus
    from taskforge.sandbox.docker_registry import checked_repository, push

    place = Corpus.open(corpus)
    pins = pins_of(place, chosen(place, environment or ()))
    checked_repository(repository)
    images = docker().images
    say = console()
    with watching_bytes() as watch:
        for one, pin in pins.items():
            pushed = push(images, one, pin, repository, watch)
            # Each at once: an interruption loses none that were pushed.
            place.write_image(one, pushed)
            say.print(f"pushed   {images.name(one)}  {pushed.reference}", markup=False)


def pull_images(
    corpus: Annotated[Path, typer.Argument(help="The corpus.")],
    repository: Annotated[
        str | None, typer.Argument(help="REGISTRY/REPOSITORY; where each was pushed to by default.")
    ] = None,
    environment: Environments = None,
) -> None:
    """Have the daemon pull the images of a corpus that it lacks; what is not the pinned one gets no name."""
    from taskforge.cli.common import console
    from taskforge.cli.images_common import chosen, docker, pins_of, watching_bytes
    from taskforge.corpus import Corpus
    from taskforge.sandbox.docker_registry import checked_repository, pull

    place = Corpus.open(corpus)
    pins = pins_of(place, chosen(place, environment or ()))
    if repository is not None:
        checked_repository(repository)
    images = docker().images
    say = console()
    with watching_bytes() as watch:
        for one, pin in pins.items():
            new = pull(images, one, pin, repository or "", watch)
            say.print(f"{'pulled' if new else 'present':<8} {images.name(one)}")
