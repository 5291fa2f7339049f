"""What a removal may do to the collection of tests, and to those that only miss a name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from taskforge.errors import TaskRejected
from taskforge.languages import Project
from taskforge.model import Candidate, TestMap
from taskforge.sandbox import RunResult, TestReport

__all__ = ["Pins", "broken_collection", "import_only", "removed_names"]

_NAMING = frozenset({"AttributeError", "ImportError", "ModuleNotFoundError", "NameError"})


class Pins:
    """What has to stay as a stub, since test modules that hold other tests need it to be imported."""

    def __init__(self, project: Project, test_map: TestMap) -> None:
        self._project = project
        self._held = Counter(record.file for record in test_map.tests if record.stable)
        self._file = {record.id: record.file for record in test_map.tests if record.stable}

    def of(self, feature_tests: Collection[str]) -> dict[str, str]:
        """Unit key -> why it has to stay; for :meth:`~taskforge.languages.Project.plan`.

        Keys of units outside of the feature are among them: something that would go along with it may be one.
        """
        going = Counter(self._file[name] for name in set(feature_tests) if name in self._file)
        found: dict[str, str] = {}
        for path, held in self._held.items():
            if going[path] < held:
                for key in sorted(self._project.top_level_imports(path)):
                    found.setdefault(key, f"{path} imports it and holds tests that do not enter it")
        return found


def broken_collection(
    test_map: TestMap, wanted: Sequence[str], feature_tests: Collection[str], result: RunResult
) -> dict[str, str]:
    """Stable id -> why its collector failed, of modules and classes whose every stable test enters the feature.

    Raises:
        TaskRejected: ``collection_breaks`` when another collector failed that did not fail before;
            ``collection_changes`` when another of ``wanted`` is not collected, or is collected twice.
    """
    feature = set(feature_tests)
    known = set(test_map.collection_errors)
    broken: dict[str, str] = {}
    for name, reason in result.collection_errors.items():
        if name in known:
            continue
        below = [it.id for it in test_map.tests if it.stable and (it.file == name or it.id.startswith(f"{name}::"))]
        if not below or not feature.issuperset(below):
            last = reason.strip().splitlines()[-1:] or [""]
            raise TaskRejected("collection_breaks", f"{name} is not collected any more: {last[0][:200]}")
        broken.update(dict.fromkeys(below, reason))
    counts = Counter(result.collected)
    lost = [name for name in wanted if name not in counts and name not in broken]
    if lost:
        raise TaskRejected("collection_changes", f"{len(lost)} tests are not collected any more: {min(lost)}")
    twice = [name for name in wanted if counts[name] > 1]
    if twice:
        raise TaskRejected("collection_changes", f"{len(twice)} tests are collected more than once: {min(twice)}")
    return broken


def removed_names(candidate: Candidate) -> frozenset[str]:
    """Plain names of what goes: units, functions, modules."""
    keys = [*candidate.units, *(symbol.qualname for symbol in candidate.symbols)]
    names = {key.rpartition("::")[2].rpartition(".")[2] for key in keys}
    return frozenset(names | {path.rpartition("/")[2].rpartition(".")[0] for path in candidate.files})


def import_only(
    failing: Iterable[str], broken: Mapping[str, str], outcomes: Mapping[str, TestReport], names: Collection[str]
) -> tuple[str, ...]:
    """Those of ``failing`` whose error says that one of ``names`` is not there.

    Args:
        broken: id -> why its module was not collected.
    """
    words = f"(?:{'|'.join(map(re.escape, sorted(names)))})"
    missing = re.compile(
        rf"\b(?:{'|'.join(sorted(_NAMING))}): .*\b{words}\b"
        # In the words of the interpreter, where a library wrapped its error.
        rf"|(?:has no attribute|cannot import name|No module named|name) '(?:\w+\.)*{words}'"
    )
    found: list[str] = []
    for name in failing:
        if name in broken:
            text = broken[name]
        elif any(known in outcomes[name].cause for known in _NAMING):
            text = f"{outcomes[name].cause}: {outcomes[name].reason}"
        else:
            continue
        said = [line for line in text.splitlines() if line.startswith("E ")]
        if missing.search("\n".join(said or text.splitlines()[-1:])):
            found.append(name)
    return tuple(found)
