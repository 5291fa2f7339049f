"""Tests that no definition yields."""

from shop.prices import total


def made(count):
    def test():
        assert total([1] * count) == count

    return test


for _count in (1, 2):
    globals()[f"test_made_{_count}"] = made(_count)
