"""A small calculator."""

from calc.core import Stack, clamp, evaluate, mean, spin, tokens

__all__ = ["Stack", "clamp", "evaluate", "mean", "spin", "tokens"]
