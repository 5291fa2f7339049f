"""Tokens, a stack and an evaluator for postfix expressions."""


def _defaults():
    """Runs at import: no feature."""
    table = {"+": "add", "-": "sub"}
    table["*"] = "mul"
    return table


NAMES = _defaults()


class Stack:
    """Last in, first out."""

    def __init__(self):
        self.items = []

    def push(self, value):
        """Put ``value`` on top and return the new depth."""
        self.items.append(value)
        return len(self.items)

    def pop(self):
        """Take the top off.

        Raises IndexError with the message "empty stack" when there is none.
        """
        if not self.items:
            raise IndexError("empty stack")
        return self.items.pop()


def tokens(text):
    """Yield the numbers and operators of a postfix expression, numbers as int."""
    for word in text.split():
        if word in NAMES:
            yield word
        else:
            yield int(word)


def evaluate(text):
    """The value of a postfix expression such as ``"1 2 +"``."""
    stack = Stack()
    for token in tokens(text):
        if isinstance(token, int):
            stack.push(token)
            continue
        right, left = stack.pop(), stack.pop()
        if token == "+":
            stack.push(left + right)
        elif token == "-":
            stack.push(left - right)
        else:
            stack.push(left * right)
    return stack.pop()


def clamp(value, low, high):
    """``value``, but no less than ``low`` and no more than ``high``."""
    if value < low:
        return low
    return min(value, high)


def mean(values):
    """The arithmetic mean; 0 for no values."""
    values = list(values)
    if not values:
        return 0
    return sum(values) / len(values)


def unnoticed(value):
    """Entered by a test that cannot tell."""
    doubled = value * 2
    return doubled + 1


def spin(limit):
    """Advance until ``limit`` is reached: callers loop for ever when it does not move."""
    step = 1
    if limit < 0:
        step = -1
    return step


def _undescribed(value):
    total = value + 1
    return total * 2


def twice(value):
    """Double it.

    >>> twice(4)
    8
    """
    value = int(value)
    return value * 2
