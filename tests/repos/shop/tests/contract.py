"""Tests that other modules inherit."""


class SumContract:
    def make(self, prices):
        raise NotImplementedError

    def test_sum(self):
        assert self.make([100, 5]).bill() == "1.05 EUR"

    def test_empty(self):
        assert self.make([]).prices == []
