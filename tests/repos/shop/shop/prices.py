"""Prices in cents."""


def total(prices):
    """The sum of ``prices``."""
    result = 0
    for price in prices:
        result += price
    return result


def discount(price, percent=10):
    """``price`` less ``percent`` percent, rounded down."""
    off = price * percent // 100
    return price - off


def label(price):
    """``price`` as text, such as ``"1.05 EUR"``."""
    whole, rest = divmod(price, 100)
    return f"{whole}.{rest:02} EUR"


def first(prices):
    """The first of ``prices``, or None."""
    for price in prices:
        return price
    return None
