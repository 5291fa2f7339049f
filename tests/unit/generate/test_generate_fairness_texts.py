from __future__ import annotations

import pytest

from taskforge.generate.fairness import Judge
from taskforge.model import Entry, Tree

SPEAKS = b'''class Shape:
    def __init__(self, *sides):
        self.sides = sides

    def __repr__(self):
        return "".join([type(self).__name__, called(self.sides)])

    def trace(self):
        return "... (len=%s)" % len(self.sides) or "done with it"


def called(sides):
    """For ``repr``."""
    return str(sides)
'''


def spoken(body: str, statement: str = "", gone: bytes = b"", *, at: str = "") -> list[tuple[str, str]]:
    before = Tree({"m.py": Entry(SPEAKS)})
    after = Tree({"m.py": Entry(gone)})
    test = f"{at}def test_it():\n    {body}\n"
    judge = Judge(before, after, {"t.py": test.encode()}, ["t.py::test_it"])
    return [(hole.kind, hole.tell) for hole in judge.holes(statement)]


@pytest.mark.parametrize(
    ("body", "tell"),
    [
        ("assert repr(Shape(3)) == 'Shape(3,)'", "`repr(Shape(3))` is `Shape(3,)`"),
        ("assert 'Shape(3,)' == str(Shape(3))", "`str(Shape(3))` is `Shape(3,)`"),
        ("assert Shape(3).__repr__() == 'Shape(3,)'", "`Shape(3).__repr__()` is `Shape(3,)`"),
        ("assert f'{Shape(3)}' == 'Shape(3,)'", "`f'{Shape(3)}'` is `Shape(3,)`"),
        ("assert '%s' % Shape(3) == 'Shape(3,)'", "`'%s' % Shape(3)` is `Shape(3,)`"),
        ("assert '{}'.format(Shape(3)) == 'Shape(3,)'", "`'{}'.format(Shape(3))` is `Shape(3,)`"),
        ("it = Shape(3)\n    assert repr(it) == 'Shape(3,)'", "`repr(Shape(3))` is `Shape(3,)`"),
        ("text = repr(Shape(3))\n    assert text == 'Shape(3,)'", "`repr(Shape(3))` is `Shape(3,)`"),
        ("want = 'x\\ny'\n    self.assertEqual(want, repr(Shape(3)))", r"`repr(Shape(3))` is `'x\ny'`"),
        ("assert repr(Shape(3)).startswith('Sh')", "`repr(Shape(3))` holds `Sh`"),
        ("assert '(3,' in repr(Shape(3))", "`repr(Shape(3))` holds `(3,`"),
        ("assert repr([make()]) == '[Shape(3,)]'", "`repr([make()])` is `[Shape(3,)]`"),
    ],
)  # fmt: skip
def test_texts_that_removed_code_makes_of_objects_have_to_be_told(body: str, tell: str) -> None:
    assert spoken(body) == [("text", tell)]
    assert spoken(body, f"They compare these texts: {tell}.") == []


def test_texts_of_what_remains_or_of_other_things_are_not_asked_for() -> None:
    assert spoken("assert repr(other(3)) == '(3,)'") == []
    assert spoken("assert '(3,' not in repr(Shape(3))") == []
    kept = SPEAKS[: SPEAKS.index(b"    def trace")]
    without = kept.replace(b"called(self.sides)", b"'s'")
    assert spoken("assert repr(Shape(3)) == 'Shape(3,)'", gone=kept) == [("text", "`repr(Shape(3))` is `Shape(3,)`")]
    after = Tree({"m.py": Entry(without)})
    before = Tree({"m.py": Entry(without + b"\n\ndef called(sides):\n    return str(sides)\n")})
    test = b"def test_it():\n    assert repr(Shape(3)) == 'Shape(3,)'\n"
    assert Judge(before, after, {"t.py": test}, ["t.py::test_it"]).holes("") == ()


def test_an_expected_text_of_endless_length_cannot_be_told() -> None:
    assert spoken(f"assert repr(Shape(3)) == '{'x y ' * 300}'") == [("text", "")]


@pytest.mark.parametrize(
    "body",
    [
        "assert '(len=1000)' in actual",
        "assert '(len=' not in actual",
        "assert actual.startswith('... (len=')",
        "assert actual.endswith(('(len=5)', 'x'))",
        "assert actual.find('(len=5)') > 0",
        "assert actual.count('(len=5)') == 1",
        r"assert re.search(r'\(len=\d+\)', actual)",
        "p = re.compile('(len=[0-9]+)')\n    assert p.search(actual)",
        "self.assertIn('(len=5)', actual)",
        "want = '(len=5)'\n    assert want in actual",
        "for want in ('q', '(len=5)'):\n        assert want in actual",
        "assert actual == 'Target: a and much more that is... (len=4)\\nand so on'",
        "assert actual in '1\\n2... (len=4)\\nand so on'",
    ],
)
def test_pieces_of_texts_that_are_looked_for_have_to_be_told(body: str) -> None:
    assert ("value", "`... (len=\N{HORIZONTAL ELLIPSIS})`") in spoken(body)


def test_pieces_that_parametrization_gives_have_to_be_told() -> None:
    at = "@pytest.mark.parametrize('want, n', [('(len=5)', 5)])\n"
    assert [kind for kind, _ in spoken("assert want in actual", at=at)] == ["value"]


def test_pieces_of_nothing_removed_are_not_asked_for() -> None:
    assert spoken("assert 'len' in actual and '(' in actual and 'other' in actual") == []
    assert spoken("assert 'it' in actual and ') ' in actual and 'other' in actual and '(size=5)' in actual") == []


def test_a_docstring_is_no_text_that_code_makes() -> None:
    assert spoken("assert x == 'For ``repr``.'") == []
