"""Does its work when it is imported."""

from shop.basket import Basket

print(Basket([100]).bill())
