from .._impl import (
    draw,  # with a pen
    erase,
)
from .deep import *
from ..registry import register as _register, upper, \
    lower

try:
    from forms.compat import either
except ImportError:
    either = None

__all__ = "draw", "erase", "upper"


class Mixed(Deep):
    shout = staticmethod(upper)

    def quiet(self, text, how=lower):
        return how(text)


@_register
def third(text): return text[::3]
