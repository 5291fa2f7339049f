"""A script, no module of the package: it does its work at once."""

from shop.prices import total

print(total([1, 2]))
