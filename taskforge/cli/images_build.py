"""``taskforge images build``: the images of a corpus, and the pins that say which they are."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from taskforge.cli.images_archive import Environments

if TYPE_CHECKING:
    from taskforge.corpus import Corpus
    from taskforge.model import Image
    from taskforge.sandbox import Backend
    from taskforge.settings import Settings

__all__ = ["build_images"]


def build_images(
    corpus: Annotated[Path, typer.Argument(help="The corpus.")],
    sandbox: Annotated[str, typer.Option(help="A sandbox with images.")] = "docker",
    replace: Annotated[
        bool, typer.Option("--replace", help="Pin environments anew that are pinned to other images.")
    ] = False,
    jobs: Annotated[int | None, typer.Option(min=1, help="Images at a time; one for each core by default.")] = None,
    environment: Environments = None,
) -> None:
    """Make the image of every environment of a corpus, and pin the environment to it.

    An environment that is pinned already must give the pinned image, or nothing is changed and the exit code is 4."""
    from concurrent.futures import ThreadPoolExecutor

    from taskforge.cli.common import console
    from taskforge.cli.images_common import chosen, human
    from taskforge.corpus import Corpus
    from taskforge.sandbox import backend
    from taskforge.sandbox.docker_transport import differs
    from taskforge.settings import Settings

    place = Corpus.open(corpus)
    wanted = chosen(place, environment or ())
    settings = Settings()
    maker = backend(sandbox)
    say = console()

    def one(digest: str) -> tuple[str, Image, Image | None]:
        found = place.image(digest)
        return digest, _made(place, digest, maker, settings, pinned=not replace), found

    proven = {} if replace else {card.environment: card.image for card in place.cards() if card.image}
    with ThreadPoolExecutor(max_workers=min(jobs or settings.jobs, len(wanted))) as threads:
        for digest, image, before in threads.map(one, wanted):
            if proven.get(digest, image.digest) != image.digest:
                raise differs(digest, proven[digest], image.digest, "what can be made here is another")
            place.write_image(digest, image, replace=replace)
            how = "pinned" if before is None else "same" if before.digest == image.digest else "REPLACED"
            size = human(image.size)
            say.print(f"{how:<9} {digest[:12]}  {image.digest[7:19]}  Python {image.python}  {size}", markup=False)
            if how == "REPLACED":
                say.print(f"          tasks proven in {before.digest[7:19] if before else ''} have to be made again")


def _made(place: Corpus, digest: str, maker: Backend, settings: Settings, *, pinned: bool) -> Image:
    """The image of an environment, whose folder is built from its recipe where this host lacks it."""
    from contextlib import nullcontext
    from dataclasses import replace

    from taskforge.errors import Fault, SourceError, TaskforgeError, UsageError
    from taskforge.generate import environment as stage

    recipe = place.recipe(digest)
    pin = place.image(digest) if pinned else None
    try:
        environment = stage.ensure(
            recipe, lambda: place.snapshot(recipe.snapshot), backend=maker, cache=settings.cache_dir
        )
    except (SourceError, Fault):
        raise
    except TaskforgeError as error:
        raise Fault(
            f"environment {digest[:12]} cannot be built here: {error}",
            kind="environment_build",
            hint=error.hint or "try again where the package index can be reached",
        ) from error
    with _anew(maker, digest) if pin is None else nullcontext():
        image = maker.image(replace(environment, image=pin))
    if image is None:
        raise UsageError(f"the sandbox {maker.name!r} has no images", hint="choose --sandbox docker")
    # What a registry has stays true of the same image.
    return image.model_copy(update={"reference": pin.reference}) if pin is not None else image


def _anew(maker: Backend, digest: str) -> AbstractContextManager[None]:
    """A new pin must not take over what somebody changed in this daemon."""
    from contextlib import nullcontext

    from taskforge.sandbox.docker import Docker
    from taskforge.sandbox.docker_transport import set_aside

    return set_aside(maker.images, digest) if isinstance(maker, Docker) else nullcontext()
