from __future__ import annotations

import pytest

from taskforge.errors import TaskRejected
from taskforge.generate.fairness import Hole, Judge
from taskforge.model import Entry, Tree

IO = b'''"""Reading."""
import random
import time

LIMIT = 4096


class Reader:
    """Reads."""

    mode: str = "fast"

    def __init__(self, path, *, strict=False):
        self.path = path
        self.hidden_state = 0

    def pull(self):
        raise LookupError(f"nothing left in {self.path}")

    def __repr__(self):
        return f"<{self.path}>"


def read(path, **options):
    if options.pop("lenient", False):
        return "lenient-result"
    if options:
        raise ValueError("unknown option: %s" % sorted(options))
    time.sleep(0.25)
    return b"\\x00abc"


def _helper():
    return 31337


def draw(n):
    return random.randrange(n)


def kept():
    return 1
'''
BEFORE = Tree(
    {
        "src/pkg/__init__.py": Entry(b"from .io import Reader, read\n__all__ = ['Reader', 'read']\n"),
        "src/pkg/io.py": Entry(IO),
        "src/pkg/other.py": Entry(b"def unrelated(verbose=False):\n    return 'common text'\n"),
    }
)
AFTER = Tree(
    {
        "src/pkg/__init__.py": Entry(b"__all__ = []\n"),
        "src/pkg/io.py": Entry(b'"""Reading."""\n\n\ndef kept():\n    return 1\n'),
        "src/pkg/other.py": BEFORE["src/pkg/other.py"],
    }
)


def holes(test: str, statement: str = "", *, required: str = "t.py::test_it", after: Tree = AFTER) -> list[Hole]:
    return list(Judge(BEFORE, after, {"t.py": test.encode()}, [required]).holes(statement))


def told(test: str, statement: str = "", **more: str) -> list[tuple[str, str]]:
    return [(hole.kind, hole.tell) for hole in holes(test, statement, **more)]


def test_an_import_of_what_is_gone_has_to_be_told_with_its_place() -> None:
    test = "from pkg import read\nfrom pkg.io import kept\n"
    assert holes(test) == [Hole(kind="import", what="pkg.read", where="t.py", tell="`from pkg import read`")]
    assert holes(test, "read is in pkg.io: `from pkg.io import read`") != []
    assert holes(test, "Import: `from pkg import read`.") == []


def test_a_name_read_of_a_module_is_an_import() -> None:
    assert told("import pkg.io\ndef test_it():\n    pkg.io.LIMIT\n") == [("import", "`from pkg.io import LIMIT`")]
    assert told("import pkg.io as i\ndef test_it():\n    i.read\n") == [("import", "`from pkg.io import read`")]
    assert told("from pkg import io\ndef test_it():\n    io._helper()\n") == [("import", "`from pkg.io import _helper`")]
    assert told("import pkg.io\ndef test_it():\n    pkg.io.kept()\n") == []


def test_what_hidden_tests_import_of_other_tests_comes_with_them() -> None:
    helpers = "src/tests/common.py"
    before, after = (tree.with_changes({helpers: Entry(code)}) for tree, code in ((BEFORE, b"def aid(): 0\n"), (AFTER, b"")))
    judge = Judge(before, after, {"t.py": b"from tests.common import aid\n"}, ["t.py::test_it"])
    assert judge.holes("") == ()


def test_a_module_that_is_gone_has_to_be_told() -> None:
    after = AFTER.with_changes({"src/pkg/io.py": None})
    assert [it.tell for it in holes("import pkg.io\n", after=after)] == ["the module `pkg.io`"]
    assert holes("import pkg.io\n", "It is `pkg.io`.", after=after) == []


def test_what_a_module_binds_by_other_means_cannot_be_told() -> None:
    after = AFTER.with_changes({"src/pkg/io.py": None})
    assert [(it.what, it.tell) for it in holes("from pkg.io import dynamic\n", after=after)] == [("pkg.io.dynamic", "")]
    assert holes("from pkg.other import dynamic\n") == []


def test_attributes_of_removed_classes_have_to_be_in_the_statement() -> None:
    test = "def test_it(reader):\n    reader.pull()\n    reader.hidden_state\n    reader.mode\n    reader.foreign\n"
    assert sorted(told(test)) == [
        ("attribute", "`.hidden_state`, of `Reader`"),
        ("attribute", "`.mode`, of `Reader`"),
        ("attribute", "`.pull`, of `Reader`"),
    ]
    assert told(test, "It has `pull`, `hidden_state` and `mode`.") == []


def test_an_attribute_that_a_stub_sets_is_told_unless_other_code_reads_it() -> None:
    stub = IO.replace(b"self.path = path\n        self.hidden_state = 0", b"raise NotImplementedError")
    after = BEFORE.with_changes({"src/pkg/io.py": Entry(stub)})
    test = "def test_it(reader):\n    reader.path\n    reader.hidden_state\n"
    assert [it.tell for it in holes(test, after=after)] == ["`.hidden_state`, of `Reader.__init__`"]


def test_keywords_that_no_signature_shows_have_to_be_told() -> None:
    call = "def test_it():\n    read('x', lenient=True)\n    other(lenient=True)\n"
    assert told(call) == [("keyword", "`lenient=`, of `read`")]
    assert told(call, "It takes `lenient`.") == []
    assert told("def test_it():\n    Reader('x', strict=True)\n") == [("keyword", "`strict=`, of `Reader`")]
    assert told("def test_it():\n    Reader('x', strict=True)\n", "def __init__(self, path, *, strict=False):") == []
    assert told("def test_it():\n    read('x', foreign=True, verbose=1)\n") == []


