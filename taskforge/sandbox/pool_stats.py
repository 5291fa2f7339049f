"""What a pool tells of itself."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PoolStats"]


@dataclass(frozen=True, kw_only=True)
class PoolStats:
    """What a pool has done so far, and what it holds now."""

    hits: int = 0
    """Taken: one that waited with the very tree."""
    kin_hits: int = 0
    """Taken: one that waited with another tree, changed into the one that was asked for."""
    waited: int = 0
    """Of both kinds of hits, those that were still being started."""
    misses: int = 0
    """Taken: started on demand."""
    evictions: int = 0
    """Ended unused to make room, or because nobody asked for their kin any more."""
    wasted: int = 0
    """Started ahead and never handed out, evictions included."""
    waiting: int = 0
    """Ready now."""
    starting: int = 0
    out: int = 0
    """Taken and not closed yet."""

    @property
    def hit_rate(self) -> float:
        """Share of what was taken that was not started on demand; 0 before anything was taken."""
        hits = self.hits + self.kin_hits
        return hits / max(1, hits + self.misses)
