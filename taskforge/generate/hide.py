"""What of the tests a solver does not see.

The unit hidden is the definition: a test that judges takes every other test of the same definition with it, inherited
ones in other files too, since one of them tells what the others ask. A file all of whose tests are hidden goes whole;
of others the definitions are cut out, with what only they used. Everything hidden comes back, whole and as it was, when
a submission is graded: the grader lays :attr:`Hiding.files` of the original over it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from taskforge.errors import TaskRejected
from taskforge.generate.definitions import classes, imported_names, top_level
from taskforge.generate.hide_data import Hidden, hidden_data
from taskforge.languages import Language, Project, SkippedFile
from taskforge.model import Changes, Entry, TestMap, TestRecord, Tree

__all__ = ["Hiding", "hide"]


@dataclass(frozen=True, kw_only=True)
class Hiding:
    """What a solver's workspace lacks of the tests."""

    tests: tuple[str, ...] = ()
    """Ids out of sight, in the suite's order: those that judge, and what shares a definition or a file with one."""
    definitions: tuple[str, ...] = ()
    """``path::qualname`` of the definitions behind them."""
    whole: tuple[str, ...] = ()
    """Test files that go."""
    pruned: Mapping[str, bytes] = field(default_factory=dict)
    """Path -> what is left of a file of which a part goes."""
    data: tuple[str, ...] = ()
    """Snapshots, cassettes and other data of hidden tests alone."""
    along: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Path -> helpers, fixtures and constants that went along with tests of it or of other files."""
    notes: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """All paths of which a solver sees less than the grader has."""
        return tuple(sorted({*self.whole, *self.pruned, *self.data}))

    def changes(self, tree: Tree) -> Changes:
        """What makes the visible tree of ``tree``."""
        left = {path: Entry(data, tree[path].kind) for path, data in self.pruned.items()}
        return {**left, **dict.fromkeys((*self.whole, *self.data))}

    def report(self) -> dict[str, object]:
        """JSON data for the task's sealed reports."""
        return {
            "definitions": list(self.definitions),
            "whole": list(self.whole),
            "pruned": sorted(self.pruned),
            "data": list(self.data),
            "along": {path: list(names) for path, names in self.along.items()},
            "notes": list(self.notes),
        }


def hide(
    tree: Tree,
    test_map: TestMap,
    required: Collection[str],
    *,
    language: Language,
    project: Project | None = None,
    whole: Collection[str] = (),
    only_tests: bool = False,
) -> Hiding:
    """Decide what goes out of sight.

    Args:
        tree: in which the tests are as they were; the feature may be gone from it.
        required: ids that judge.
        project: of the same tests; without one every file that holds a hidden definition goes whole.
        whole: files that go whole although a part of them could stay.
        only_tests: cut definitions of tests alone: helpers in files of their own, and all data, stay in sight.

    Raises:
        TaskRejected: ``tests_inseparable`` when a hidden test lies in a product file or a ``conftest.py``, or in a file
            that what remains needs and that cannot be cut.
    """
    suite = _Suite(test_map)
    files: Collection[str] = {*whole, *(() if project is not None else suite.places(required))}
    for _attempt in range(len(tree) + 1):
        closed = suite.closed(required, files)
        _refuse_inseparable(closed, tree, language)
        parts, along, notes, again = _cut(closed, suite, tree, language, project, whole, only_tests=only_tests)
        if not again:
            break
        files = closed.files | again
    else:
        raise AssertionError("unreachable")
    gone = closed.files - parts.keys()
    left = {path: data for path, data in parts.items() if data is not None}
    gone |= parts.keys() - left.keys()
    hiding = Hiding(
        tests=tuple(record.id for record in test_map.tests if record.id in closed.tests),
        definitions=tuple(sorted(closed.definitions)),
        whole=tuple(sorted(gone)),
        pruned=dict(sorted(left.items())),
        along={path: names for path, names in sorted(along.items()) if names},
        notes=notes,
    )
    if only_tests:
        return replace(hiding, notes=(*notes, "helpers and data stay: what remains did not run without them"))
    data = hidden_data(
        tree,
        Hidden(definitions=closed.definitions, files=frozenset(gone), pruned=left),
        remaining=frozenset(it.defined or it.id for it in test_map.tests if it.id not in closed.tests),
        language=language,
    )
    return replace(
        hiding,
        pruned=dict(sorted({**left, **data.pruned}.items())),
        data=data.gone,
        notes=(*notes, *data.notes),
    )


@dataclass(frozen=True)
class _Closed:
    """Sets that imply nothing more."""

    tests: frozenset[str]
    definitions: frozenset[str]
    files: frozenset[str]


