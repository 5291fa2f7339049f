from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from taskforge.model import Entry, Tree
from taskforge.sandbox import Environment, Limits, SandboxSpec
from taskforge.sandbox.pool_kin import Layouts, difference
from taskforge.sandbox.pool_memory import available_bytes
from taskforge.sandbox.pool_shelf import WINDOW, Demand

TREE = Tree({
    "tests/test_a.py": Entry(b"1"),
    "src/a.py": Entry(b"1"),
    "src/b.py": Entry(b"1"),
    "src/link": Entry(b"a.py", "link"),
    "setup.cfg": Entry(b"1"),
})  # fmt: skip
OVERLAY = Tree({"src/_version.py": Entry(b"1")})


@pytest.fixture
def spec() -> SandboxSpec:
    root = Path("/nowhere")
    environment = Environment(
        digest="e" * 64, root=root, interpreter=root, base_prefix=root, python="3.12.1", overlay=OVERLAY
    )
    return SandboxSpec(environment=environment, tree=TREE, protected=("tests/", "setup.cfg", "src/link"))


def kin(one, other):
    layouts = Layouts()
    return layouts.of(one).kin == layouts.of(other).kin


def with_tree(spec, changes):
    return dataclasses.replace(spec, tree=spec.tree.with_changes(changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"src/a.py": Entry(b"2")},
        {"src/a.py": Entry(b"1", "exec")},
        {"src/a.py": Entry(b"b.py", "link")},
        {"src/a.py": None, "src/c.py": Entry(b"1")},
        # A link that is protected by its own name cannot be bound: it is laid.
        {"src/link": Entry(b"b.py", "link")},
        # What the overlay covers anyway.
        {"src/_version.py": Entry(b"2")},
    ],
)
def test_what_differs_in_free_files_is_kin(spec, changes):
    assert kin(spec, with_tree(spec, changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"tests/test_a.py": Entry(b"2")},
        {"tests/test_a.py": Entry(b"1", "exec")},
        {"setup.cfg": None},
        {"src/deep/new.py": Entry(b"1")},
        {"src/a.py/inside": Entry(b"1"), "src/a.py": None},
        # An interpreter imports these, or reads them, when it starts.
        {"src/sitecustomize.py": Entry(b"")},
        {"src/usercustomize.py": Entry(b"")},
        {"extra.pth": Entry(b"src")},
    ],
)
def test_what_was_fixed_at_start_is_no_kin(spec, changes):
    assert not kin(spec, with_tree(spec, changes))


def test_what_a_spec_says_besides_its_tree_is_no_kin(spec):
    for changes in (
        {"limits": Limits(pids=100)},
        {"profile": "solve"},
        {"tools": True},
        {"protected": ("tests/",)},
        {"environment": dataclasses.replace(spec.environment, digest="f" * 64)},
    ):
        assert not kin(spec, dataclasses.replace(spec, **changes))


def test_a_tree_with_one_name_twice_is_kin_to_itself_alone(spec):
    twice = with_tree(spec, {"src": Entry(b"a file, too")})
    assert kin(twice, with_tree(twice, {}))
    assert not kin(twice, with_tree(twice, {"src/a.py": Entry(b"2")}))


def test_a_difference_deletes_first(spec):
    layouts = Layouts()
    have = layouts.of(spec).free
    want = layouts.of(with_tree(spec, {"src/a.py": Entry(b"2"), "src/b.py": None, "src/0": Entry(b"0")})).free
    changes = difference(have, want)
    assert list(changes.items()) == [("src/b.py", None), ("src/0", Entry(b"0")), ("src/a.py", Entry(b"2"))]
    assert Tree(have).with_changes(changes) == Tree(want)
    assert difference(want, want) == {}


def test_only_so_many_layouts_are_kept(spec):
    layouts = Layouts()
    for number in range(200):
        layouts.of(with_tree(spec, {"src/a.py": Entry(b"%d" % number)}))
    assert len(layouts._known) == 64


def test_a_peak_is_forgotten_after_two_windows(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("taskforge.sandbox.pool_shelf.time.monotonic", lambda: now[0])
    demand = Demand()
    for _ in range(3):
        demand.enter()
    for _ in range(3):
        demand.leave()
    demand.enter()
    assert (demand.out, demand.peak()) == (1, 3)
    now[0] += WINDOW + 1
    assert demand.peak() == 3
    now[0] += WINDOW + 1
    assert demand.peak() == 1
    demand.leave()
    now[0] += 2 * WINDOW + 1
    assert demand.peak() == 0


MEMINFO = "MemTotal:       9000 kB\nMemFree:        10 kB\nMemAvailable:   8000 kB\n"


def machine(place: Path, cgroup: str, files: dict[str, str]) -> tuple[Path, Path]:
    for name, text in {"proc/meminfo": MEMINFO, "proc/self/cgroup": cgroup, **files}.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return place / "proc", place / "groups"


@pytest.mark.parametrize(
    ("cgroup", "files", "kib"),
    [
        ("", {}, 8000),
        ("0::/a/b\n", {"groups/a/b/memory.max": "max\n", "groups/a/b/memory.current": "4096\n"}, 8000),
        # The narrowest of all above counts, and files that nobody uses do not.
        (
            "0::/a/b\n",
            {
                "groups/a/memory.max": "4096000\n", "groups/a/memory.current": "2048000\n",
                "groups/a/memory.stat": "anon 5\ninactive_file 1024000\n",
                "groups/a/b/memory.max": "9999999999\n", "groups/a/b/memory.current": "1\n",
            },
            3000,
        ),
        (
            "4:memory:/x\n1:cpu:/\n0::/\n",
            {
                "groups/memory/x/memory.limit_in_bytes": "2048000\n", "groups/memory/x/memory.usage_in_bytes": "1024000\n",
                "groups/memory/x/memory.stat": "inactive_file 7\ntotal_inactive_file 512000\n",
                "groups/memory/memory.limit_in_bytes": "9223372036854771712\n", "groups/memory/memory.usage_in_bytes": "1\n",
            },
            1500,
        ),
        ("0::/a\n", {"groups/a/memory.max": "1024\n", "groups/a/memory.current": "4096\n"}, 0),
        # In a container, the path is of the host's tree: the limit is that of the root.
        ("0::/not/here\n", {"groups/memory.max": "1024000\n", "groups/memory.current": "0\n"}, 1000),
    ],
)  # fmt: skip
def test_what_the_machine_has_left(tmp_path, cgroup, files, kib):
    assert available_bytes(*machine(tmp_path, cgroup, files)) == kib * 1024


def test_a_machine_that_tells_nothing_limits_nothing(tmp_path):
    assert available_bytes(tmp_path, tmp_path) == 1 << 60


def test_this_machine_has_some_left():
    total = next(int(line.split()[1]) for line in Path("/proc/meminfo").read_text().splitlines() if "MemTotal" in line)
    assert 1 << 20 < available_bytes() <= total * 1024
