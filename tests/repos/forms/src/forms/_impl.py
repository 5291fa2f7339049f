import re
from functools import lru_cache

_INK = "#"


@lru_cache
def _pen(shape):
    return re.sub(r".", _INK, str(shape))


# Draws by hand.
def draw(shape):
    """Draw a shape."""
    pen = _pen(shape)
    strokes = [pen for _ in range(3)]
    return "".join(strokes)


draw.calls = 0


# --- the other way ---
def erase(drawing):
    return drawing.replace(" ", "")
