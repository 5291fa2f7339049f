from __future__ import annotations

import pytest

from taskforge.errors import TaskRejected
from taskforge.generate.remove import remove
from taskforge.generate.statement import Statement, describe, lines_of_body_in, statement
from taskforge.languages import language
from taskforge.model import Candidate, Entry, Symbol, Tree

PYTHON = language("python")
SOURCE = b'''import w


def first(a):
    b = a + 1
    c = b * secret_factor
    return c


class C:
    @w.cached
    async def load(
        self, name: str,
    ) -> int:
        """Load it.

        ```
        await C().load("x")
        ```
        """
        found = await self.fetch_from_the_vault(name)
        yield found

    def early(self):
        return self.load("early")
'''
TREE = Tree(
    {
        "p/m.py": Entry(SOURCE),
        "p/use.py": Entry(
            b"from p.m import first\n# first(0)\nx = first(1) or '`first`'\ny = myfirst(2)\nz = c.load('`')\n"
        ),
        "tests/test_m.py": Entry(b"def test(): assert first(1) == 42\n"),
        "README.md": Entry(b"first(3)\n"),
    }
)
INDEX = {"p/m.py": PYTHON.index("p/m.py", SOURCE)}


def symbol(name: str) -> Symbol:
    return next(it for it in INDEX["p/m.py"] if it.qualname == name)


def written(*names: str, tests_visible: bool = False) -> str:
    candidate = Candidate(symbols=tuple(symbol(name) for name in names))
    return statement(candidate, TREE, remove(TREE, candidate, PYTHON).tree, INDEX, tests_visible=tests_visible)


def test_a_statement_says_what_to_build_and_where() -> None:
    text = written("first")
    assert text.startswith("# Implement `first`\n\nThe code of the function below has been removed from `p/m.py`")
    assert "A function in `p/m.py`, line 4.\n\n```python\ndef first(a):\n```\n" in text
    assert "It has no docstring. What it does follows from its callers." in text
    assert text.endswith("network are not available.\n")


def test_lines_are_those_of_the_workspace() -> None:
    text = written("first", "C.load")
    assert "have been removed" in text
    assert "`p/m.py`, line 4." in text
    assert "`p/m.py`, line 9. It is an asynchronous generator." in text
    workspace = remove(TREE, Candidate(symbols=(symbol("first"), symbol("C.load"))), PYTHON).tree["p/m.py"].data
    assert workspace.splitlines()[8] == b"    @w.cached"


def test_signature_decorators_and_docstring_are_shown_in_fences_that_hold() -> None:
    text = written("C.load")
    assert "```python\n@w.cached\nasync def load(\n    self, name: str,\n) -> int:\n```" in text
    assert '````text\nLoad it.\n\n```\nawait C().load("x")\n```\n````' in text


def test_call_sites_are_product_code_and_the_workspaces() -> None:
    text = written("first")
    assert "- `p/use.py:3`: `` x = first(1) or '`first`' ``" in text
    assert "use.py:1" not in text
    assert "use.py:2" not in text
    assert "myfirst" not in text
    assert "tests/" not in text
    text = written("C.load")
    assert '- `p/m.py:25`, in `C.early`: `return self.load("early")`' in text
    assert "- `p/use.py:5`: `` z = c.load('`') ``" in text


def test_a_local_variable_of_the_same_name_and_a_line_of_the_body_are_no_call_sites() -> None:
    before = TREE.with_changes({
        "p/use.py": Entry(b"from p.m import first\n\ndef f(first):\n    return first(9)\n\n\nb = first(a) + 10\nc = first(8)\n"),
        "p/other.py": Entry(b"def first(): ...\n\n\nd = first(7)\n"),
        "p/far.py": Entry(b"from p import m\n\ndef f(x):\n    x.first(6)\n    return m.first(5)\n"),
    })  # fmt: skip
    candidate = Candidate(symbols=(symbol("first"),))
    after = remove(before, candidate, PYTHON).tree
    found = describe(candidate, before, after, removed={"k": b"    b = first(a) + 10\n"}).text
    assert [line for line in found.splitlines() if line.startswith("- `p/")] == [
        "- `p/far.py:5`, in `f`: `return m.first(5)`", "- `p/use.py:8`: `c = first(8)`",
    ]  # fmt: skip


