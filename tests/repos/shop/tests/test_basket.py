import functools

from contract import SumContract

from shop.basket import Basket


class TestBasket(SumContract):
    def make(self, prices):
        return Basket(prices)

    def test_add(self):
        assert Basket().add(7).prices == [7]


class TestGrown(SumContract):
    def make(self, prices):
        return functools.reduce(Basket.add, prices, Basket())


def test_each():
    assert list(Basket([5, 6]).each()) == [(1, 5), (2, 6)]
