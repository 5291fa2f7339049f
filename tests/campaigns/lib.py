"""``make campaign-lib``: every function and class of the standard library, stubbed and removed. Nothing is run.

Each alone, in the modules and packages of ``Lib/`` without its tests: all units of files up to 40 kB, a sample of those of
larger ones. All of a file at once: every file, those of its tests too.
"""

from __future__ import annotations

import random
import sysconfig
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from taskforge.languages import Mode, Project, SkippedFile, language
from tests.campaigns import reporting

#: Folders that are no modules of the library.
APART = frozenset({"site-packages", "__pycache__", "idlelib", "turtledemo", "lib2to3", "ensurepip"})
DEADLINE = 1800.0
#: Bytes of a file from which on only so many of its units are tried alone: each costs a parse of the whole file.
LARGE, SAMPLE = 40_000, 25
MODES: tuple[Mode, ...] = ("stub", "remove")


@dataclass
class Tally:
    """What happened to some removals."""

    counts: Counter[str] = field(default_factory=Counter)
    skips: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, other: Tally) -> None:
        self.counts += other.counts
        self.skips += other.skips
        self.faults += other.faults
        self.seconds += other.seconds


def lib() -> Path:
    return Path(sysconfig.get_path("stdlib"))


def groups(root: Path) -> Iterator[tuple[str, list[Path]]]:
    """A module, or a package with all that is in it."""
    for item in sorted(root.iterdir()):
        if item.name in APART or item.name == "test":
            continue
        if item.suffix == ".py":
            yield item.name, [item]
        elif item.is_dir() and (item / "__init__.py").exists():
            yield item.name, [it for it in sorted(item.rglob("*.py")) if APART.isdisjoint(it.parts)]


def read(paths: Iterable[Path], root: Path) -> tuple[dict[str, bytes], Project]:
    files = {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}
    return files, language("python").project(files, is_product=lambda _path: True)


def attempt(project: Project, files: Mapping[str, bytes], mode: Mode, keys: Sequence[str], tally: Tally) -> None:
    where = f"{mode} {keys[0]}" + (f" and {len(keys) - 1} more" if len(keys) > 1 else "")
    try:
        plan = project.plan(mode, keys)
    except SkippedFile as problem:
        tally.counts["skipped"] += 1
        tally.skips[f"{mode}: {problem.reason}"] += 1
        if problem.reason in {"edit_does_not_parse", "stub_does_not_parse", "layout_unclear"}:
            tally.faults.append(f"{where}: {problem.reason}: {problem.message}")
        return
    except Exception as problem:
        tally.counts["crashed"] += 1
        tally.faults.append(f"{where}: {type(problem).__name__}: {problem}")
        return
    tally.counts["done"] += 1
    tally.counts["stays as a stub"] += bool(plan.stubbed) and mode != "stub"
    tally.counts["joined"] += len(plan.joined)
    for path, data in plan.changes.items():
        # The plan has parsed its result; to compile it as well finds what only the compiler refuses.
        if data is not None and _compiles(files[path]) and not _compiles(data):
            tally.counts["does not compile"] += 1
            tally.faults.append(f"{where}: {path} does not compile")


@lru_cache(maxsize=2000)
def _compiles(data: bytes) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(data, "lib.py", "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            return False
    return True


def alone(name: str, paths: Sequence[Path], root: Path) -> Tally:
    """Every unit of a group by itself, in each mode."""
    tally = Tally()
    began = time.perf_counter()
    files, project = read(paths, root)
    tally.counts["files"] += len(files)
    for reason in project.skipped.values():
        tally.skips[f"file: {reason}"] += 1
    by_path: dict[str, list[str]] = {}
    for key, unit in project.units.items():
        if unit.kind != "constant":
            by_path.setdefault(unit.path, []).append(key)
    for path, keys in by_path.items():
        if len(files[path]) > LARGE and len(keys) > SAMPLE:
            keys = sorted(random.Random(path).sample(keys, SAMPLE))
        tally.counts["units"] += len(keys)
        for key in keys:
            for mode in MODES:
                attempt(project, files, mode, [key], tally)
    tally.seconds += time.perf_counter() - began
    return tally


def whole(paths: Sequence[Path], root: Path) -> Tally:
    """Each file by itself: all of its units at once."""
    tally = Tally()
    began = time.perf_counter()
    for path in paths:
        files, project = read([path], root)
        tally.counts["files"] += 1
        for reason in project.skipped.values():
            tally.skips[f"file: {reason}"] += 1
        keys = [key for key, unit in project.units.items() if unit.kind != "constant"]
        tally.counts["units"] += len(keys)
        for mode in MODES if keys else ():
            attempt(project, files, mode, keys, tally)
    tally.seconds += time.perf_counter() - began
    return tally


def main() -> None:
    root = lib()
    every = [it for it in sorted(root.rglob("*.py")) if APART.isdisjoint(it.relative_to(root).parts)]
    batches = [every[at : at + 20] for at in range(0, len(every), 20)]
    single, batched = Tally(), Tally()
    with ProcessPoolExecutor() as pool:
        alones = [pool.submit(alone, name, paths, root) for name, paths in groups(root)]
        wholes = [pool.submit(whole, batch, root) for batch in batches]
        for future in alones:
            single.add(future.result(timeout=DEADLINE))
        for future in wholes:
            batched.add(future.result(timeout=DEADLINE))
    parts = [*_part("Each alone", single), *_part("All of a file at once", batched)]
    print(reporting.write("lib", "make campaign-lib", "\n\n".join(parts)))


def _part(title: str, tally: Tally) -> list[str]:
    wanted = ["files", "units", "done", "skipped", "crashed", "does not compile", "stays as a stub", "joined"]
    rows: list[list[object]] = [[name, tally.counts[name]] for name in wanted]
    skips: list[list[object]] = [[name, count] for name, count in sorted(tally.skips.items())]
    faults = "\n".join(f"- {it}" for it in sorted(tally.faults)[:50]) or "none"
    return [
        f"## {title}",
        f"`stub` and `remove`, {tally.seconds:.0f} s of one process's time.",
        reporting.table(["", "count"], rows),
        "Skipped, with the reason:",
        reporting.table(["reason", "count"], skips),
        f"Faults: {faults}",
    ]


if __name__ == "__main__":
    main()
