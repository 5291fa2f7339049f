"""What a submission may not touch: tests, their data, their configuration, start-up files."""

from __future__ import annotations

from collections.abc import Iterable

from taskforge.languages import Language

__all__ = ["is_protected", "protected_paths"]


def protected_paths(paths: Iterable[str], language: Language) -> tuple[str, ...]:
    """Files, and folders with a trailing slash, sorted; a folder stands for all that is in it.

    A folder is protected as a whole when its name makes everything below it a test; otherwise single files are.
    """
    found: set[str] = set()
    for path in paths:
        parts = path.split("/")
        for depth in range(1, len(parts)):
            folder = "/".join(parts[:depth])
            # A name that no rule knows: it is a test only if its folder makes it one.
            if language.is_test_path(f"{folder}/zz"):
                found.add(folder + "/")
                break
        else:
            if language.is_test_path(path) or language.is_config_path(path):
                found.add(path)
    return tuple(sorted(found))


def is_protected(path: str, protected: Iterable[str]) -> bool:
    """Whether ``path`` is one of them or lies in one of their folders."""
    return any(path == name or (name.endswith("/") and path.startswith(name)) for name in protected)
