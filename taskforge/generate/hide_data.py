"""Data that belongs to hidden tests: expected output, recordings, snapshots.

Three ways to know it. By the name that a tool gives it after the test or its module; by a name that the code cut away
holds and no code left does; by an expected value in a file that no code names at all. A file that remaining code names
stays, whatever is in it: what remains has to run.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from taskforge.generate.definitions import literals
from taskforge.languages import Language
from taskforge.model import Entry, Tree

__all__ = ["Data", "Hidden", "hidden_data"]

_TOKEN = re.compile(r"[\w.@+%-]+")
_SECTION = re.compile(rb"^# name: ", re.MULTILINE)
#: Folders that tools make beside a test module, for one file a test.
_PER_TEST: Final = frozenset({"__snapshots__", "approved", "approved_files", "cassettes", "golden", "snapshots"})
#: What follows a test's name in the name of its file: parameters, an extension, a number.
_AFTER = re.compile(r"[\[.\-@_ (]")
#: Characters from which a string tells something.
_TELLING: Final = 8


@dataclass(frozen=True, kw_only=True)
class Hidden:
    """The code that goes."""

    definitions: Collection[str]
    """``path::qualname``."""
    files: frozenset[str]
    """Files that go whole."""
    pruned: Mapping[str, bytes]
    """Path -> what is left of a file that is cut."""


@dataclass(frozen=True, kw_only=True)
class Data:
    """The data that goes with it."""

    gone: tuple[str, ...] = ()
    pruned: Mapping[str, bytes] = field(default_factory=dict)
    """Snapshot files that several tests share, without the sections of hidden ones."""
    notes: tuple[str, ...] = ()


def hidden_data(tree: Tree, hidden: Hidden, *, remaining: Collection[str], language: Language) -> Data:
    """Choose among the files below test folders that are neither code nor configuration.

    Args:
        remaining: ``path::qualname`` of the definitions that stay in sight, or ids of tests without one.
    """
    names = _Names(hidden, remaining)
    cut, left = _strings(tree, hidden, language)
    expected = [text.encode("utf-8", "surrogateescape") for text in cut if len(text) >= _TELLING]
    cut_tokens, left_tokens = _tokens(cut), _tokens(left)
    gone: list[str] = []
    pruned: dict[str, bytes] = {}
    notes: list[str] = []
    for path, entry in tree.items():
        if path in hidden.files or not _is_data(path, entry, language):
            continue
        shared = names.shared_snapshot(path)
        if shared:
            pruned[path] = _without_sections(entry.data, names.hidden_in(shared))
            if pruned[path] == entry.data:
                del pruned[path]
            continue
        by_cut, by_left = (_named(path, tokens, language) for tokens in (cut_tokens, left_tokens))
        tells = any(value in entry.data for value in expected)
        if "file" in by_left:
            if tells:
                notes.append(f"{path} stays: remaining code names it, although it holds what hidden tests expect")
        elif "file" in by_cut or names.belongs(path) or (not by_left and (by_cut or tells)):
            gone.append(path)
    return Data(gone=tuple(gone), pruned=pruned, notes=tuple(notes))


def _is_data(path: str, entry: Entry, language: Language) -> bool:
    if entry.kind == "link" or not language.is_test_path(path) or language.is_config_path(path):
        return False
    # snapshottest writes its snapshots as modules.
    return not language.is_source(path) or path.rpartition("/")[2].startswith("snap_")


class _Names:
    """Which test a file is named after."""

    def __init__(self, hidden: Hidden, remaining: Collection[str]) -> None:
        self.hidden = hidden
        self.by_module: dict[str, set[str]] = defaultdict(set)
        self.by_folder: dict[str, dict[str, bool]] = defaultdict(dict)
        for going, definitions in ((True, hidden.definitions), (False, remaining)):
            for one in definitions:
                path, _, qualname = one.partition("::")
                if going:
                    self.by_module[path].add(qualname)
                folder, module = _place(path)
                test = qualname.replace("::", ".").partition("[")[0]
                last = test.rpartition(".")[2]
                for name in {test, last, f"{module}.{test}", f"{module}.{last}"}:
                    # A name that a remaining test bears as well is not a hidden one's alone.
                    self.by_folder[folder][name] = going and self.by_folder[folder].get(name, True)

    def hidden_in(self, path: str) -> set[str]:
        return self.by_module[path]

    def shared_snapshot(self, path: str) -> str:
        """The module that is cut, where ``path`` is its one file of snapshots."""
        folder, name = _place(path)
        if not path.endswith(".ambr") or folder.rpartition("/")[2] != "__snapshots__":
            return ""
        module = f"{folder.rpartition('/')[0]}/{name}.py".lstrip("/")
        return module if module in self.hidden.pruned else ""

    def belongs(self, path: str) -> bool:
        """Whether ``path`` is named after a hidden test, or lies where its hidden module keeps its data."""
        folder = _place(path)[0]
        for file in self.hidden.files:
            home, module = _place(file)
            inside = path.removeprefix(f"{home}/" if home else "").split("/")
            if (home and not path.startswith(f"{home}/")) or not inside:
                continue
            below = inside[1:] if inside[0] in _PER_TEST else inside
            first = (below or [""])[0]
            if first in {module, f"snap_{module}.py"} or first.startswith(f"{module}."):
                return True
        for home, tests in self.by_folder.items():
            if not self._near(folder, home):
                continue
            # The longest name decides: `test_a_b.yaml` is of test_a_b, where there is one, and not of test_a.
            base = path.rpartition("/")[2]
            fits = [test for test in tests if base.startswith(test) and _AFTER.match(base[len(test) :] or ".")]
            if fits:
                return tests[max(fits, key=len)]
        return False

    def _near(self, folder: str, home: str) -> bool:
        """Whether tools keep what is made for one test of ``home`` in ``folder``."""
        if folder == home:
            return True
        inside = folder.removeprefix(f"{home}/" if home else "").split("/")
        modules = {_place(path)[1] for path in (*self.by_module, *self.hidden.pruned) if _place(path)[0] == home}
        return (not home or folder.startswith(f"{home}/")) and (inside[0] in _PER_TEST or inside[0] in modules)


def _place(path: str) -> tuple[str, str]:
    """``(folder, name without its last extension)``."""
    folder, _, name = path.rpartition("/")
    return folder, name.rpartition(".")[0] or name


def _without_sections(data: bytes, hidden: Collection[str]) -> bytes:
    """An ``.ambr`` file without the snapshots of hidden tests: ``# name: test_x``, ``# name: TestA.test_x[0].1``."""
    starts = [found.start() for found in _SECTION.finditer(data)]
    if not starts:
        return data
    kept = data[: starts[0]]
    for start, end in zip(starts, [*starts[1:], len(data)], strict=True):
        name = data[start:end].splitlines()[0].removeprefix(b"# name: ").decode("utf-8", "replace").partition("[")[0]
        if not any(name == test or name.startswith(f"{test}.") for test in hidden):
            kept += data[start:end]
    return kept


