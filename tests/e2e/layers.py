"""An image as anybody may take it apart: every file of every layer, those that a later one hides among them."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from typing import Any


class _Stream(io.RawIOBase):
    """Blocks as a file, as ``tarfile`` reads one."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self.blocks, self.rest = iter(blocks), b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        parts, have = [self.rest], len(self.rest)
        while have < size and (block := next(self.blocks, b"")):
            parts.append(block)
            have += len(block)
        whole = b"".join(parts)
        self.rest = whole[size:]
        return whole[:size]


def layer_files(api: Any, image: str) -> Iterator[tuple[str, bytes]]:
    """Path and content of each file; the image's own configuration and history are files as well."""
    with tarfile.open(fileobj=_Stream(api.get_image(image)), mode="r|") as archive:
        for member in archive:
            data = archive.extractfile(member) if member.isreg() else None
            if data is None:
                continue
            head = data.read(512)
            if not _is_tar(head):
                yield member.name, head + data.read()
                continue
            with tarfile.open(fileobj=_Stream(_chained(head, data)), mode="r|") as layer:
                for inner in layer:
                    content = layer.extractfile(inner) if inner.isreg() else None
                    yield inner.name, content.read() if content else b""


def _is_tar(head: bytes) -> bool:
    return head[257:262] == b"ustar" or (len(head) == 512 and not head.strip(b"\0"))


def _chained(head: bytes, data: Any) -> Iterator[bytes]:
    yield head
    while block := data.read(1 << 20):
        yield block
