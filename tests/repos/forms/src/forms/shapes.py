from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import Enum
from typing import overload

__all__ = [
    "Circle",  # round
    "Colour",
    "Shape",
]


class Colour(Enum):
    RED = 1
    _HIDDEN = 2

    def mixed(self):
        return Colour((self.value + 1) % 2 + 1)


class Shape(ABC):
    @abstractmethod
    def describe(self):
        """Say what it is."""

    def twice(self):
        return self._again() * 2

    def _again(self):
        return self.describe()


@dataclass
class Circle(Shape):
    radius: float = 1.0
    colour: Colour = Colour.RED
    notes: list[str] = field(default_factory=list)

    def describe(self):
        return f"circle of {self.radius}"

    @property
    def area(self):
        return 3 * self.radius**2

    @area.setter
    def area(self, value):
        self.radius = (value / 3) ** 0.5

    @overload
    def scale(self, by: int) -> Circle: ...
    @overload
    def scale(self, by: float) -> Circle: ...
    def scale(self, by):
        return Circle(self.radius * by, self.colour)

    def __eq__(self, other):
        return self.radius == other.radius

    same = __eq__
