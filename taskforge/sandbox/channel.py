"""The two pipes to a supervisor, and the frames on them: see ``taskforge.runner.frames`` for their layout."""

from __future__ import annotations

import json
import os
import select
import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["Broken", "Channel"]

_PREFIX = struct.Struct(">IQ")
_MAX_HEADER = 256 * 1024 * 1024
#: Bytes from which on a part goes by itself.
_LARGE = 1 << 20


class Broken(Exception):  # noqa: N818 - never leaves the package
    """The other side is silent, gone or out of its mind; the message says which, as what it did."""


class Channel:
    """Owns both descriptors until :meth:`close`. Deadlines are of the monotonic clock."""

    def __init__(self, to: int, back: int) -> None:
        self.to = to
        self.back = back
        os.set_blocking(to, False)

    def write(self, data: bytes, deadline: float) -> None:
        view = memoryview(data)
        while view:
            if not _ready(self.to, select.POLLOUT, deadline):
                raise Broken("did not take its input in time")
            try:
                view = view[os.write(self.to, view) :]
            except OSError as error:
                raise Broken(f"closed its input ({error})") from None

    def send(self, header: Mapping[str, Any], parts: Sequence[bytes], deadline: float) -> None:
        """One frame; ``parts`` follow one another in its blob, and are not put together first."""
        raw = json.dumps(header, ensure_ascii=True).encode("ascii")
        small = [_PREFIX.pack(len(raw), sum(map(len, parts))), raw]
        for part in parts:
            if len(part) > _LARGE:
                self.write(b"".join(small), deadline)
                self.write(part, deadline)
                small = []
            else:
                small.append(part)
        self.write(b"".join(small), deadline)

    def receive(self, deadline: float) -> tuple[dict[str, Any], bytes]:
        header_length, blob_length = _PREFIX.unpack(self._exactly(_PREFIX.size, deadline))
        if header_length > _MAX_HEADER:
            raise Broken("sent a frame without sense")
        try:
            header = json.loads(self._exactly(header_length, deadline))
        except ValueError:
            raise Broken("sent a frame without sense") from None
        return header, self._exactly(blob_length, deadline)

    def _exactly(self, count: int, deadline: float) -> bytes:
        parts: list[bytes] = []
        while count:
            if not _ready(self.back, select.POLLIN, deadline):
                raise Broken("did not answer in time")
            block = os.read(self.back, min(count, 1 << 20))
            if not block:
                raise Broken("went away")
            parts.append(block)
            count -= len(block)
        return b"".join(parts)

    def readable(self) -> bool:
        """Whether it has something to say, its end included."""
        return _ready(self.back, select.POLLIN, 0.0)

    def close(self) -> None:
        os.close(self.to)
        os.close(self.back)


def _ready(fd: int, event: int, deadline: float) -> bool:
    """Whether ``fd`` can be used before ``deadline``. poll(), since select() ends at descriptor 1023."""
    poll = select.poll()
    poll.register(fd, event)
    return bool(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))
