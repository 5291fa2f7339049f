"""Which features are worth a try, and in what order."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from taskforge.generate.cluster import Sizes, clusters
from taskforge.generate.difficulty import difficulty
from taskforge.languages import Mode
from taskforge.model import Candidate, Symbol, TestMap, Unit

__all__ = ["Selection", "Wanted", "select"]

#: Of the stable tests, entered by a feature: more, and hardly anything is left that runs without it.
TOO_CENTRAL = 0.8
#: Near-copies that join a removal. More are the project's manner.
MAX_SIBLINGS = 3
_GROUPS = frozenset({"function", "method", "property", "overloads", "dispatch", "conditional"})


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What to choose. Lines are those of code that is removed, neither blank nor comment."""

    modes: tuple[Mode, ...] = ("stub",)
    min_lines: int = 2
    max_lines: int = 400
    cluster: Sizes = field(default_factory=Sizes)
    per_module: int | None = None
    """Candidates that a file may give; of several files the first counts."""
    difficulty: tuple[float, float] | None = None
    """Lowest and highest score, by what is known before anything has run."""
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Candidates in the order in which to try them, and what was passed over."""

    candidates: tuple[Candidate, ...]
    passed_over: Mapping[str, int]
    """Reason -> units and modes: ``too_small``, ``too_large``, ``passes_on``, ``runs_at_import``, ``no_test_enters``,
    ``too_central``, ``needed_at_import``, ``not_so_hard``, ``enough_of_module``."""
    considered: int
    """Units looked at; constants are none."""
    entered: int = 0
    """Of these, entered by a stable test."""


class _Entered:
    """Who enters what, by the test map."""

    def __init__(self, test_map: TestMap) -> None:
        self.order = {name: place for place, name in enumerate(test_map.stable_ids)}
        self._by_number: dict[int, list[str]] = defaultdict(list)
        for record in test_map.tests:
            if record.stable:
                for number in record.enters:
                    self._by_number[number].append(record.id)
        self._numbers = {function: number for number, function in enumerate(test_map.functions)}
        self._at_import = frozenset(test_map.unattributed)

    def _number(self, symbol: Symbol) -> int:
        return self._numbers.get((symbol.path, symbol.qualname, symbol.line), -1)

    def tests(self, symbols: Sequence[Symbol]) -> tuple[str, ...]:
        """Stable ids that enter any of ``symbols``, in the suite's order."""
        found = {name for symbol in symbols for name in self._by_number.get(self._number(symbol), ())}
        return tuple(sorted(found, key=self.order.__getitem__))

    def at_import(self, symbols: Sequence[Symbol]) -> bool:
        return any(self._number(symbol) in self._at_import for symbol in symbols)


def select(
    units: Mapping[str, Unit],
    test_map: TestMap,
    wanted: Wanted,
    *,
    near: Mapping[str, Sequence[str]] | None = None,
    stays: Callable[[Candidate], bool] = lambda _candidate: False,
    asserting: Callable[[str], bool] = lambda _test: True,
) -> Selection:
    """Choose features that stable tests enter and that are more than a line.

    The order is the same for the same input and seed: shuffled, spread over modes, then kinds of unit, then files; of
    those the ones first whose tests are several and assert something. All are returned, since only trying tells how
    many become tasks.

    Args:
        units: of the project, by key.
        test_map: of the same snapshot. A function is found in it by path, qualified name and first line.
        near: key -> keys of its near-copies, which join a removal.
        stays: whether all of a removal would stay as stubs, for what tests that do not enter it import.
        asserting: whether a test checks anything in its own body, by id.
    """
    entered = _Entered(test_map)
    passed_over: Counter[str] = Counter()
    eligible: dict[Mode, list[Candidate]] = {}
    ordered_units = sorted(units.values(), key=lambda unit: (unit.path, unit.line, unit.qualname))
    good = {unit.key: unit for unit in ordered_units if unit.kind != "constant"}
    chooser = _Chooser(good, entered, wanted, near or {}, stays, passed_over)
    for mode in wanted.modes:
        found = list(chooser.candidates(mode))
        eligible[mode] = _of_difficulty(found, units, wanted, passed_over)
    ordered = _in_order(eligible, units, asserting, wanted.seed)
    kept: list[Candidate] = []
    modules: Counter[tuple[str, str]] = Counter()
    for candidate in ordered:
        place = (candidate.mode, candidate.symbols[0].path)
        if wanted.per_module is not None and modules[place] >= wanted.per_module:
            passed_over["enough_of_module"] += 1
            continue
        modules[place] += 1
        kept.append(candidate)
    return Selection(
        candidates=tuple(kept),
        passed_over=dict(sorted(passed_over.items())),
        considered=len(good),
        entered=sum(bool(entered.tests(unit.symbols)) for unit in good.values()),
    )


