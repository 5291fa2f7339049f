"""Environments in the cache of this host: where they lie, and whether they can still be used."""

from __future__ import annotations

import io
import json
import logging
import tarfile
from pathlib import Path
from typing import Any

from taskforge.model import Entry, Tree
from taskforge.model.tree import EntryKind
from taskforge.sandbox import Environment

__all__ = ["folder", "load", "pack", "record", "unpack"]

log = logging.getLogger("taskforge.environments")

RECORD = "environment.json"
OVERLAY = "overlay.tar"
#: Raise it when the same recipe would give other files: an image of them would be another.
LAYOUT = 2


def folder(cache: Path, digest: str) -> Path:
    """Where the environment of a recipe lies, or would lie."""
    return cache / "environments" / digest


def load(cache: Path, digest: str) -> Environment | None:
    """The environment of a recipe, or None when it has to be built (again): absent, damaged, or its interpreter gone.

    Nothing is executed: an interpreter that was replaced, for example by another patch version, is known by its file.
    """
    place = folder(cache, digest)
    try:
        told = json.loads((place / RECORD).read_bytes())
        interpreter = Path(told["interpreter"])
        if not interpreter.is_file() or _stamp(interpreter) != told["interpreter_stamp"]:
            log.info("the interpreter %s of environment %s was changed or removed: rebuild", interpreter, digest[:12])
            return None
        sealed = any(place.glob("env/lib/python*/site-packages/sitecustomize.py"))
        if told.get("layout") != LAYOUT or not sealed:
            log.info("environment %s was built by an older taskforge: rebuild", digest[:12])
            return None
        return _environment(place, digest, told)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, tarfile.TarError) as error:
        log.info("environment %s in the cache is damaged (%s): rebuild", digest[:12], error)
        return None


def record(
    place: Path,
    *,
    interpreter: Path,
    base_prefix: Path,
    python: str,
    variables: dict[str, str],
    pytest_args: tuple[str, ...],
) -> None:
    """Write, as an environment's last file, what :func:`load` needs to know of it."""
    told = {
        "layout": LAYOUT,
        "interpreter": str(interpreter),
        "interpreter_stamp": _stamp(interpreter),
        "base_prefix": str(base_prefix),
        "python": python,
        "variables": variables,
        "pytest_args": list(pytest_args),
    }
    (place / RECORD).write_text(json.dumps(told, indent=1, sort_keys=True), encoding="utf-8")


def pack(tree: Tree) -> bytes:
    """A tree as an uncompressed tar, the same bytes for the same tree."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", encoding="utf-8", errors="surrogateescape") as archive:
        for path, entry in tree.items():
            info = tarfile.TarInfo(path)
            if entry.kind == "link":
                info.type = tarfile.SYMTYPE
                info.linkname = entry.data.decode("utf-8", "surrogateescape")
                archive.addfile(info)
            else:
                info.mode = 0o755 if entry.kind == "exec" else 0o644
                info.size = len(entry.data)
                archive.addfile(info, io.BytesIO(entry.data))
    return out.getvalue()


def unpack(data: bytes) -> Tree:
    """The tree that :func:`pack` was given."""
    entries: dict[str, Entry] = {}
    with tarfile.open(fileobj=io.BytesIO(data), encoding="utf-8", errors="surrogateescape") as archive:
        for info in archive:
            if info.issym():
                entries[info.name] = Entry(info.linkname.encode("utf-8", "surrogateescape"), "link")
                continue
            content = archive.extractfile(info)
            if content is None:
                raise ValueError(f"{info.name} is no file")
            kind: EntryKind = "exec" if info.mode & 0o100 else "file"
            entries[info.name] = Entry(content.read(), kind)
    return Tree(entries)


def _environment(place: Path, digest: str, told: dict[str, Any]) -> Environment:
    tools = place / "tools"
    overlay = place / OVERLAY
    return Environment(
        digest=digest,
        root=place / "env",
        interpreter=Path(told["interpreter"]),
        base_prefix=Path(told["base_prefix"]),
        python=told["python"],
        overlay=unpack(overlay.read_bytes()) if overlay.exists() else Tree({}),
        variables=told["variables"],
        pytest_args=tuple(told["pytest_args"]),
        tools=tools if tools.is_dir() else None,
    )


def _stamp(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]
