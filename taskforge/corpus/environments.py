"""The environments of a corpus: a folder each, with the recipe, what goes with it, and the pin of its image."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from taskforge.corpus.atomic import write_bytes, write_folder
from taskforge.corpus.bundle import json_bytes
from taskforge.corpus.reading import read_file, validated
from taskforge.errors import CorpusError
from taskforge.model import Image, Recipe

__all__ = ["Environments"]

_IMAGE = "image.json"


class Environments:
    """The part of a corpus below ``public/environments``."""

    def __init__(self, public: Path) -> None:
        self.public = public

    def write_recipe(self, recipe: Recipe, extra: Mapping[str, bytes]) -> str:
        """Store an environment's recipe with further files (lock, manifest, Dockerfile); returns its digest."""
        files = {**extra, "recipe.json": json_bytes(recipe.model_dump())}
        folder = self.public / "environments" / recipe.digest
        if not all((folder / name).is_file() and (folder / name).read_bytes() == data for name, data in files.items()):
            if (folder / _IMAGE).is_file():
                files[_IMAGE] = read_file(folder / _IMAGE)
            write_folder(folder, files)
        return recipe.digest

    def recipe(self, digest: str) -> Recipe:
        """The recipe of an environment.

        Raises:
            CorpusError: when it is missing or is not what its digest says.
        """
        path = self.public / "environments" / digest / "recipe.json"
        recipe = validated(Recipe, path)
        if recipe.digest != digest:
            raise CorpusError(f"{path} was changed: its digest is {recipe.digest[:12]}", hint="restore it from a copy")
        return recipe

    def environment_file(self, digest: str, name: str) -> bytes:
        """One of the further files of :meth:`write_recipe`."""
        return read_file(self.public / "environments" / digest / name)

    def environment_digests(self) -> list[str]:
        """Digests of all environments that have a recipe here, sorted."""
        return sorted(path.parent.name for path in (self.public / "environments").glob("[!.]*/recipe.json"))

    def image(self, environment: str) -> Image | None:
        """The image that an environment's tasks are pinned to; None when none was ever written.

        Raises:
            CorpusError: when ``image.json`` is damaged.
        """
        path = self.public / "environments" / environment / _IMAGE
        try:
            return validated(Image, path) if path.exists() else None
        except CorpusError as error:
            hint = "restore it from a copy, or remove it and pin the image again with `taskforge images build`"
            raise CorpusError(error.message, hint=hint) from None

    def write_image(self, environment: str, image: Image, *, replace: bool = False) -> None:
        """Pin an environment to an image. The same image again may change its ``reference``, nothing else.

        Raises:
            CorpusError: when there is no such environment, or it is pinned to another image, unless ``replace``.
            StoreFault: when the disk refuses.
        """
        folder = self.public / "environments" / environment
        if not (folder / "recipe.json").is_file():
            raise CorpusError(f"{folder} holds no recipe", hint="`taskforge list` shows a corpus's tasks")
        found = self.image(environment)
        if found is not None and found.digest != image.digest and not replace:
            raise CorpusError(
                f"environment {environment[:12]} is pinned to image {found.digest[7:19]}, and {image.digest[7:19]} is"
                " another",
                hint="get the pinned one with `taskforge images load` or `pull`, or replace it on purpose with"
                " `taskforge images build --replace`",
            )
        if found != image:
            write_bytes(folder / _IMAGE, json_bytes(image.model_dump()))