@pytest.mark.parametrize(
    "block",
    [
        "with pytest.raises(KeyError):\n        read('x')",
        "with pytest.raises((KeyError,)) as caught, other():\n        pkg.read('x')",
        "self.assertRaises(KeyError, read, 'x')",
        "with self.assertRaisesRegex(KeyError, ''):\n        read('x')",
        "with pytest.warns(KeyError):\n        read('x')",
    ],
)
def test_errors_expected_of_the_removed_code_have_to_be_told(block: str) -> None:
    assert told(f"def test_it():\n    {block}\n", "read") == [("exception", "`KeyError`")]
    assert told(f"def test_it():\n    {block}\n", "read raises `KeyError`.") == []


def test_errors_expected_of_other_code_are_not() -> None:
    assert told("def test_it():\n    with pytest.raises(KeyError):\n        kept()\n") == []
    assert told("def test_it():\n    with pytest.raises(kind):\n        read()\n") == []


@pytest.mark.parametrize(
    ("match", "tell"),
    [
        ("unknown option", "`unknown option: \N{HORIZONTAL ELLIPSIS}`"),
        (r"unknown option: \\['a', .*\\]$", "`unknown option: \N{HORIZONTAL ELLIPSIS}`"),
        ("(?i)UNKNOWN option", "`unknown option: \N{HORIZONTAL ELLIPSIS}`"),
        ("left in /tmp/x", "`nothing left in \N{HORIZONTAL ELLIPSIS}`"),
    ],
)
def test_messages_that_are_matched_have_to_be_told(match: str, tell: str) -> None:
    test = f"def test_it():\n    with pytest.raises(ValueError, match='''{match}'''):\n        pass\n"
    assert ("message", tell) in told(test)
    assert told(test, f"With the message {tell}.") == []


def test_messages_of_other_code_are_not_asked_for() -> None:
    assert told("def test_it():\n    with pytest.raises(ValueError, match='invalid literal for int'):\n        pass\n") == []


def test_texts_and_numbers_that_only_the_code_knew_have_to_be_told() -> None:
    assert told("def test_it():\n    assert read(1) == 'lenient-result'\n") == [("value", "`lenient-result`")]
    assert told("def test_it():\n    assert x == b'\\x00abc'\n") == [("value", r"`b'\x00abc'`")]
    assert told("def test_it():\n    assert x == 31337\n") == [("value", "`31337`")]
    assert told("def test_it():\n    assert str(e) == \"unknown option: ['a']\"\n") == [
        ("value", "`unknown option: \N{HORIZONTAL ELLIPSIS}`")
    ]
    assert told("def test_it():\n    assert repr(r) == '<there>'\n") == [("value", "`<\N{HORIZONTAL ELLIPSIS}>`")]
    assert told("def test_it():\n    assert x == 'common text' and y == 7 and z == 4711\n") == []


def test_an_answer_in_full_cannot_be_told() -> None:
    long = b"def table():\n    return '" + b"word " * 100 + b"'\n"
    before = Tree({"m.py": Entry(long)})
    test = b"def test_it():\n    x == '" + b"word " * 100 + b"'\n"
    judge = Judge(before, Tree({"m.py": Entry(b"")}), {"t.py": test}, ["t.py::test_it"])
    assert [(it.kind, it.tell) for it in judge.holes("")] == [("value", "")]


def test_names_that_tests_replace_have_to_be_told() -> None:
    test = "def test_it(monkeypatch):\n    monkeypatch.setattr('pkg.io.time.sleep', None)\n    patch('pkg.io.foreign')\n"
    assert told(test) == [("patched", "`pkg.io.time.sleep`")]
    assert told("def test_it():\n    patch.object(io, 'sleep')\n") == [("patched", "`sleep`")]


def test_seeded_draws_cannot_be_told() -> None:
    test = "def test_it():\n    random.seed(1)\n    assert draw(10) == 3\n"
    assert told(test) == [("random", "")]
    assert told("def test_it():\n    assert draw(1) == 0\n") == []


def test_only_required_tests_and_what_they_may_use_are_asked() -> None:
    test = (
        "class TestA:\n    def test_it(self): read(1, lenient=1)\n"
        "class TestB:\n    def test_it(self): x == 'lenient-result'\n"
        "def helper(): x == 31337\n"
    )
    assert told(test, required="t.py::TestA::test_it[a::b]") == [("keyword", "`lenient=`, of `read`"), ("value", "`31337`")]
    both = Judge(BEFORE, AFTER, {"t.py": test.encode()}, ["t.py::TestA::test_it", "u.py::test_it"]).holes("")
    assert [(hole.kind, hole.tell) for hole in both] == [("keyword", "`lenient=`, of `read`"), ("value", "`31337`")]
    # An inherited test is found by its name.
    assert told(test, required="t.py::TestC::test_it") == [
        ("keyword", "`lenient=`, of `read`"), ("value", "`lenient-result`"), ("value", "`31337`"),
    ]  # fmt: skip


def test_a_test_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(TaskRejected) as caught:
        holes("def (")
    assert caught.value.reason == "statement_unclear"
    assert "t.py" in caught.value.message
