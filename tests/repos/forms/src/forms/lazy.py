"""Attributes that are found when they are asked for."""

import importlib

_WHERE = {"spin": "forms.sub.deep"}


def __getattr__(name):
    if name in _WHERE:
        return getattr(importlib.import_module(_WHERE[name]), name)
    raise AttributeError(name)


def __dir__():
    return sorted(_WHERE)