class _Suite:
    """Tests by definition and by file."""

    def __init__(self, test_map: TestMap) -> None:
        self.records = {record.id: record for record in test_map.tests}
        self.by_definition: dict[str, set[str]] = defaultdict(set)
        self.by_file: dict[str, set[str]] = defaultdict(set)
        self.asking: dict[str, set[str]] = defaultdict(set)
        self.by_class: dict[tuple[str, str], set[str]] = defaultdict(set)
        for record in test_map.tests:
            self.by_definition[record.defined].add(record.id)
            for path in {record.file, _split(record.defined)[0]} - {""}:
                self.by_file[path].add(record.id)
                if not _never_runs(record):
                    self.asking[path].add(record.id)
            if owner := _owner(record):
                self.by_class[record.file, owner].add(record.id)

    def places(self, ids: Iterable[str]) -> set[str]:
        """The files that hold the definitions of ``ids``, or are collected for those without one."""
        records = [self.records[name] for name in ids]
        return {_split(record.defined)[0] or record.file for record in records}

    def closed(self, required: Iterable[str], whole: Iterable[str]) -> _Closed:
        """Everything that has to go with ``required`` and the files ``whole``."""
        tests, files, size = set(required), set(whole), -1
        while size != len(tests) + len(files):
            size = len(tests) + len(files)
            for name in list(tests):
                defined = self.records[name].defined
                path, qualname = _split(defined)
                if qualname:
                    tests |= self.by_definition[defined]
                else:
                    files.add(path or self.records[name].file)
            for path in files:
                tests |= self.by_file[path]
            # Tests that are skipped wherever this suite runs keep no file in sight.
            files.update(path for path, ids in self.asking.items() if ids and ids <= tests)
        definitions = {self.records[name].defined for name in tests}
        return _Closed(frozenset(tests), frozenset(one for one in definitions if _split(one)[1]), frozenset(files))

    def classes(self, path: str, tests: Collection[str]) -> set[str]:
        """Classes collected in ``path`` that have no test left."""
        return {owner for (file, owner), ids in self.by_class.items() if file == path and ids <= set(tests)}


def _split(defined: str) -> tuple[str, str]:
    path, _, qualname = defined.rpartition("::")
    return path, qualname


def _owner(record: TestRecord) -> str:
    """The class that it was collected in, dotted, as its id names it."""
    parts = record.id.partition("[")[0].split("::")
    return ".".join(parts[1:-1])


def _never_runs(record: TestRecord) -> bool:
    return set(record.outcomes) <= {"skipped"}


def _refuse_inseparable(closed: _Closed, tree: Tree, language: Language) -> None:
    for path in sorted({*closed.files, *(_split(one)[0] for one in closed.definitions)}):
        if path not in tree or tree[path].kind == "link":
            raise TaskRejected("tests_inseparable", f"{path} holds tests and is no file of the tree")
        if not language.is_test_path(path):
            raise TaskRejected("tests_inseparable", f"{path} holds tests and is no test file: it cannot be hidden")
        if language.is_config_path(path):
            raise TaskRejected("tests_inseparable", f"{path} holds tests and steers others: it cannot be hidden")


def _cut(
    closed: _Closed,
    suite: _Suite,
    tree: Tree,
    language: Language,
    project: Project | None,
    whole: Collection[str],
    *,
    only_tests: bool,
) -> tuple[dict[str, bytes | None], dict[str, tuple[str, ...]], tuple[str, ...], set[str]]:
    """``(path -> what is left of a file that is cut, names that went along, notes, files that have to go whole)``."""
    names: dict[str, set[str]] = defaultdict(set)
    for one in closed.definitions:
        path, qualname = _split(one)
        names[path].add(qualname)
    for path in {file for file, _owner in suite.by_class} & tree.keys():
        names[path] |= suite.classes(path, closed.tests) & classes(tree[path].data)
    needed = _needed(closed.files, tree, language)
    notes = [f"{path} stays in part: {by} imports it" for path, by in needed.items()]
    partly = {path: found for path, found in names.items() if found and (path not in closed.files or path in needed)}
    for path in closed.files:
        # A generated test, or one that no cut can reach, in a file that others import.
        if path in needed and any(not _split(suite.records[it].defined)[1] for it in suite.by_file[path]):
            raise TaskRejected("tests_inseparable", f"{path} has to be hidden whole, and {needed[path]} imports it")
    if project is None:
        return {}, {}, (), {*partly, *needed.values()} - closed.files
    # What cannot be read uses nothing that is known of.
    readable = [path for path in closed.files if language.is_source(path) and path not in project.skipped]
    gone = {path: top_level(tree[path].data) for path in readable if path not in partly}
    parts: dict[str, bytes | None] = {}
    along: dict[str, tuple[str, ...]] = {}
    again: set[str] = set()
    helpers = [] if only_tests else _helpers(tree, language, suite, {*partly, *closed.files})
    for path in [*sorted(partly), *helpers]:
        cut = partly.get(path, set())
        also = {**gone, **{other: found for other, found in partly.items() if other != path}}
        try:
            pruned = project.prune(path, sorted(cut), also=also)
        except SkippedFile as skip:
            if path in whole or path in needed:
                raise TaskRejected("tests_inseparable", f"{path} cannot be cut: {skip.message}") from skip
            notes.append(f"{path} is not cut ({skip.reason})")
            if cut:
                again.add(path)
            continue
        if pruned.data != tree[path].data:
            parts[path], along[path] = pruned.data, tuple(one for one in pruned.gone if one not in cut)
    return parts, along, tuple(notes), again


def _helpers(tree: Tree, language: Language, suite: _Suite, touched: Collection[str]) -> list[str]:
    """Modules among the tests that hold no test themselves, and may hold what only hidden tests used."""
    return [
        path
        for path, entry in tree.items()
        if path not in touched
        and entry.kind != "link"
        and path not in suite.by_file
        and language.is_source(path)
        and language.is_test_path(path)
    ]


def _needed(files: Collection[str], tree: Tree, language: Language) -> dict[str, str]:
    """Files that go, by one that stays and imports it; by the last part of its dotted name, so rather too many."""
    stems = {path.rpartition("/")[2].rpartition(".")[0]: path for path in files if language.is_source(path)}
    found: dict[str, str] = {}
    for path, entry in tree.items():
        if path in files or not language.is_test_path(path) or not language.is_source(path) or entry.kind == "link":
            continue
        for name in imported_names(entry.data):
            if name in stems:
                found.setdefault(stems[name], path)
    return found
