"""The common base of all values, and how a value becomes a digest."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from pydantic import BaseModel, ConfigDict

__all__ = ["Value", "canonical_json", "digest_of"]


class Value(BaseModel):
    """A frozen value. Unknown fields are an error, so that a typo or a newer schema is never silently ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def canonical_json(data: Any) -> bytes:
    """One byte string per JSON value: sorted keys, no spaces, ASCII (lone surrogates survive as escapes)."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode("ascii")


def digest_of(data: Any) -> str:
    """SHA-256 hex of the canonical JSON of ``data``."""
    return hashlib.sha256(canonical_json(data)).hexdigest()
