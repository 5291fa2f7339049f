"""Reading one file of a corpus, so that every damage names the file."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from taskforge.errors import CorpusError, StoreFault
from taskforge.model import Value

__all__ = ["close_matches", "load_json", "read_fault", "read_file", "validated"]

V = TypeVar("V", bound=Value)
_HINT = "restore it from a copy, or generate it again"


def read_file(path: Path) -> bytes:
    """All bytes of a file.

    Raises:
        CorpusError: when it is missing or is no file.
        StoreFault: when the disk refuses to read it.
    """
    try:
        return path.read_bytes()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        raise CorpusError(f"{path} is missing", hint=_HINT) from None
    except OSError as error:
        raise read_fault(error, path) from error


def read_fault(error: OSError, path: Path) -> StoreFault:
    """The fault for an error of the disk while reading ``path``; its kind is ``permission`` or ``disk``."""
    if isinstance(error, PermissionError):
        kind, hint = "permission", "run as the owner of that folder, or give yourself the right to read it"
    else:
        kind, hint = "disk", "check the disk and the mount; then run the same command again"
    return StoreFault(f"cannot read {path}: {error.strerror}", kind=kind, hint=hint, retryable=kind == "disk")


def load_json(path: Path, *, newest: int = 1, hint: str = _HINT) -> dict[str, Any]:
    """A JSON object whose ``schema_version``, if it has one, is known here.

    Raises:
        CorpusError: when it is missing, no JSON object, or of a newer schema than ``newest``.
    """
    try:
        data = json.loads(read_file(path))
    except (ValueError, RecursionError) as error:
        raise CorpusError(f"{path} is damaged: {error}", hint=hint) from None
    if not isinstance(data, dict):
        raise CorpusError(f"{path} is damaged: no JSON object", hint=hint)
    schema = data.get("schema_version", newest)
    if not isinstance(schema, int) or schema < 1:
        raise CorpusError(f"{path} is damaged: schema_version is {schema!r}", hint=hint)
    if schema > newest:
        raise CorpusError(
            f"{path} was made by a newer taskforge (schema {schema}): upgrade", hint="pip install -U taskforge-rl"
        )
    return data


def validated(kind: type[V], path: Path) -> V:
    """The value in a JSON file.

    Raises:
        CorpusError: when it is missing, damaged or of a newer schema.
    """
    data = load_json(path)
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise CorpusError(f"{path} is damaged: {where}: {first['msg']}", hint=_HINT) from None


def close_matches(wanted: str, known: Iterable[str]) -> str:
    """A hint that lists the ids closest to ``wanted``."""
    ids = list(known)
    # Most of an id is the same for all of a repository: what people type is its tail.
    near = [i for i in ids if wanted and wanted.lower() in i.lower()] or difflib.get_close_matches(wanted, ids, 5, 0.4)
    if near:
        return "did you mean " + ", ".join(near[:5]) + "?"
    return "`taskforge list CORPUS` lists its tasks" if ids else "the corpus holds no task"
