"""What the tests' process prints, capped while it flows."""
# mypy: disallow-any-generics=False, warn-unreachable=False, warn-return-any=False


class Output:
    """Head and tail of a stream; at most ``cap`` bytes of it, however long it is."""

    def __init__(self, cap):
        # type: (int) -> None
        self.half = cap // 2
        self.head = bytearray()
        self.tail = bytearray()
        self.total = 0

    def add(self, block):
        # type: (bytes) -> None
        self.total += len(block)
        room = self.half - len(self.head)
        if room > 0:
            self.head += block[:room]
            block = block[room:]
        self.tail += block
        if len(self.tail) > self.half * 2:
            del self.tail[: len(self.tail) - self.half]

    def bytes(self):
        # type: () -> bytes
        tail = bytes(self.tail[-self.half :]) if self.half else b""
        dropped = self.total - len(self.head) - len(tail)
        middle = b"\n[%d bytes dropped]\n" % dropped if dropped else b""
        return bytes(self.head) + middle + tail
