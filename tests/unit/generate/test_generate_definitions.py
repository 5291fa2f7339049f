"""Where a test is defined, for every way in which pytest comes by one."""

from __future__ import annotations

import pytest

from taskforge.generate.definitions import Definitions
from taskforge.model import Entry, TestMap, Tree

DEFINED = {
    "tests/test_basket.py::TestBasket::test_sum": "tests/contract.py::SumContract.test_sum",
    "tests/test_basket.py::TestGrown::test_sum": "tests/contract.py::SumContract.test_sum",
    "tests/test_basket.py::TestBasket::test_empty": "tests/contract.py::SumContract.test_empty",
    "tests/test_basket.py::TestGrown::test_empty": "tests/contract.py::SumContract.test_empty",
    "tests/test_basket.py::TestBasket::test_add": "tests/test_basket.py::TestBasket.test_add",
    "tests/test_basket.py::test_each": "tests/test_basket.py::test_each",
    "tests/test_made.py::test_made_1": "",
    "tests/test_made.py::test_made_2": "",
    "tests/test_prices.py::test_total": "tests/test_prices.py::test_total",
    "tests/test_prices.py::test_discount[200-10-180]": "tests/test_prices.py::test_discount",
    "tests/test_prices.py::test_discount[99-50-50]": "tests/test_prices.py::test_discount",
    "tests/test_prices.py::test_discounts_stored": "tests/test_prices.py::test_discounts_stored",
    "tests/test_prices.py::test_label": "tests/test_prices.py::test_label",
    # Its decorator tells nothing of what it wraps: it is found by its name.
    "tests/test_prices.py::test_first": "tests/test_prices.py::test_first",
    "tests/test_prices.py::test_nothing_of_it": "tests/test_prices.py::test_nothing_of_it",
    "tests/test_unit.py::SumTest::test_total": "tests/test_unit.py::SumTest.test_total",
    "tests/test_unit.py::DiscountTest::test_discount": "tests/test_unit.py::DiscountTest.test_discount",
    "tests/usage.txt::usage.txt": "tests/usage.txt::",
}


def test_every_test_of_the_fixture_is_where_it_is_written(shop_map: TestMap) -> None:
    assert {record.id: record.defined for record in shop_map.tests} == DEFINED
    assert set(shop_map.stable_ids) == set(DEFINED)


SOURCE = b"""import x

if x:
    class A:
        @x.y
        @x.z(
            1)
        def f(self): pass
        class B:
            async def g(self):
                def inner(): pass
"""


@pytest.mark.parametrize(
    ("place", "found"),
    [
        (("a.py", 5, "A.f"), "a.py::A.f"),
        (("a.py", 0, "A.f"), "a.py::A.f"),
        (("a.py", 10, "A.B.g"), "a.py::A.B.g"),
        (("a.py", 8, "A.f"), ""),
        (("a.py", 0, "A.nothing"), ""),
        (("a.py", 11, "A.B.g.<locals>.inner"), ""),
        (("b.py", 1, "A.f"), ""),
        (("link.py", 5, "A.f"), ""),
        (("bad.py", 1, "f"), ""),
        (("usage.txt", 0, ""), "usage.txt::"),
        (("gone.txt", 0, ""), ""),
    ],
)
def test_a_place_is_held_against_the_file(place: tuple[str, int, str], found: str) -> None:
    tree = Tree({
        "a.py": Entry(SOURCE), "link.py": Entry(SOURCE, "link"), "bad.py": Entry(b"def f(:"), "usage.txt": Entry(b"")
    })  # fmt: skip
    assert Definitions(tree).of([place]) == found


def test_the_first_true_place_counts() -> None:
    tree = Tree({"a.py": Entry(SOURCE)})
    assert Definitions(tree).of([("site.py", 3, "f"), ("a.py", 0, "A.f")]) == "a.py::A.f"
