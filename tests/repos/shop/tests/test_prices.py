import json
from pathlib import Path

import pytest

from shop import prices as module

HERE = Path(__file__).parent
CASES = [(200, 10, 180), (99, 50, 50)]


def _stored(name):
    return json.loads((HERE / "data" / name).read_text())


def quiet(test):
    def inner():
        return test()

    return inner


@pytest.fixture
def reduced():
    return _stored("discounts.json")


def test_total(two_prices):
    assert module.total(two_prices) == 350


@pytest.mark.parametrize(("price", "percent", "left"), CASES)
def test_discount(price, percent, left):
    assert module.discount(price, percent) == left


def test_discounts_stored(reduced):
    assert [module.discount(price) for price in reduced["before"]] == reduced["after"]


def test_label():
    assert module.label(5) == (HERE / "data" / "label.dat").read_text().strip()


@quiet
def test_first():
    assert module.first([3, 4]) == 3


def test_nothing_of_it():
    assert module.first([]) is None