def test_a_statement_tells_nothing_of_the_body() -> None:
    for name in ("first", "C.load"):
        candidate = Candidate(symbols=(symbol(name),))
        removed = remove(TREE, candidate, PYTHON).removed
        text = written(name)
        assert "secret_factor" not in text
        assert "vault" not in text
        assert lines_of_body_in(text, removed) == []


def test_body_lines_are_found_wherever_they_are_but_in_signatures() -> None:
    removed = {"k": b"    found = await self.fetch()\n    return x\n    raise NotImplementedError\n"}
    line = "found = await self.fetch()"
    assert lines_of_body_in(f"Hint: `{line}`; return x", removed) == [line]
    assert lines_of_body_in(f"```text\n{line}\n```\n", removed) == [line]
    assert lines_of_body_in(f"```text\n>>> {line}\n```\n", removed) == []
    assert lines_of_body_in(f"````python\n{line}\n````\n", removed) == []
    assert lines_of_body_in(f"````sh\n{line}\n````\n", removed) == [line]
    assert lines_of_body_in(f"- `a.py:3`: `{line}`\n", removed) == [line]
    assert lines_of_body_in("replaced by `raise NotImplementedError`", removed) == []


@pytest.mark.parametrize(("visible", "words"), [(True, "They are in the workspace."), (False, "may be hidden")])
def test_it_says_whether_tests_are_there(visible: bool, words: str) -> None:
    assert words in written("first", tests_visible=visible)
    assert "Do not edit tests" in written("first", tests_visible=visible)


def test_a_workspace_without_the_file_is_no_task() -> None:
    candidate = Candidate(symbols=(symbol("first"),))
    for after in (Tree({}), Tree({"p/m.py": Entry(b"x = 1\n")})):
        with pytest.raises(TaskRejected) as caught:
            statement(candidate, TREE, after, INDEX, tests_visible=True)
        assert caught.value.reason == "statement_unclear"


FEATURE = b'''"""A store."""
import json
import time

__all__ = ["Store", "open_store", "VERSION"]

VERSION = 3
_TABLE = {"a": 1}


class Store(dict):
    """Keeps things."""

    path: str
    retries: int = 5

    def __init__(self, path):
        # The path is kept as it is given.
        self.path = path
        self.opened_at = _now()

    @property
    def age(self):
        """Seconds since it was opened."""
        return _now() - self.opened_at

    def put(self, key, value):
        if key in _TABLE:
            raise KeyError(f"{key} is reserved")
        self[key] = value

    def _flush(self):
        return json.dumps(self)


def open_store(path, **options):
    """Open it.

    >>> store = open_store("x")

        store = Store(path)
    """
    store = Store(path)
    store.quiet = options.pop("quiet", False)
    return store


def _now():
    return time.time()


def kept():
    return open_store("there").put("k", "v")
'''
WHOLE = Tree(
    {
        "src/shop/__init__.py": Entry(b"from .store import Store, open_store\nfrom . import helpers\n"),
        "src/shop/store.py": Entry(FEATURE),
        "src/shop/helpers.py": Entry(b"def tidy(a, *, deep=False):\n    'Tidy a up.'\n    return sorted(a)\n"),
        "docs/guide.md": Entry(
            b"# Guide\n\nUse `open_store` to open a store of things on disk, quietly or not.\n\n"
            b"The body is self[key] = value and `open_store` is what calls it, as everybody knows.\n"
        ),
        "docs/api.rst": Entry(b".. autofunction:: shop.open_store\n.. autoclass:: shop.Store\n.. autofunction:: shop.a\n"),
    }
)
LEFT = Tree(
    {
        "src/shop/__init__.py": Entry(b""),
        "src/shop/store.py": Entry(
            b'"""A store."""\n\n__all__ = []\n\n\ndef kept():\n    return open_store("there").put("k", "v")\n'
        ),
        "docs/guide.md": WHOLE["docs/guide.md"],
        "docs/api.rst": WHOLE["docs/api.rst"],
    }
)
REMOVED = {
    "src/shop/store.py::all": FEATURE[FEATURE.index(b"VERSION = 3") : FEATURE.index(b"def kept")],
    "src/shop/helpers.py": WHOLE["src/shop/helpers.py"].data,
}
TEST = b'''import time
import pytest
from shop import open_store
from shop.store import VERSION, _TABLE


def test_store(monkeypatch):
    monkeypatch.setattr("shop.store.time.time", lambda: 5)
    store = open_store("x", quiet=True)
    assert store.quiet and store.age == 0 and VERSION == 3
    with pytest.raises(KeyError, match="a is reserved"):
        store.put("a", 1)
    with pytest.raises(OverflowError):
        open_store(store)
'''


