"""``taskforge images``: the images that the docker sandbox starts from. One line of the table makes a command."""

from __future__ import annotations

from collections.abc import Callable

import typer

from taskforge.cli.images_archive import load_images, save_images
from taskforge.cli.images_base import make_bases
from taskforge.cli.images_build import build_images
from taskforge.cli.images_list import list_images, prune_images
from taskforge.cli.images_registry import pull_images, push_images

__all__ = ["images"]

images = typer.Typer(
    help="Images that the docker sandbox starts from: make, move, list and remove them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_COMMANDS: dict[str, Callable[..., None]] = {
    "base": make_bases,
    "build": build_images,
    "list": list_images,
    "save": save_images,
    "load": load_images,
    "push": push_images,
    "pull": pull_images,
    "prune": prune_images,
}
for _name, _command in _COMMANDS.items():
    images.command(_name)(_command)
