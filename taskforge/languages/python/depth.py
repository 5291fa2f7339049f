"""How deeply a file nests, told without parsing it.

libcst's native parser recurses without a limit: a few thousand open brackets or chained operators end the whole process
by a segmentation fault. So a file is measured first, by its tokens alone.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["is_too_deep"]

#: CPython refuses more open brackets than 200; no legal file has more.
_BRACKETS: Final = 200
#: Operators between two commas or newlines: the parser was seen to die at 10,000, and its visitors give up at 1,000.
_CHAIN: Final = 2000
_BRANCHES: Final = 300

_TOKEN = re.compile(
    rb"(?P<skip>#[^\r\n]*|\\\r?\n)"
    rb"|(?P<string>\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''"
    rb"|\"(?:\\.|[^\\\r\n\"])*\"|'(?:\\.|[^\\\r\n'])*')"
    rb"|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<end>[,;])|(?P<line>[\r\n]+)"
    rb"|(?P<elif>\belif\b)"
    rb"|(?P<chain>[-+*/%@&|^~.]|\b(?:not|and|or|if|else|lambda|await|yield)\b)",
    re.DOTALL,
)


def is_too_deep(source: bytes) -> bool:
    """Whether parsing ``source`` might exhaust the stack. Errs to the safe side on files that are no legal Python."""
    depth = chain = branches = 0
    for token in _TOKEN.finditer(source):
        kind = token.lastgroup
        if kind == "open":
            depth += 1
            chain += 1
        elif kind == "close":
            depth = max(0, depth - 1)
        elif kind == "end" or (kind == "line" and not depth):
            chain = 0
        elif kind in {"chain", "string"}:
            chain += 1
        elif kind == "elif":
            branches += 1
        if depth > _BRACKETS or chain > _CHAIN:
            return True
    return branches > _BRANCHES and _elif_run(source) > _BRANCHES


def _elif_run(source: bytes) -> int:
    """The longest run of ``elif`` of one indent with no ``if`` of that indent among them."""
    longest = 0
    runs: dict[bytes, int] = {}
    for found in re.finditer(rb"^([ \t\f]*)(elif|if)\b", source, re.MULTILINE):
        runs[found[1]] = runs.get(found[1], 0) + 1 if found[2] == b"elif" else 0
        longest = max(longest, runs[found[1]])
    return longest
