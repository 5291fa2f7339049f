"""Everything public."""

from forms._impl import draw, erase
from .compat import fast
from .dispatch import show
from .models import Store
from .shapes import *
from .shapes import __all__ as _shapes
from .sub.deep import dig as dig

__all__ = ["Store", "draw", "erase", "fast", "show"] + _shapes
__all__ += ("dig",)