def _strings(tree: Tree, hidden: Hidden, language: Language) -> tuple[Counter[str], Counter[str]]:
    """String literals of the code that goes, and of the code that stays."""
    cut: Counter[str] = Counter()
    left: Counter[str] = Counter()
    for path, entry in tree.items():
        if entry.kind == "link" or not language.is_source(path):
            continue
        whole = Counter(literals(entry.data))
        if path in hidden.files:
            cut += whole
        elif path in hidden.pruned:
            stays = Counter(literals(hidden.pruned[path]))
            cut += whole - stays
            left += stays
        else:
            left += whole
    return cut, left


def _tokens(strings: Collection[str]) -> frozenset[str]:
    return frozenset(token for text in strings for token in _TOKEN.findall(text))


def _named(path: str, tokens: Collection[str], language: Language) -> frozenset[str]:
    """How code names a file: the ``file``, with its extension or without, or the ``folder`` that it lies in, of those
    below the folder of tests."""
    *folders, name = path.split("/")
    depth = next((at for at in range(len(folders)) if language.is_test_path("/".join([*folders[: at + 1], "zz"]))), 0)
    found = {"file" for one in (name, name.partition(".")[0]) if len(one) > 2 and one in tokens}
    found |= {"folder" for one in folders[depth + 1 :] if len(one) > 2 and one in tokens}
    return frozenset(found)