class _Chooser:
    def __init__(
        self,
        units: Mapping[str, Unit],
        entered: _Entered,
        wanted: Wanted,
        near: Mapping[str, Sequence[str]],
        stays: Callable[[Candidate], bool],
        passed_over: Counter[str],
    ) -> None:
        self.units, self.entered, self.wanted = units, entered, wanted
        self.near, self.stays, self.passed_over = near, stays, passed_over
        self._near_of: dict[str, list[str]] = defaultdict(list)
        for key in near:
            self._near_of[key.partition("::")[0]].append(key)

    def candidates(self, mode: Mode) -> Iterator[Candidate]:
        if mode == "module":
            yield from self._modules()
        elif mode == "cluster":
            yield from self._clusters()
        else:
            for unit in self.units.values():
                if mode == "stub" and unit.kind not in _GROUPS:
                    continue
                candidate = None
                if not (reason := self._reason(unit, mode)):
                    candidate = self._of([unit, *self._copies([unit])], mode)
                    # All that could be done is what mode stub does.
                    reason = "needed_at_import" if mode == "remove" and self.stays(candidate) else ""
                if candidate is None or reason:
                    self.passed_over[reason] += 1
                else:
                    yield candidate

    def _reason(self, unit: Unit, mode: Mode) -> str:
        if unit.lines < self.wanted.min_lines or sum(symbol.statements for symbol in unit.symbols) < 2:
            return "too_small"
        if unit.lines > self.wanted.max_lines:
            return "too_large"
        if all(symbol.forwards or symbol.statements < 2 for symbol in unit.symbols):
            return "passes_on"
        if self.entered.at_import(unit.symbols):
            return "runs_at_import"
        if mode == "remove" and unit.at_import:
            return "needed_at_import"
        tests = self.entered.tests(unit.symbols)
        return self._by_tests(tests)

    def _by_tests(self, tests: Sequence[str]) -> str:
        if not tests:
            return "no_test_enters"
        return "too_central" if len(tests) > TOO_CENTRAL * max(10, len(self.entered.order)) else ""

    def _copies(self, chosen: Sequence[Unit], path: str = "") -> list[Unit]:
        """Near-copies of ``chosen`` that have to go with it, from elsewhere than the file ``path``.

        None where they are many or run at import: the task then says so, and the search for leaks has the last word.
        """
        inside = {unit.key for unit in chosen}
        whole = {f"{key}." for key in inside if self.units[key].kind == "class"}

        def is_in(key: str) -> bool:
            return key in inside or (bool(path) and key.startswith(f"{path}::")) or any(map(key.startswith, whole))

        found: dict[str, Unit] = {}
        paths = dict.fromkeys(it.path for it in chosen)
        for key in [key for place in paths for key in self._near_of.get(place, ()) if is_in(key)]:
            near = [it for it in self.near[key] if it in self.units and not is_in(it)]
            if len(near) > MAX_SIBLINGS or any(self.entered.at_import(self.units[it].symbols) for it in near):
                return []
            found.update((it, self.units[it]) for it in near)
        return list(found.values()) if len(found) <= MAX_SIBLINGS * len(chosen) else []

    def _of(self, units: Sequence[Unit], mode: Mode, files: tuple[str, ...] = ()) -> Candidate:
        symbols = tuple(symbol for unit in units for symbol in unit.symbols)
        return Candidate(
            mode=mode,
            symbols=symbols,
            tests=self.entered.tests(symbols),
            units=tuple(unit.key for unit in units),
            files=files,
        )

    def _modules(self) -> Iterator[Candidate]:
        by_path: dict[str, list[Unit]] = defaultdict(list)
        for unit in self.units.values():
            by_path[unit.path].append(unit)
        for path, units in by_path.items():
            outer = [unit for unit in units if not any(unit.qualname.startswith(f"{it.qualname}.") for it in units)]
            if not any(unit.symbols for unit in outer):
                continue
            lines = sum(unit.lines for unit in outer)
            symbols = tuple(symbol for unit in outer for symbol in unit.symbols)
            if lines < self.wanted.min_lines:
                self.passed_over["too_small"] += 1
            elif lines > self.wanted.max_lines:
                self.passed_over["too_large"] += 1
            elif reason := self._by_tests(self.entered.tests(symbols)):
                self.passed_over[reason] += 1
            else:
                own = [unit for unit in outer if unit.symbols]
                yield self._of([*own, *self._copies(own, path)], "module", (path,))

    def _clusters(self) -> Iterator[Candidate]:
        fit = {}
        for key, unit in self.units.items():
            tests = self.entered.tests(unit.symbols)
            if unit.at_import or self.entered.at_import(unit.symbols) or self._by_tests(tests):
                continue
            fit[key] = tests
        for keys in clusters(self.units, fit, self.wanted.cluster, seed=self.wanted.seed):
            chosen = [self.units[key] for key in keys]
            yield self._of([*chosen, *self._copies(chosen)], "cluster")


