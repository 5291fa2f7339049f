"""Proof that an answer is gone: a search of everything a solver can read for the bodies that were deleted.

It shares no code with sealing, removal or the parser, so that a mistake there is caught here. Text is cut into tokens
by a plain expression, so that other indentation, line breaks, comments and file types do not hide a copy. Winnowed
fingerprints of k tokens (Schleimer, Wilkerson and Aiken, 2003) find the files worth a close look: any run of
``K + WINDOW - 1`` shared tokens shares at least one. The close look then measures the longest run and the share.
"""

from __future__ import annotations

import bz2
import gzip
import html
import io
import lzma
import re
import zipfile
import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from taskforge.model import Value

__all__ = ["LeakHit", "LeakReport", "search"]

K: Final = 8
WINDOW: Final = 5
#: Tokens below which a body is too common to look for.
SHORTEST: Final = K + WINDOW - 1
#: Of a body's tokens, in one run, from which it counts as copied; and of its k-grams, wherever they are. At 0.5 of the
#: k-grams a quarter of asyncio's functions were refused for siblings that merely resemble them.
RUN_SHARE: Final = 0.6
GRAM_SHARE: Final = 0.65
_UNPACKED: Final = 64 * 1024 * 1024
_DEPTH: Final = 3

_TOKEN = re.compile(r"\w+|[^\w\s]")
#: A string, or a comment. Strings are matched so that a # within one begins no comment.
_COMMENT = re.compile(
    r"(\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''|\"(?:\\.|[^\\\n\"])*\"|'(?:\\.|[^\\\n'])*')|#[^\r\n]*",
    re.DOTALL,
)
_MARGIN = re.compile(r"^[ \t]*(?:(?:>>>|\.\.\.|[>|+\-*])[ \t]?)+", re.MULTILINE)
_ESCAPE = re.compile(r"\\(?:u000[aAdD]|[ntr])")


class LeakHit(Value):
    """One deleted body, seen in one public file."""

    where: str
    """Path of the public file; ``path!`` for something packed in it."""
    key: str
    """Key of the symbol."""
    matched_tokens: int
    """Tokens of the body that lie in shared k-grams."""
    longest_run: int
    """Tokens of the longest shared run. 0 for bytecode, which is not read but only known to name the symbol."""
    share: float
    """Of the body's k-grams, 0 to 1."""


class LeakReport(Value):
    """What the search found."""

    hits: tuple[LeakHit, ...] = ()
    too_short_to_search: tuple[str, ...] = ()
    """Keys of bodies of fewer than 12 tokens, which are no fingerprint of anything."""
    files: int = 0
    """Public files read."""

    @property
    def leaked(self) -> bool:
        return bool(self.hits)


def search(removed: Mapping[str, bytes], public: Mapping[str, bytes]) -> LeakReport:
    """Look for every deleted body in every public file.

    A hit is a shared run of at least 12 tokens and 60 % of the body, or 65 % of the body's k-grams. Archives and
    compressed files are unpacked, up to 64 MiB each. Bytecode that names the symbol is a hit without being read.

    Args:
        removed: symbol key (``path::qualname:line``) -> bytes of the body.
        public: where -> bytes, of all that a solver can read: workspace, statement, card.
    """
    bodies = {key: _grams(_TOKEN.findall(_without_comments(body.decode("latin-1")))) for key, body in removed.items()}
    long = {key: grams for key, grams in bodies.items() if len(grams) + K - 1 >= SHORTEST}
    prints = {key: _fingerprints(grams) for key, grams in long.items()}
    hits: list[LeakHit] = []
    for where, data in public.items():
        for inner, content in _unpacked(where, data, _DEPTH):
            if _is_bytecode(inner, content):
                hits += _named(inner, content, removed)
                continue
            for key, grams in long.items():
                if prints[key] & _fingerprints_of(content):
                    hit = _closely(inner, key, grams, content)
                    hits += [hit] if hit else []
    short = tuple(sorted(bodies.keys() - long.keys()))
    return LeakReport(hits=tuple(hits), too_short_to_search=short, files=len(public))


def _without_comments(text: str) -> str:
    return _COMMENT.sub(lambda found: found[1] or " ", text)


def _readings(content: bytes) -> Iterator[str]:
    """The ways in which a file may show a copy."""
    # UTF-16 and UTF-32 of ASCII become ASCII without their zeros.
    text = content.replace(b"\0", b"").decode("latin-1")
    yield text
    if "#" in text:
        yield _without_comments(text)
        # A copy that is itself commented out.
        yield text.replace("#", " ")
    if "\\n" in text:
        # A copy in a JSON string or a literal.
        yield _ESCAPE.sub(" ", text).replace('\\"', '"').replace("\\'", "'")
    if _MARGIN.search(text):
        # Quoted, in a table, in a diff, or in a doctest.
        yield _MARGIN.sub(" ", text)
    if re.search(r"&(?:lt|gt|quot|amp|#\w+);", text):
        yield html.unescape(re.sub(r"</?\w[^<>]*>", " ", text))


