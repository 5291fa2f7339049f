"""A basket that offers what the module of prices does."""

from shop.prices import label, total


class Basket:
    def __init__(self, prices=()):
        self.prices = list(prices)

    def add(self, price):
        """Put ``price`` in and return the basket."""
        self.prices.append(price)
        return self

    def each(self):
        """Yield every price with its number, from 1."""
        for number, price in enumerate(self.prices, 1):
            yield number, price

    def bill(self):
        """The sum as text."""
        due = total(self.prices)
        return label(due)
