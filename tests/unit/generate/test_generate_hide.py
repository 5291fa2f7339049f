"""What goes out of sight with a test: every id of its definition, files, helpers and data; and what may not."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from taskforge.errors import TaskRejected
from taskforge.generate.hide import Hiding, hide
from taskforge.generate.hide_data import Hidden, hidden_data
from taskforge.languages import language
from taskforge.model import Entry, TestMap, Tree
from taskforge.model import TestRecord as Record

PYTHON = language("python")


def suite(*tests: tuple[str, str], skipped: tuple[str, ...] = ()) -> TestMap:
    """A map of ``(id, defined)``."""
    records = tuple(
        Record(
            id=name,
            file=name.split("::")[0],
            defined=defined,
            outcomes=("skipped",) if name in skipped else ("passed",),
            seconds=0.0,
        )
        for name, defined in tests
    )
    return TestMap(snapshot="", environment="", functions=(), tests=records, recorder="monitoring")


def tree(files: Mapping[str, str]) -> Tree:
    return Tree({path: Entry(text.encode()) for path, text in files.items()})


def whole(files: Mapping[str, str], tests: TestMap, *required: str) -> Hiding:
    return hide(tree(files), tests, required, language=PYTHON)


A, B = "tests/test_a.py", "tests/test_b.py"
TWO = suite((f"{A}::test_x", f"{A}::test_x"), (f"{A}::test_y", f"{A}::test_y"), (f"{B}::test_z", f"{B}::test_z"))


def test_one_id_takes_all_of_its_definition_with_it_and_inherited_ones_in_other_files() -> None:
    base = "tests/base.py::Base.test_x"
    tests = suite(
        (f"{A}::TestA::test_x[1]", base), (f"{A}::TestA::test_x[2]", base), (f"{B}::TestB::test_x[1]", base),
        (f"{B}::test_other", f"{B}::test_other"),
    )  # fmt: skip
    found = whole({A: "", B: "", "tests/base.py": ""}, tests, f"{A}::TestA::test_x[1]")
    assert found.definitions == (base,)
    assert found.tests == (f"{A}::TestA::test_x[1]", f"{A}::TestA::test_x[2]", f"{B}::TestB::test_x[1]")
    assert found.whole == ("tests/base.py", A)
    # Nobody can cut the import out of B here, so that B goes as well.
    found = whole({A: "import base", B: "import base", "tests/base.py": ""}, tests, f"{A}::TestA::test_x[1]")
    assert (found.whole, len(found.tests)) == (("tests/base.py", A, B), 4)


def test_without_a_reader_a_file_goes_whole_and_takes_the_rest_of_it_along() -> None:
    found = whole({A: "", B: ""}, TWO, f"{A}::test_x")
    assert (found.whole, found.tests) == ((A,), (f"{A}::test_x", f"{A}::test_y"))
    assert found.changes(tree({A: "", B: ""})) == {A: None}


def test_a_file_that_goes_whole_takes_what_is_inherited_from_it() -> None:
    tests = suite((f"{A}::made", ""), (f"{A}::TestA::test_x", f"{A}::TestA.test_x"), (f"{B}::TestB::test_x", f"{A}::TestA.test_x"))
    found = whole({A: "", B: ""}, tests, f"{A}::made")
    assert (found.whole, found.tests) == ((A, B), tuple(record.id for record in tests.tests))


def cut(files: Mapping[str, str], tests: TestMap, *required: str, only_tests: bool = False) -> Hiding:
    """With a reader."""
    made = tree(files)
    project = PYTHON.project({path: it.data for path, it in made.items()}, is_product=lambda path: path.startswith("src/"))
    return hide(made, tests, required, language=PYTHON, project=project, only_tests=only_tests)


XY = "def test_x(): pass\n\n\ndef test_y(): pass\n"


def test_a_file_with_another_test_is_cut_and_one_with_none_that_runs_goes_whole() -> None:
    pair = ((f"{A}::test_x", f"{A}::test_x"), (f"{A}::test_y", f"{A}::test_y"))
    found = cut({A: XY}, suite(*pair), f"{A}::test_x")
    assert (found.whole, found.pruned, found.tests) == ((), {A: b"def test_y(): pass\n"}, (f"{A}::test_x",))
    found = cut({A: XY}, suite(*pair, skipped=(f"{A}::test_y",)), f"{A}::test_x")
    assert (found.whole, found.pruned, found.tests) == ((A,), {}, (f"{A}::test_x", f"{A}::test_y"))


def test_a_file_that_others_import_is_cut_although_all_its_tests_go() -> None:
    files = {A: f"def helper(): return 1\n\n\n{XY}", B: "from test_a import helper\ndef test_z(): helper()\n"}
    found = cut(files, TWO, f"{A}::test_x", f"{A}::test_y")
    assert (found.whole, list(found.pruned)) == ((), [A])
    assert found.pruned[A].startswith(b"def helper")
    assert b"test_" not in found.pruned[A]
    assert found.notes == (f"{A} stays in part: {B} imports it",)
    found = cut({**files, B: ""}, TWO, f"{A}::test_x", f"{A}::test_y")
    assert (found.whole, found.pruned) == ((A,), {})


def test_a_file_that_cannot_be_cut_goes_whole() -> None:
    found = cut({A: "def test_x(:\n", B: ""}, TWO, f"{A}::test_x")
    assert (found.whole, found.tests) == ((A,), (f"{A}::test_x", f"{A}::test_y"))


def test_helpers_in_files_of_their_own_go_unless_told_otherwise() -> None:
    helpers = "tests/helpers.py"
    files = {
        A: "from helpers import h, k\n\n\ndef test_x(): h()\n\n\ndef test_y(): k()\n",
        helpers: "def h(): return 1\n\n\ndef k(): return 2\n",
    }
    found = cut(files, TWO, f"{A}::test_x")
    assert found.along == {helpers: ("h",)}
    assert found.pruned[helpers] == b"def k(): return 2\n"
    found = cut(files, TWO, f"{A}::test_x", only_tests=True)
    assert (list(found.pruned), found.along) == ([A], {})


@pytest.mark.parametrize(
    ("file", "defined"),
    [
        ("src/pkg/core.py", "src/pkg/core.py::"),
        ("tests/test_a.py", "src/pkg/suite.py::Base.test_x"),
        ("tests/conftest.py", "tests/conftest.py::test_x"),
        ("tests/gone.yaml", ""),
    ],
)
def test_what_cannot_be_hidden_is_refused(file: str, defined: str) -> None:
    files = {"src/pkg/core.py": "", "src/pkg/suite.py": "", A: "", "tests/conftest.py": ""}
    with pytest.raises(TaskRejected) as caught:
        whole(files, suite((f"{file}::test_x", defined)), f"{file}::test_x")
    assert caught.value.reason == "tests_inseparable"


def test_a_generated_test_in_a_file_that_others_import_is_refused() -> None:
    tests = suite((f"{A}::made", ""), (f"{B}::test_z", f"{B}::test_z"))
    with pytest.raises(TaskRejected, match="imports it"):
        whole({A: "", B: "from tests import test_a"}, tests, f"{A}::made")
    assert whole({A: "", B: "from tests import test_c"}, tests, f"{A}::made").whole == (A,)


# -- data -----------------------------------------------------------------------------------------------------------

CUT = "import json\ndef test_x():\n    assert read('cut.json') == 'something expected'\n"
LEFT = "def test_y():\n    assert read('left.json')\n"


def data(files: Mapping[str, str], *, left: str | None = LEFT, remaining: tuple[str, ...] = ("test_y",)) -> tuple[str, ...]:
    """Data that goes with ``test_x``; ``test_y`` stays in the same file, or in none."""
    made = tree({A: CUT + LEFT, B: "def test_z(): read('third.json')\n", **files})
    hidden = Hidden(
        definitions=[f"{A}::test_x"],
        files=frozenset() if left is not None else frozenset({A}),
        pruned={A: left.encode()} if left is not None else {},
    )
    stay = [f"{A}::{name}" for name in remaining if left is not None] + [f"{B}::test_z"]
    return hidden_data(made, hidden, remaining=stay, language=PYTHON).gone


@pytest.mark.parametrize(
    "path",
    [
        "tests/cassettes/test_x.yaml",
        "tests/cassettes/test_a/test_x.yaml",
        "tests/cassettes/test_a.test_x.yaml",
        "tests/test_a/test_x.yml",
        "tests/test_a/test_x[1-2].txt",
        "tests/test_a.test_x.approved.txt",
        "tests/__snapshots__/test_a/test_x.png",
    ],
)
def test_data_named_after_a_hidden_test_goes(path: str) -> None:
    assert data({path: "x"}) == (path,)
    # The twin: the same for the test that stays.
    assert data({path.replace("test_x", "test_y"): "x"}) == ()
    # A test of that name that stays needs it.
    assert data({path: "x"}, remaining=("test_y", "TestB.test_x")) == ()


def test_the_longest_name_decides() -> None:
    assert data({"tests/cassettes/test_x_y.yaml": "x"}, remaining=("test_y", "test_x_y")) == ()
    assert data({"tests/cassettes/test_x_y.yaml": "x"}) == ("tests/cassettes/test_x_y.yaml",)


@pytest.mark.parametrize(
    "path",
    [
        "tests/test_a/any.bin",
        "tests/__snapshots__/test_a.ambr",
        "tests/__snapshots__/test_a/any.svg",
        "tests/snapshots/snap_test_a.py",
        "tests/cassettes/test_a.yaml",
        "tests/test_a.approved.txt",
    ],
)
def test_data_of_a_module_goes_with_the_whole_module_only(path: str) -> None:
    assert data({path: "x"}, left=None) == (path,)
    assert data({path: "x"}) == ()
    assert data({path.replace("test_a", "test_b"): "x"}, left=None) == ()


def test_data_goes_by_the_name_that_only_hidden_code_holds() -> None:
    files = {"tests/data/cut.json": "", "tests/data/left.json": "", "tests/data/third.json": "", "tests/data/none": ""}
    assert data(files) == ("tests/data/cut.json",)
    # By name as well as in code that stays: it is needed.
    assert data({"tests/data/cut.json": "", "tests/helpers.py": "NAME = 'cut.json'\n"}) == ()
    # Data of the product, and links, are not the tests'.
    assert data({"src/pkg/cut.json": ""}) == ()


def test_data_that_nobody_names_goes_when_it_holds_an_expected_value() -> None:
    assert data({"tests/data/none": "x something expected x"}) == ("tests/data/none",)
    assert data({"tests/data/none": "x something else x"}) == ()
    assert data({"tests/data/none": "something expected"}, left=LEFT + "FOLDER = 'data'\n") == ()


def test_a_shared_snapshot_file_loses_the_sections_of_hidden_tests() -> None:
    head = "# serializer version: 1\n"
    sections = [f"# name: {name}\n  'value'\n# ---\n" for name in ("test_x", "test_x.1", "test_x[1]", "test_x_y", "test_y")]
    path = "tests/__snapshots__/test_a.ambr"
    made = tree({A: CUT + LEFT, path: head + "".join(sections)})
    hidden = Hidden(definitions=[f"{A}::test_x"], files=frozenset(), pruned={A: LEFT.encode()})
    found = hidden_data(made, hidden, remaining=[f"{A}::test_y"], language=PYTHON)
    assert found.pruned == {path: (head + "".join(sections[3:])).encode()}
    assert found.gone == ()
