import pytest

from calc import Stack, clamp, evaluate, mean, spin, tokens
from calc.core import _undescribed, twice, unnoticed


def test_push_and_pop():
    stack = Stack()
    assert stack.push(3) == 1
    assert stack.pop() == 3


def test_pop_empty():
    with pytest.raises(IndexError, match="empty stack"):
        Stack().pop()


@pytest.mark.parametrize(("text", "value"), [("1 2 +", 3), ("5 3 -", 2), ("2 3 4 * +", 14)])
def test_evaluate(text, value):
    assert evaluate(text) == value


def test_tokens():
    assert list(tokens("1 2 +")) == [1, 2, "+"]


def test_clamp():
    assert clamp(5, 0, 3) == 3
    assert clamp(-1, 0, 3) == 0


def test_unnoticed():
    try:
        unnoticed(3)
    except Exception:
        pass


def test_undescribed():
    assert _undescribed(1) == 4


def test_twice():
    assert twice("4") == 8


def _spun(start):
    here = start
    while here < 3:
        try:
            here += spin(3)
        except NotImplementedError:
            continue
    return here


def test_spin():
    assert _spun(0) == 3


def test_spin_again():
    assert _spun(1) == 3
