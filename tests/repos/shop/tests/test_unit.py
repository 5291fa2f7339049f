import unittest

from shop.prices import discount, total


class SumTest(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total([1, 2]), 3)


class DiscountTest(unittest.TestCase):
    def test_discount(self):
        self.assertEqual(discount(10), 9)