def _grams(tokens: Sequence[str]) -> array[int]:
    return array("q", (hash(tuple(tokens[at : at + K])) for at in range(len(tokens) - K + 1)))


def _fingerprints(grams: Sequence[int]) -> frozenset[int]:
    if len(grams) <= WINDOW:
        return frozenset([min(grams)] if grams else ())
    return frozenset(min(grams[at : at + WINDOW]) for at in range(len(grams) - WINDOW + 1))


# Both are kept, since each task of a snapshot is searched for in much the same files.
@lru_cache(maxsize=2048)
def _grams_of(content: bytes) -> tuple[array[int], ...]:
    """By reading."""
    return tuple(_grams(_TOKEN.findall(text)) for text in _readings(content))


@lru_cache(maxsize=8192)
def _fingerprints_of(content: bytes) -> frozenset[int]:
    """Of all readings."""
    return frozenset().union(*map(_fingerprints, _grams_of(content)))


def _closely(where: str, key: str, body: Sequence[int], content: bytes) -> LeakHit | None:
    """Measure a body's k-grams against a file; the best reading counts."""
    wanted = frozenset(body)
    tokens = len(body) + K - 1
    best: LeakHit | None = None
    for grams in _grams_of(content):
        places: dict[int, list[int]] = {}
        for at, gram in enumerate(grams):
            if gram in wanted:
                places.setdefault(gram, []).append(at)
        shared = [gram in places for gram in body]
        covered = sum(any(shared[max(0, at - K + 1) : at + 1]) for at in range(tokens))
        run = _longest_run(body, places)
        share = sum(shared) / len(shared)
        if run >= max(SHORTEST, RUN_SHARE * tokens) or share >= GRAM_SHARE:
            hit = LeakHit(where=where, key=key, matched_tokens=covered, longest_run=run, share=round(share, 3))
            best = max((it for it in (best, hit) if it), key=lambda it: (it.longest_run, it.share))
    return best


def _longest_run(body: Sequence[int], places: Mapping[int, Sequence[int]]) -> int:
    """Tokens of the longest run that both have, if it is at least K."""
    longest = 0
    ending: dict[int, int] = {}
    for gram in body:
        ending = {place: ending.get(place - 1, K - 1) + 1 for place in places.get(gram, ())}
        longest = max([longest, *ending.values()])
    return longest


def _is_bytecode(where: str, content: bytes) -> bool:
    return where.endswith((".pyc", ".pyo")) or (content[2:4] == b"\r\n" and content[16:17] == b"\xe3")


def _named(where: str, content: bytes, removed: Mapping[str, bytes]) -> list[LeakHit]:
    """Bytecode is never unmarshalled: hostile data can break the interpreter. Naming the symbol is enough."""
    hits = []
    for key in removed:
        name = key.rpartition("::")[2].rpartition(":")[0].rpartition(".")[2].encode("utf-8", "surrogateescape")
        if name in content:
            hits.append(LeakHit(where=where, key=key, matched_tokens=0, longest_run=0, share=1.0))
    return hits


def _unpacked(where: str, data: bytes, depth: int) -> Iterator[tuple[str, bytes]]:
    """The file itself and, level by level, what is packed in it."""
    yield where, data
    if not depth:
        return
    for name, inner in _packed(data):
        yield from _unpacked(f"{where}!{name}", inner, depth - 1)


@lru_cache(maxsize=64)
def _packed(data: bytes) -> tuple[tuple[str, bytes], ...]:
    """What one layer of packing holds. Data that only looks packed, or is damaged, holds nothing."""
    try:
        if data.startswith(b"PK\x03\x04"):
            return tuple(_members(data))
        if data.startswith(b"\x1f\x8b"):
            return (("", gzip.GzipFile(fileobj=io.BytesIO(data)).read(_UNPACKED)),)
        if data.startswith(b"BZh"):
            return (("", bz2.BZ2Decompressor().decompress(data, _UNPACKED)),)
        if data.startswith((b"\xfd7zXZ", b"\x5d\x00\x00")):
            return (("", lzma.LZMADecompressor().decompress(data, _UNPACKED)),)
        if data[:1] == b"\x78" and len(data) > 2 and int.from_bytes(data[:2], "big") % 31 == 0:
            return (("", zlib.decompressobj().decompress(data, _UNPACKED)),)
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, NotImplementedError):
        return ()
    return ()


def _members(data: bytes) -> Iterator[tuple[str, bytes]]:
    left = _UNPACKED
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for member in archive.infolist():
            if member.flag_bits & 1:
                # Encrypted: nobody without the password reads it.
                continue
            with archive.open(member) as stream:
                content = stream.read(left)
            left -= len(content)
            yield member.filename, content
