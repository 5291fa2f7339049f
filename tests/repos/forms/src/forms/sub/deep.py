import itertools as it, os

__all__ = []
__all__.append("dig")
__all__.extend(["spin", "Deep"])


def dig(depth):
    return list(it.repeat(os.sep, depth))


def spin(depth):
    return dig(depth)[::-1]


class Deep:
    class Inner:
        def reach(self):
            return dig(2)

    def inner(self): return self.Inner()

    plain = property(lambda self: spin(1))
