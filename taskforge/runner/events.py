"""What a worker may say. Its words are a claim: each is rebuilt here from fields of known type and size, and nothing
else of it goes on to the host, least of all an event that only the supervisor may send."""
# mypy: disallow-any-generics=False, warn-unreachable=False, warn-return-any=False

from typing import Any  # noqa: F401 - in type comments, for Python 3.8

#: Bytes of one event. The largest honest one lists the ids of a suite.
LARGEST = 64 * 1024 * 1024
#: Bytes that one run may pass on. Beyond it, what is said is no suite.
TOTAL = 512 * 1024 * 1024

OUTCOMES = ("passed", "failed", "error", "skipped", "xfailed", "xpassed", "duplicated")
_TEXT = 1 << 20
_NUMBER = 1 << 31


def cleaned(event):
    # type: (dict) -> dict
    """The event, rebuilt.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: when it is none that a worker sends.
    """
    kind = event["event"]
    clean = {"event": kind, "generation": _number(event["generation"])}
    if kind == "start":
        clean["id"] = _text(event["id"])
    elif kind == "collected":
        clean["items"] = [[_text(one), _text(path)] for one, path in event["items"]]
    elif kind == "defined":
        clean["items"] = [[_text(one), [_place(place) for place in places]] for one, places in event["items"]]
    elif kind == "collection_error":
        clean.update(id=_text(event["id"]), reason=_text(event["reason"]))
    elif kind == "internal_error":
        clean["reason"] = _text(event["reason"])
    elif kind == "report":
        if event["outcome"] not in OUTCOMES:
            raise ValueError("an outcome that does not exist")
        clean.update(id=_text(event["id"]), outcome=event["outcome"], seconds=_seconds(event["seconds"]))
        clean.update(reason=_text(event["reason"]), cause=_text(event["cause"]), enters=_numbers(event["enters"]))
    elif kind == "function":
        path, qualname, line = event["function"]
        clean.update(number=_number(event["number"]), function=[_text(path), _text(qualname), _number(line)])
    elif kind == "entered":
        clean.update(id=_text(event["id"]), enters=_numbers(event["enters"]))
    elif kind == "unattributed":
        clean["functions"] = _numbers(event["functions"])
    elif kind == "finish":
        clean["status"] = _number(event["status"])
    else:
        raise ValueError("an event that is not a worker's")
    return clean


def _text(value):
    # type: (Any) -> str
    if not isinstance(value, str):
        raise TypeError("no text")
    if len(value) > _TEXT:
        raise ValueError("a text without end")
    return value


def _place(value):
    # type: (Any) -> list
    path, line, qualname = value
    return [_text(path), _number(line), _text(qualname)]


def _number(value):
    # type: (Any) -> int
    if not isinstance(value, int) or isinstance(value, bool) or not -_NUMBER < value < _NUMBER:
        raise ValueError("no number")
    return value


def _numbers(values):
    # type: (Any) -> list
    if not isinstance(values, list):
        raise TypeError("no list")
    return [_number(value) for value in values]


def _seconds(value):
    # type: (Any) -> float
    if not isinstance(value, (int, float)) or not 0 <= value < 1e7:
        raise ValueError("no duration")
    return float(value)
