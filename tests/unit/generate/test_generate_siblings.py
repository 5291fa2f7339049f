"""Near-copies within a repository are found, and what only looks alike is not."""

from __future__ import annotations

from taskforge.generate.siblings import siblings
from taskforge.languages import language
from taskforge.model import Unit
from taskforge.model.feature import Span

SYNC = b"""
def fetch(client, url, retries=3):
    for attempt in range(retries):
        answer = client.get(url, timeout=10 * (attempt + 1))
        if answer.status < 500:
            return answer.body.decode("utf-8")
    raise TimeoutError(f"{url} failed {retries} times")
"""
ASYNC = (
    SYNC.replace(b"def ", b"async def ").replace(b"client.get", b"await client.get")  # The usual twin.
)
OTHER = b"""
def parse(text, strict=False):
    tokens = [part.strip() for part in text.split(",")]
    if strict and not all(tokens):
        raise ValueError(f"empty field in {text!r}")
    return {name: value for name, _, value in (token.partition("=") for token in tokens)}
"""


def units(sources: dict[str, bytes]) -> dict[str, Unit]:
    out = {}
    for path, source in sources.items():
        for symbol in language("python").index(path, source):
            made = Unit(path=path, qualname=symbol.qualname, kind="function", symbols=(symbol,), spans=(symbol.span,))
            out[made.key] = made
    return out


def test_an_asynchronous_twin_is_found_from_either_side() -> None:
    sources = {"a.py": SYNC, "b.py": ASYNC, "c.py": OTHER}
    assert siblings(units(sources), sources) == {"a.py::fetch": ("b.py::fetch",), "b.py::fetch": ("a.py::fetch",)}


def test_a_long_function_that_holds_a_short_one() -> None:
    body = OTHER.split(b":\n", 1)[1]
    longer = ASYNC.replace(b"    raise TimeoutError", b"    text = TimeoutError") + body
    sources = {"a.py": SYNC, "b.py": longer}
    assert siblings(units(sources), sources)["a.py::fetch"] == ("b.py::fetch",)


def test_what_every_body_has_makes_no_siblings() -> None:
    manner = b"def f%d(self, key, value):\n    self.check(key, value)\n    return self.store.setdefault(key, value)\n\n"
    sources = {"a.py": b"".join(manner % number for number in range(40))}
    assert siblings(units(sources), sources) == {}


def test_short_bodies_and_classes_are_left_alone() -> None:
    sources = {"a.py": b"def a(x):\n    return x + 1\n", "b.py": b"def a(x):\n    return x + 1\n"}
    assert siblings(units(sources), sources) == {}
    sources = {"a.py": SYNC, "b.py": ASYNC}
    found = units(sources)
    found = {key: one.model_copy(update={"kind": "class", "spans": (Span(start=0, end=1),)}) for key, one in found.items()}
    assert siblings(found, sources) == {}
