"""The image that a snapshot's tasks are proven in, and the pin that says so."""

from __future__ import annotations

from dataclasses import replace

from taskforge.corpus import Corpus
from taskforge.model import Recipe
from taskforge.sandbox import Backend, Environment

__all__ = ["pinned", "write_pin"]


def pinned(corpus: Corpus, backend: Backend, recipe: Recipe, environment: Environment) -> tuple[Recipe, Environment]:
    """The environment with its image, where the backend has images: the one that the corpus has, if it has one.

    Raises:
        SandboxFault: ``image_differs`` when the corpus's image can neither be found nor made here.
    """
    known = replace(environment, image=corpus.image(environment.digest))
    return recipe, replace(environment, image=backend.image(known))


def write_pin(corpus: Corpus, environment: Environment) -> None:
    """Pin the corpus's environment to its image; nothing where it has none.

    Raises:
        CorpusError: when the corpus has another by now.
    """
    if environment.image is not None:
        corpus.write_image(environment.digest, environment.image)
