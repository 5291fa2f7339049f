from __future__ import annotations

import pytest

from taskforge.errors import TaskRejected
from taskforge.generate.remove import remove
from taskforge.generate.statement import lines_of_body_in, statement
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
            b"from p.m import first\n# first(0)\nx = first(1) or `first`\ny = myfirst(2)\nz = c.load('`')\n"
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
    assert "It has no docstring" in text
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
    assert "```python\n@w.cached\nasync def load(\n        self, name: str,\n    ) -> int:\n```" in text
    assert '````text\nLoad it.\n\n```\nawait C().load("x")\n```\n````' in text


def test_call_sites_are_product_code_and_the_workspaces() -> None:
    text = written("first")
    assert "- `p/use.py:3`: `` x = first(1) or `first` ``" in text
    assert "use.py:1" not in text
    assert "use.py:2" not in text
    assert "myfirst" not in text
    assert "tests/" not in text
    text = written("C.load")
    assert '- `p/m.py:25`: `return self.load("early")`' in text
    assert "- `p/use.py:5`: `` z = c.load('`') ``" in text


def test_a_statement_tells_nothing_of_the_body() -> None:
    for name in ("first", "C.load"):
        candidate = Candidate(symbols=(symbol(name),))
        removed = remove(TREE, candidate, PYTHON).removed
        text = written(name)
        assert "secret_factor" not in text
        assert "vault" not in text
        assert lines_of_body_in(text, removed) == []


def test_body_lines_in_prose_are_found_and_in_shown_code_are_not() -> None:
    removed = {"k": b"    found = await self.fetch()\n    return x\n    raise NotImplementedError\n"}
    assert lines_of_body_in("Hint: `found = await self.fetch()`; return x", removed) == ["found = await self.fetch()"]
    assert (
        lines_of_body_in(
            "```text\nfound = await self.fetch()\n```\n- `a.py:3`: `found = await self.fetch()`\n", removed
        )
        == []
    )
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
