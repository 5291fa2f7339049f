"""How much memory this machine, and the control group that we are in, still have to give."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

__all__ = ["available_bytes"]

_PROC = Path("/proc")
_GROUPS = Path("/sys/fs/cgroup")
#: Limits above this are none: version 1 writes a number of pages near 2**63 for "no limit".
_NONE = 1 << 60


def available_bytes(proc: Path = _PROC, groups: Path = _GROUPS) -> int:
    """Bytes that can be had without swapping: the kernel's own estimate, or what a control group leaves if that is
    less. What cannot be read limits nothing."""
    lines = _read(proc / "meminfo").splitlines()
    machine = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    limited = [left for folder in _folders(proc, groups) if (left := _free(folder)) is not None]
    return max(0, min([*machine, *limited], default=_NONE))


def _folders(proc: Path, groups: Path) -> Iterator[Path]:
    """Every control group above this process that may limit its memory, both versions."""
    for line in _read(proc / "self/cgroup").splitlines():
        _number, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        root = groups / "memory" if controllers else groups
        folder = root / path.lstrip("/")
        yield folder
        yield from (above for above in folder.parents if above.is_relative_to(root))


def _free(folder: Path) -> int | None:
    for most, now in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        limit, used = _read(folder / most).strip(), _read(folder / now).strip()
        if limit.isdigit() and used.isdigit() and int(limit) < _NONE:
            stat = dict(line.split() for line in _read(folder / "memory.stat").splitlines() if line.count(" ") == 1)
            # Files that nobody uses are given back when memory is asked for.
            idle = int(stat.get("total_inactive_file") or stat.get("inactive_file") or 0)
            return int(limit) - int(used) + idle
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
