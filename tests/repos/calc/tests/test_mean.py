import unittest

from calc import mean


class MeanTest(unittest.TestCase):
    def test_values(self):
        for count in (1, 2, 3):
            with self.subTest(count=count):
                self.assertEqual(mean([2] * count), 2)

    def test_empty(self):
        self.assertEqual(mean([]), 0)