def described(test: bytes = TEST, *, before: Tree = WHOLE, after: Tree = LEFT) -> Statement:
    symbols = {it.qualname: it for it in PYTHON.index("src/shop/store.py", FEATURE)}
    candidate = Candidate(mode="cluster", symbols=(symbols["open_store"], symbols["Store.put"]), units=(
        "src/shop/store.py::Store", "src/shop/store.py::open_store", "src/shop/helpers.py::tidy",
    ))  # fmt: skip
    return describe(
        candidate, before, after, removed=REMOVED, hidden={"tests/test_shop.py": test, "tests/data.json": b"{"},
        required=["tests/test_shop.py::test_store"],
    )  # fmt: skip


def test_what_is_gone_as_a_whole_is_told_with_signature_documentation_and_place() -> None:
    text = described().text
    assert text.startswith("# Implement `Store`, `open_store`, `tidy`\n\nThe definitions of what is described below")
    assert "These files are gone as a whole: `src/shop/helpers.py`." in text
    assert "Import: `from shop import open_store`, `from shop.store import open_store`." in text
    assert "```python\ndef open_store(path, **options):\n```" in text
    assert "A function of `src/shop/helpers.py`, a file that is gone. Import: `from shop.helpers import tidy`." in text
    assert "```python\ndef tidy(a, *, deep=False):\n```\n\nIts documentation:\n\n```text\nTidy a up.\n```" in text
    assert "Keep the names, the signatures and the decorators as they are told here." in text


def test_a_class_that_is_gone_is_told_with_bases_fields_and_methods() -> None:
    text = described().text
    assert "```python\nclass Store(dict):\n```\n\nIts documentation:\n\n```text\nKeeps things.\n```" in text
    assert "- `path`: `str`\n- `retries`: `int`, default `5`" in text
    assert "Its attributes: `opened_at`." in text
    assert "### `Store.age`\n\n```python\n@property\ndef age(self):\n```\n\n```text\nSeconds since" in text
    assert "### `Store.put`" in text
    assert "_flush" not in text
    assert "- `KeyError` in `put`, with the message `\N{HORIZONTAL ELLIPSIS} is reserved`" in text


def test_a_method_whose_class_went_along_is_told_with_the_class() -> None:
    method = next(it for it in PYTHON.index("src/shop/store.py", FEATURE) if it.qualname == "Store.put")
    candidate = Candidate(mode="remove", symbols=(method,), units=("src/shop/store.py::Store.put",))
    found = describe(candidate, WHOLE, LEFT, removed=REMOVED)
    assert found.text.startswith("# Implement `Store`\n")


def test_a_class_that_had_to_stay_is_told_by_its_members() -> None:
    put = b"        if key in _TABLE:\n            raise KeyError(f\"{key} is reserved\")\n        self[key] = value\n"
    after = WHOLE.with_changes({"src/shop/store.py": Entry(FEATURE.replace(put, b"        raise NotImplementedError\n"))})
    method = next(it for it in PYTHON.index("src/shop/store.py", FEATURE) if it.qualname == "Store.put")
    candidate = Candidate(mode="remove", symbols=(method,), units=("src/shop/store.py::Store",))
    why = {"src/shop/store.py::Store": "a module-level name is bound to it"}
    text = describe(candidate, WHOLE, after, removed={"k": put}, why_stub=why).text
    assert text.startswith("# Implement `Store`\n\nThe code of the method below has been removed")
    assert "Its head is still there: a module-level name is bound to it." in text


def test_a_name_that_remaining_code_imports_is_told() -> None:
    user = Entry(b"try:\n    from .store import fallback\nexcept ImportError:\n    pass\n")
    before = WHOLE.with_changes({"src/shop/use.py": user, "src/shop/store.py": Entry(FEATURE + b"\nfallback = set()\n")})
    assert "## `fallback`" in described(before=before, after=LEFT.with_changes({"src/shop/use.py": user})).text
    assert "## `fallback`" not in described(before=before).text


