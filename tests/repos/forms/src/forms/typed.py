from __future__ import annotations

import typing
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from forms import draw as Drawer
    from forms.registry import Handler

T = typing.TypeVar("T", bound="Pair")


class Pair(NamedTuple):
    left: int
    right: Handler

    def swapped(self) -> Pair:
        return Pair(self.right, self.left)


def paint(pair: Pair, draw: Callable[[int], Drawer] | None = None) -> Handler:
    from forms import draw as by_hand

    return (draw or by_hand)(pair.left)


def first(items: list[T]) -> T:
    return items[0]
