"""Length-prefixed frames over file descriptors: a JSON header and a blob of bytes.

Layout: 4 bytes header length, 8 bytes blob length (big-endian), header (ASCII JSON), blob.
"""
# ruff: noqa: N818
# mypy: disallow-any-generics=False, warn-unreachable=False, warn-return-any=False

import json
import os
import struct
from typing import Any, Iterator, Tuple  # noqa: F401 - in type comments, for Python 3.8

_PREFIX = struct.Struct(">IQ")
MAX_HEADER = 256 * 1024 * 1024


class Closed(Exception):
    """The other side has gone."""


def read_exactly(fd, count):
    # type: (int, int) -> bytearray
    # In place: half a gigabyte is held once, in a sandbox whose memory is bounded.
    data = bytearray(count)
    view = memoryview(data)
    while view:
        taken = os.readv(fd, [view[: 1 << 20]])
        if not taken:
            raise Closed("end of stream")
        view = view[taken:]
    return data


def read(fd):
    # type: (int) -> tuple
    header_length, blob_length = _PREFIX.unpack(read_exactly(fd, _PREFIX.size))
    if header_length > MAX_HEADER:
        raise Closed("oversized header")
    found = header(read_exactly(fd, header_length))
    return found, read_exactly(fd, blob_length)


def write(fd, header, blob=b""):
    # type: (int, dict, Any) -> None
    """``blob`` is bytes, or a list of parts that follow one another."""
    raw = json.dumps(header, ensure_ascii=True).encode("ascii")
    parts = blob if isinstance(blob, list) else [blob]
    _all(fd, _PREFIX.pack(len(raw), sum(map(len, parts))) + raw)
    for part in parts:
        _all(fd, part)


def _all(fd, data):
    # type: (int, bytes) -> None
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


class Buffer:
    """Frames out of a non-blocking descriptor: feed what was read, take what is whole."""

    def __init__(self, largest=MAX_HEADER):
        # type: (int) -> None
        self.data = bytearray()
        self.largest = largest

    def feed(self, block):
        # type: (bytes) -> Iterator[Tuple[bytes, bytes]]
        """``(raw header, blob)`` of each frame that is whole now; the header is for :func:`header`.

        Raises:
            ValueError: after the last whole frame, when what follows is none.
        """
        self.data += block
        while len(self.data) >= _PREFIX.size:
            header_length, blob_length = _PREFIX.unpack(bytes(self.data[: _PREFIX.size]))
            if header_length + blob_length > self.largest:
                raise ValueError("oversized frame")
            middle = _PREFIX.size + header_length
            end = middle + blob_length
            if len(self.data) < end:
                return
            found = bytes(self.data[_PREFIX.size : middle]), bytes(self.data[middle:end])
            del self.data[:end]
            yield found


def header(raw):
    # type: (Any) -> dict
    return json.loads(raw.decode("ascii"))
