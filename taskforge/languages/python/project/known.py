"""Decorators and bases of which it is known what they do not do."""

from __future__ import annotations

from typing import Final

__all__ = ["is_harmless_decorator", "is_reading_base"]

#: Decorators that register nothing.
_HARMLESS: Final = frozenset(
    {"abstractmethod", "asynccontextmanager", "cache", "cached_property", "classmethod", "contextmanager", "coroutine"}
    | {"dataclass", "deleter", "deprecated", "final", "getter", "lru_cache", "no_type_check", "overload", "override"}
    | {"property", "runtime_checkable", "setter", "singledispatch", "staticmethod", "total_ordering", "unique", "wraps"}
    | {"attrs", "define", "frozen", "mutable", "s", "singledispatchmethod"}
)
#: Bases that never look at the annotations of their classes.
_BLIND: Final = frozenset(
    {"ABC", "Exception", "BaseException", "Generic", "Protocol", "object", "dict", "list", "str", "int", "tuple"}
    | {"Enum", "IntEnum", "StrEnum", "Flag", "IntFlag", "NamedTuple", "TypedDict", "TestCase"}
)


def is_harmless_decorator(name: str) -> bool:
    """Whether a decorator, by the last name of it, neither registers what it decorates nor reads its annotations."""
    return name in _HARMLESS


def is_reading_base(name: str) -> bool:
    """Whether a base class, by its last name, may evaluate the annotations of its classes; those of errors do not."""
    return name not in _BLIND and not name.endswith(("Error", "Exception", "Warning"))