def _of_difficulty(
    found: Sequence[Candidate], units: Mapping[str, Unit], wanted: Wanted, passed_over: Counter[str]
) -> list[Candidate]:
    if wanted.difficulty is None:
        return list(found)
    low, high = wanted.difficulty
    kept = []
    for candidate in found:
        fan_in = sum(units[key].fan_in for key in candidate.units)
        score = difficulty(
            lines=sum(symbol.body_lines for symbol in candidate.symbols),
            files=len({symbol.path for symbol in candidate.symbols}),
            symbols=len(candidate.symbols),
            complexity=sum(symbol.complexity for symbol in candidate.symbols),
            tests=len(candidate.tests),
            fan_in=fan_in,
        )
        if low <= score <= high:
            kept.append(candidate)
        else:
            passed_over["not_so_hard"] += 1
    return kept


def _in_order(
    eligible: Mapping[Mode, Sequence[Candidate]],
    units: Mapping[str, Unit],
    asserting: Callable[[str], bool],
    seed: int,
) -> Iterator[Candidate]:
    """One of each mode in turn; within a mode one of each kind of unit and file in turn."""
    queues = []
    for mode, found in eligible.items():
        shuffled = list(found)
        random.Random(f"{seed} {mode}").shuffle(shuffled)  # noqa: S311 - an order, not a secret
        shuffled.sort(key=lambda it: _rank(it, asserting))
        groups: dict[tuple[str, str], list[Candidate]] = defaultdict(list)
        for candidate in shuffled:
            kind = units[candidate.units[0]].kind if candidate.units else ""
            groups[candidate.symbols[0].path, kind].append(candidate)
        queues.append(list(_in_turn(list(groups.values()), asserting)))
    for place in range(max(map(len, queues), default=0)):
        yield from (queue[place] for queue in queues if place < len(queue))


def _rank(candidate: Candidate, asserting: Callable[[str], bool]) -> int:
    """0 for a feature that several tests enter which assert something."""
    checking = sum(asserting(test) for test in candidate.tests[:50])
    return 0 if checking > 1 else 1 if checking else 2


def _in_turn(groups: Sequence[Sequence[Candidate]], asserting: Callable[[str], bool]) -> Iterator[Candidate]:
    for place in range(max(map(len, groups), default=0)):
        yield from sorted(
            (group[place] for group in groups if place < len(group)), key=lambda it: _rank(it, asserting)
        )
