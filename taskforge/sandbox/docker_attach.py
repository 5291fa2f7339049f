"""A container's standard streams over the daemon's API, as the two descriptors that the protocol wants.

The daemon sends output in packets, each with a header that says of which stream it is. A thread takes them apart.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import struct
import threading
from typing import Any

from taskforge.errors import SandboxFault

__all__ = ["Attached", "attach"]

_HEADER = struct.Struct(">BxxxL")
_STDERR = 2
_KEPT = 2000
_PIPE = 1 << 20


class Attached:
    """``to`` and ``back`` go to whoever speaks the protocol, who closes them. ``close`` ends the rest."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self._fd = os.dup(sock.fileno())
        self.to = os.dup(self._fd)
        self.back, self._into = os.pipe()
        with contextlib.suppress(OSError):  # An ordinary user's share of pipe memory may be used up.
            fcntl.fcntl(self._into, fcntl.F_SETPIPE_SZ, _PIPE)
        os.set_blocking(self._fd, False)
        self._errors = bytearray()
        self._thread = threading.Thread(target=self._pump, name="docker-attach", daemon=True)
        self._thread.start()

    @property
    def errors(self) -> str:
        """The end of what the container said on standard error."""
        return bytes(self._errors).decode("utf-8", "replace").strip()

    def _read(self, count: int) -> bytes:
        """At most ``count`` bytes; empty at the end. Readiness is asked for, since ``to`` shares the socket's mode."""
        waiting = select.poll()
        waiting.register(self._fd, select.POLLIN)
        while True:
            try:
                return os.read(self._fd, count)
            except BlockingIOError:
                waiting.poll()
            except OSError:
                return b""  # Reset: the daemon went away.

    def _pump(self) -> None:
        try:
            while True:
                head = b""
                while len(head) < _HEADER.size:
                    block = self._read(_HEADER.size - len(head))
                    if not block:
                        return
                    head += block
                stream, left = _HEADER.unpack(head)
                while left:
                    block = self._read(min(left, _PIPE))
                    if not block:
                        return
                    left -= len(block)
                    if stream == _STDERR:
                        self._errors = (self._errors + block)[-_KEPT:]
                        continue
                    view = memoryview(block)
                    while view:
                        view = view[os.write(self._into, view) :]
        except BrokenPipeError:
            return  # Nobody listens any more.
        finally:
            os.close(self._into)

    def close(self) -> None:
        """After the container has ended: its stream ends then, and the thread with it."""
        self._thread.join(5)
        if not self._thread.is_alive():
            os.close(self._fd)
        response = self._sock._response  # The client hides the connection there.
        response.close()
        with contextlib.suppress(OSError):
            self._sock.close()


def attach(api: Any, container: str) -> Attached:
    """Attach to a container that has not been started, so that nothing of it is missed.

    Raises:
        SandboxFault: when the way to the daemon has no socket of its own.
    """
    sock = api.attach_socket(container, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
    if api.base_url.startswith(("https://", "ssh://")) or not hasattr(sock, "fileno"):
        sock.close()
        raise SandboxFault(
            f"sandboxes cannot be spoken to over {api.base_url}",
            kind="docker_transport",
            hint="forward the daemon's socket, for example with `ssh -L`, and set DOCKER_HOST to the forwarded one",
            retryable=False,
        )
    return Attached(sock)
