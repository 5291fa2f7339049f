"""What is registered while modules are imported."""

from __future__ import annotations

HANDLERS: dict[str, Handler] = {}


class Handler:
    def __init__(self, function):
        self.function = function

    def run(self, *args):
        return self.function(*args)


def _clean(name):
    return name.strip("_")


def register(function):
    HANDLERS[_clean(function.__name__)] = Handler(function)
    return function


@register
def upper(text):
    return text.upper()


@register
def lower(text):
    return text.lower()


def call(name, *args):
    return globals()[name](*args) if name == "upper" else HANDLERS[name].run(*args)


TABLE = {"call": call}
