"""What a tree declares of itself: name, version and licence, by its static metadata."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from email.parser import BytesHeaderParser
from typing import Any

from taskforge.model import Entry

__all__ = ["Declared", "declared", "headers", "pyproject", "safe_word"]


@dataclass(frozen=True)
class Declared:
    """Empty strings where nothing is declared statically."""

    name: str = ""
    version: str = ""
    license: str = ""


def safe_word(text: str) -> str:
    """``text`` with everything but ``[A-Za-z0-9._-]`` replaced, never empty."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.") or "unnamed"


def headers(data: bytes) -> list[tuple[str, str]]:
    """The headers of a PKG-INFO or METADATA file, names in lower case, in order; its body is left out."""
    parsed = BytesHeaderParser().parsebytes(data)
    return [(name.lower(), str(value)) for name, value in parsed.items()]


def pyproject(entries: Mapping[str, Entry]) -> dict[str, Any]:
    """The tree's pyproject.toml, empty when there is none or it does not parse (its build will say so)."""
    entry = entries.get("pyproject.toml")
    if entry is None or entry.kind == "link":
        return {}
    try:
        return tomllib.loads(entry.data.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return {}


def declared(entries: Mapping[str, Entry]) -> Declared:
    """Name, version and licence by PKG-INFO, then by pyproject.toml's ``[project]``."""
    info = dict(reversed(headers(entries["PKG-INFO"].data))) if "PKG-INFO" in entries else {}
    project = pyproject(entries).get("project")
    table: dict[str, Any] = project if isinstance(project, dict) else {}
    return Declared(
        name=info.get("name") or _text(table.get("name")),
        version=info.get("version") or _text(table.get("version")),
        license=_license(info, table),
    )


def _license(info: Mapping[str, str], table: Mapping[str, Any]) -> str:
    declared_license = table.get("license")
    if isinstance(declared_license, dict):
        declared_license = declared_license.get("text")
    for text in (info.get("license-expression"), info.get("license"), declared_license):
        # A whole licence text is no expression.
        if isinstance(text, str) and 0 < len(text.strip()) <= 80 and "\n" not in text.strip() and text != "UNKNOWN":
            return text.strip()
    return ""


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
