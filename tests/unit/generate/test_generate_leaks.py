from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import py_compile
import textwrap
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from taskforge.generate.leaks import search

BODY = b"""    if not items:
        raise ValueError("no # items")
    total = 0.0
    for item, weight in zip(items, weights):
        total += item * weight  # the sum
    return total / sum(weights)"""
SOURCE = b'def weighted(items, weights):\n    """The mean of items, weighted."""\n' + BODY + b"\n"
STUB = b'def weighted(items, weights):\n    """The mean of items, weighted."""\n    raise NotImplementedError\n'
CALLER = b"""from m import weighted

def mean(items):
    if not items:
        raise ValueError('none')
    return weighted(items, [1] * len(items))
"""
KEY = "m.py::weighted:1"


def zipped(data: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m.py", data)
    return stream.getvalue()


HIDING_PLACES: dict[str, Callable[[bytes], bytes]] = {
    "as it is": lambda body: body,
    "other indentation": lambda body: textwrap.indent(textwrap.dedent(body.decode()), "\t\t").encode(),
    "crlf": lambda body: body.replace(b"\n", b"\r\n"),
    "a code block": lambda body: b"# Notes\n\nOnce it was:\n\n```python\n" + body + b"\n```\nnever more\n",
    "without the comment": lambda body: body.replace(b"  # the sum", b""),
    "with other comments": lambda body: body.replace(b"\n", b"  # so it's\n"),
    "commented out": lambda body: b"\n".join(b"# " + line for line in body.split(b"\n")),
    "quoted": lambda body: b"\n".join(b"> " + line for line in body.split(b"\n")),
    "a diff": lambda body: b"@@ -1 +1,6 @@\n" + b"\n".join(b"+" + line for line in body.split(b"\n")),
    "a doctest": lambda body: b"\n".join(b"... " + line for line in body.split(b"\n")).replace(b"...", b">>>"),
    "a json string": lambda body: json.dumps({"source": body.decode()}).encode(),
    "html": lambda body: b"<pre>" + body.replace(b"&", b"&amp;").replace(b'"', b"&quot;") + b"</pre>",
    "utf-16": lambda body: body.decode().encode("utf-16"),
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zlib": zlib.compress,
    "zip": zipped,
    "a zip in a gzip": lambda body: gzip.compress(zipped(body)),
    "most of it": lambda body: body[: len(body) * 3 // 4],
    "within much else": lambda body: CALLER * 50 + body + CALLER * 50,
}


@pytest.mark.parametrize("place", HIDING_PLACES)
def test_a_planted_copy_is_found(place: str) -> None:
    report = search({KEY: BODY}, {"m.py": STUB, "notes.txt": HIDING_PLACES[place](BODY), "caller.py": CALLER})
    assert report.leaked
    assert {hit.where.partition("!")[0] for hit in report.hits} == {"notes.txt"}
    (hit,) = report.hits
    assert hit.key == KEY
    assert hit.longest_run >= 12 or hit.share >= 0.65
    assert report.files == 3


@pytest.mark.parametrize("place", HIDING_PLACES)
def test_the_same_place_without_a_copy_is_clean(place: str) -> None:
    report = search({KEY: BODY}, {"m.py": STUB, "notes.txt": HIDING_PLACES[place](CALLER), "caller.py": CALLER})
    assert report.hits == ()
    assert not report.leaked


def test_a_whole_copy_is_measured() -> None:
    (hit,) = search({KEY: BODY}, {"m.py": SOURCE}).hits
    assert (hit.share, hit.matched_tokens) == (1.0, hit.longest_run)
    assert hit.longest_run == 43


def test_bytecode_that_names_the_symbol_is_a_leak(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_bytes(SOURCE)
    compiled = Path(py_compile.compile(str(tmp_path / "m.py"), cfile=str(tmp_path / "m.bin"), doraise=True) or "")
    (hit,) = search({KEY: BODY}, {"data/m.bin": compiled.read_bytes()}).hits
    assert (hit.where, hit.key, hit.longest_run) == ("data/m.bin", KEY, 0)
    assert search({"m.py::other_name:1": BODY}, {"data/m.bin": compiled.read_bytes()}).hits == ()


def test_a_short_body_is_reported_as_too_short() -> None:
    report = search({"m.py::f:1": b"x = a\n    return x", KEY: BODY}, {"n.py": b"x = a\nreturn x\n"})
    assert report.too_short_to_search == ("m.py::f:1",)
    assert not report.leaked


@pytest.mark.parametrize(
    "data",
    [b"PK\x03\x04rubbish", b"\x1f\x8brubbish", b"BZhrubbish", b"\xfd7zXZrubbish", b"\x78\x9crubbish", b"", b"\x78"],
)
def test_damaged_archives_do_not_stop_the_search(data: bytes) -> None:
    report = search({KEY: BODY}, {"x": data, "y": BODY})
    assert [hit.where for hit in report.hits] == ["y"]


def test_common_idioms_are_no_leak() -> None:
    idiom = b"""
        if not isinstance(other, Point):
            return NotImplemented
        return self.x == other.x and self.y == other.y
    """
    other = b"""
    def __lt__(self, other):
        if not isinstance(other, Point):
            return NotImplemented
        return self.size < other.size
    """
    assert search({"m.py::P.__eq__:1": idiom}, {"n.py": other}).hits == ()
