from __future__ import annotations

import pytest

from taskforge.errors import TaskRejected
from taskforge.generate.remove import remove
from taskforge.generate.statement import describe
from taskforge.languages import language
from taskforge.model import Candidate, Entry, Tree

PYTHON = language("python")


def removed_by(before: Tree, path: str, *names: str, after: Tree | None = None) -> str:
    """The statement of what is called ``names`` in the file at ``path``."""
    symbols = tuple(it for it in PYTHON.index(path, before[path].data) if it.qualname in names)
    candidate = Candidate(symbols=symbols)
    if after is not None:
        candidate = Candidate(mode="remove", symbols=symbols, units=tuple(f"{path}::{name}" for name in names))
        return describe(candidate, before, after, removed={}).text
    removal = remove(before, candidate, PYTHON)
    return describe(candidate, before, removal.tree, removed=removal.removed).text


def test_imports_and_exports_that_went_from_other_files_are_told() -> None:
    before = Tree({
        "p/__init__.py": Entry(b"from .m import f, kept\n__all__ = ['f', 'kept']\n"),
        "p/m.py": Entry(b"import json\n\n__all__ = ['f', 'kept']\n\n\ndef f(a):\n    'F.'\n    return json.dumps(a)\n\n\ndef kept(): ...\n"),
        "p/use.py": Entry(b"import io\nfrom p.m import f as g\n\n\ndef h():\n    return g(1)\n"),
        "p/lazy.py": Entry(b"def late():\n    'L.'\n    import zlib\n    return zlib\n"),
    })  # fmt: skip
    after = before.with_changes({
        "p/__init__.py": Entry(b"from .m import kept\n__all__ = ['kept']\n"),
        "p/m.py": Entry(b"__all__ = ['kept']\n\n\ndef kept(): ...\n"),
        "p/use.py": Entry(b"import io\n\n\ndef h():\n    return g(1)\n"),
        "p/lazy.py": Entry(b"def late():\n    'L.'\n    raise NotImplementedError\n"),
    })  # fmt: skip
    text = removed_by(before, "p/m.py", "f", after=after)
    assert (
        "- `p/__init__.py`: imports from `.m`: `f`; entries of `__all__`: `f`\n"
        "- `p/m.py`: entries of `__all__`: `f`\n"
        "- `p/use.py`: imports from `p.m`: `f as g`\n"
    ) in text
    assert "zlib" not in text
    assert "json" not in text


MEMBERS = b'''import sys


class Base:
    def total(self):
        return self.add(0)


class Pile(Base):
    """A pile of things."""

    def add(self, one):
        """Put one on."""
        self.things = [*self.things, one]
        return self

    @property
    def path(self):
        """Where it is."""
        return self.where

    def turn(self):
        """Turn it over."""
        return self.things[::-1]


class Other:
    def run(self, pile, items: list, plain: Pile):
        seen = set()
        seen.add(1)
        items.add(2)
        self.add(3)
        unknown().add(4)
        sys.path.add(5)
        "".add(6)
        pile.add(7)
        plain.add(8)
        self.mine = Pile()
        self.mine.add(9)
        self.turn()
        self.rows = []
        self.rows.turn()
        unknown().turn()
        sys.stdout.turn()
        return sys.path, Pile().add(10).path, pile.path
'''


def named_in(text: str) -> list[str]:
    return [line.partition("`: ")[2] for line in text.splitlines() if line.startswith("- `m.py:")]


def test_names_that_builtins_have_too_are_shown_only_on_what_is_of_the_class() -> None:
    before = Tree({"m.py": Entry(MEMBERS)})
    last = "`return sys.path, Pile().add(10).path, pile.path`"
    assert named_in(removed_by(before, "m.py", "Pile.add")) == [
        "`return self.add(0)`", "`pile.add(7)`", "`plain.add(8)`", "`self.mine.add(9)`", last,
    ]  # fmt: skip
    assert named_in(removed_by(before, "m.py", "Pile.path")) == [last]
    # Another name may be of whatever is not known, but not of another class or a list.
    assert named_in(removed_by(before, "m.py", "Pile.turn")) == ["`unknown().turn()`"]
    modules = Tree({"m.py": Entry(MEMBERS.replace(b", pile.path", b""))})
    assert named_in(removed_by(modules, "m.py", "Pile.path")) == []


SAYS = b'''class Kept:
    """Says much."""

    def __init__(self, table):
        try:
            hash(table)
        except (TypeError, Refused):
            # What has no hash (e.g. a list) is taken
            # without one.
            table = None
        except KeyError:
            # table = old(table)
            pass
        except IndexError:
            # TODO: think of it.
            pass
        except OSError:
            raise
        self.table = table

    def first(self):
        return self.table + 1

    def second(self):
        return self.table + 2


def user(kept):
    return kept.first() + kept.second()
'''


def test_what_is_caught_is_told_with_the_note_that_stands_there() -> None:
    text = removed_by(Tree({"m.py": Entry(SAYS)}), "m.py", "Kept.__init__")
    assert (
        "Errors that it catches:\n\n"
        "- `TypeError`, `Refused`; a note there said: What has no hash (e.g. a list) is taken without one.\n"
        "- `KeyError`\n- `IndexError`\n\n"
    ) in text
    assert "OSError" not in text
    assert "old(table)" not in text
    assert "TODO" not in text


def test_documentation_is_quoted_once() -> None:
    readme = Entry(b"What `Kept` holds is a table of things that somebody has put there before.\n")
    before = Tree({"m.py": Entry(SAYS), "README.md": readme})
    text = removed_by(before, "m.py", "Kept.first", "Kept.second")
    assert text.count("It has no docstring. What it does follows from its class and its callers.") == 2
    assert text.count("```text\nSays much.\n```") == 1
    hidden = Tree({"m.py": Entry(SAYS.replace(b"first", b"_first").replace(b"second", b"_second")), "README.md": readme})
    text = removed_by(hidden, "m.py", "Kept._first", "Kept._second")
    assert text.count("It has no docstring. What it does follows from its class, its callers and the documentation.") == 2
    assert text.count("What `Kept` holds") == 1


def test_a_member_that_nothing_explains_needs_annotations_and_company() -> None:
    source = b"class C:\n    def put(self, one: int) -> None:\n        self.a = one\n\n    def get(self, one):\n        return one\n"
    before = Tree({"m.py": Entry(source + b"\n\ndef f():\n    'F.'\n    return 1 + 1\n")})
    assert "it does what its name and its annotations say" in removed_by(before, "m.py", "C.put", "f")
    for names in (["C.put"], ["C.get", "f"]):
        with pytest.raises(TaskRejected) as caught:
            removed_by(before, "m.py", *names)
        assert caught.value.reason == "undescribed"