def test_a_note_in_the_place_of_a_docstring_is_told_unless_it_is_code() -> None:
    source = (
        b"def f(a):\n    # Doubles what is even, and\n    # leaves the rest.\n    # \n    return 2 * a if a % 2 == 0 else a\n\n\n"
        b"def g(a):\n    # a = old(a)\n    return a + a + a\n\n\nx = f(g(1))\n"
    )
    before = Tree({"m.py": Entry(source)})
    candidate = Candidate(symbols=tuple(PYTHON.index("m.py", source)))
    removal = remove(before, candidate, PYTHON)
    text = describe(candidate, before, removal.tree, removed=removal.removed).text
    assert "A note in the code said: Doubles what is even, and leaves the rest.\n\nIt has no docstring." in text
    assert "old(a)" not in text


def test_what_sealing_drops_is_no_part_of_the_feature() -> None:
    built = WHOLE.with_changes({
        "build/lib/shop/late.py": Entry(b"def built(): pass\n"), "tests/common.py": Entry(b"def helper(): pass\n"),
    })  # fmt: skip
    test = b"from tests.common import helper\n" + TEST
    assert described(test, before=built).text == described().text


def test_constants_are_told_and_private_helpers_only_where_somebody_needs_them() -> None:
    text = described().text
    assert "## `VERSION`" in text
    assert "Its value: `3`." in text
    assert "## `_TABLE`" in text
    assert "It is a dict." in text
    assert "## `_now`" not in text
    text = described(TEST.replace(b", _TABLE", b"")).text
    assert "## `_TABLE`" not in text
    assert "only what was removed used them: in `src/shop/store.py` `_TABLE`, `_now`." in text


def test_what_tests_ask_for_and_nothing_says_is_told_and_recorded() -> None:
    found = described()
    assert sorted((hole.kind, hole.tell) for hole in found.told) == [
        ("attribute", "`.quiet`, of `open_store`"),
        ("exception", "`OverflowError`"),
        ("keyword", "`quiet=`, of `open_store`"),
        ("patched", "`shop.store.time.time`"),
    ]
    assert "so the code has to reach them by that name: `shop.store.time.time`." in found.text
    assert "`OverflowError`." in found.text
    assert found.report["writer"] == "template"
    assert isinstance(found.report["told"], list)
    assert len(found.report["told"]) == len(found.told)


def test_documentation_that_speaks_of_it_is_shown_but_no_lists_of_names_and_no_code() -> None:
    text = described().text
    assert "`docs/guide.md:3`\n\n```text\nUse `open_store` to open" in text
    assert "as everybody knows" not in text
    assert "autofunction" not in text


def test_lines_of_a_docstring_that_are_code_of_the_body_are_not_shown() -> None:
    text = described().text
    assert '>>> store = open_store("x")' in text
    assert "store = Store(path)" not in text
    assert lines_of_body_in(text, REMOVED) == []


def test_a_hidden_test_that_needs_what_nothing_can_say_is_no_task() -> None:
    with pytest.raises(TaskRejected) as caught:
        described(b"from shop.helpers import made_by_magic\n")
    assert caught.value.reason == "undescribed"
    assert "tests/test_shop.py needs the import 'shop.helpers.made_by_magic'" in caught.value.message


def test_a_statement_that_would_show_a_line_of_the_body_is_no_task() -> None:
    before = WHOLE.with_changes({"docs/guide.md": Entry(b"x")})
    with pytest.raises(TaskRejected) as caught:
        symbols = {it.qualname: it for it in PYTHON.index("src/shop/store.py", FEATURE)}
        candidate = Candidate(mode="remove", symbols=(symbols["Store.put"],), units=("src/shop/store.py::Store",))
        describe(candidate, before, LEFT, removed={"k": b"By the project's own tests"})
    assert caught.value.reason == "statement_tells"


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("the mode is stub", "A function in `p/m.py`, line 4.\n"),
        ("t/test_a.py imports it and holds tests that do not enter it",
         "Its head is still there: `t/test_a.py` imports it, and has tests that run without this code.\n"),
        ("m.py:3 uses C as a base class while it is imported",
         "Its head is still there: m.py:3 uses C as a base class while it is imported.\n"),
    ],
)  # fmt: skip
def test_why_a_head_stays_is_told_in_plain_words(reason: str, shown: str) -> None:
    candidate = Candidate(symbols=(symbol("first"),))
    removal = remove(TREE, candidate, PYTHON)
    text = describe(
        candidate, TREE, removal.tree, removed=removal.removed, why_stub={"p/m.py::first": reason}
    ).text
    assert shown in text
