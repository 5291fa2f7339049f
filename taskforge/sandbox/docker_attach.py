"""A container's standard streams over the daemon's API, as the two descriptors that the protocol wants.

The daemon sends output in packets, each with a header that says of which stream it is. A thread takes them apart, and
hands on what goes in: so the connection may be encrypted, and closing the input closes the container's.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import select
import socket
import ssl
import struct
import threading
from typing import Any

from taskforge.errors import SandboxFault
from taskforge.sandbox.docker_daemon import FORWARD

__all__ = ["Attached", "Packets", "attach"]

log = logging.getLogger("taskforge.sandbox")

_HEADER = struct.Struct(">BxxxL")
_STDERR = 2
_KEPT = 2000
_BLOCK = 1 << 18
_PIPE = 1 << 20
_NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Packets:
    """Takes the daemon's stream apart, however it is cut."""

    def __init__(self) -> None:
        self.head = b""
        self.stream = 0
        self.left = 0
        self.errors = b""
        """The end of standard error."""

    def feed(self, block: bytes) -> bytes:
        """What of standard output is in it."""
        out = []
        view = memoryview(block)
        while view:
            if not self.left:
                taken = _HEADER.size - len(self.head)
                self.head += bytes(view[:taken])
                view = view[taken:]
                if len(self.head) == _HEADER.size:
                    self.stream, self.left = _HEADER.unpack(self.head)
                    self.head = b""
                continue
            part, view = view[: self.left], view[self.left :]
            self.left -= len(part)
            if self.stream == _STDERR:
                self.errors = (self.errors + bytes(part))[-_KEPT:]
            else:
                out.append(part)
        return b"".join(out)


class Attached:
    """``to`` and ``back`` go to whoever speaks the protocol, who closes them. ``close`` ends the rest.

    Args:
        connection: connected to the container's streams; this object's own from here on.
        response: what the client read the connection's beginning with, and holds it open by.
    """

    def __init__(self, connection: socket.socket, response: Any = None) -> None:
        self._connection = connection
        self._response = response
        self._packets = Packets()
        self._ending = False
        connection.setblocking(False)
        from_host, self.to = os.pipe()
        self.back, to_host = os.pipe()
        for fd in (from_host, to_host):
            os.set_blocking(fd, False)
            with contextlib.suppress(OSError):  # An ordinary user's share of pipe memory may be used up.
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _PIPE)
        self._thread = threading.Thread(
            target=self._pump, args=(from_host, to_host), name="docker-attach", daemon=True
        )
        self._thread.start()

    @property
    def errors(self) -> str:
        """The end of what the container said on standard error."""
        return self._packets.errors.decode("utf-8", "replace").strip()

    def close(self) -> None:
        """After the container has ended: its stream ends then, and the thread with it, whoever still listens."""
        self._ending = True
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)

    def _pump(self, from_host: int, to_host: int) -> None:
        try:
            self._move(from_host, to_host)
        except OSError as error:
            log.debug("the connection to a container ended: %s", error)
        finally:
            os.close(from_host)
            os.close(to_host)
            # close() would wait for the client, which holds on to it.
            os.close(self._connection.detach())
            if self._response is not None:
                self._response.raw.close()

    def _move(self, from_host: int, to_host: int) -> None:
        """Until the container's end of the stream. In each direction one block waits, and nothing is read before it
        has gone."""
        connection = self._connection
        inward = outward = memoryview(b"")
        host_speaks = True
        while True:
            waiting = select.poll()
            network = (0 if outward else select.POLLIN) | (select.POLLOUT if inward else 0)
            if network:
                waiting.register(connection, network)
            if outward:
                waiting.register(to_host, select.POLLOUT)
            elif getattr(connection, "pending", int)():
                network = 0  # Already decrypted, which no poll shows.
            if host_speaks and not inward:
                waiting.register(from_host, select.POLLIN)
            if outward and self._ending:
                return
            waiting.poll(200 if outward else None if network else 0)
            if not inward and host_speaks:
                block = _read(from_host)
                inward = memoryview(block or b"")
                if block == b"":
                    host_speaks = False
                    connection.shutdown(socket.SHUT_WR)
            with contextlib.suppress(*_NOT_NOW):
                if inward:
                    inward = inward[connection.send(inward) :]
            with contextlib.suppress(*_NOT_NOW):
                if outward:
                    outward = outward[os.write(to_host, outward) :]
            with contextlib.suppress(*_NOT_NOW):
                if not outward:
                    block = connection.recv(_BLOCK)
                    if not block:
                        return
                    outward = memoryview(self._packets.feed(block))


def _read(fd: int) -> bytes | None:
    """None when it has nothing now; empty at its end."""
    try:
        return os.read(fd, _BLOCK)
    except BlockingIOError:
        return None


def attach(api: Any, container: str) -> Attached:
    """Attach to a container that has not been started, so that nothing of it is missed.

    Raises:
        SandboxFault: when the way to the daemon has no socket of its own.
    """
    given: Any = api.attach_socket(container, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
    response = given._response  # The client keeps the connection alive there.
    if isinstance(given, ssl.SSLSocket):
        return Attached(given, response)
    if not isinstance(given, socket.SocketIO):
        raise SandboxFault(
            f"sandboxes cannot be spoken to over {api.base_url}",
            kind="docker_transport",
            hint=FORWARD,
            retryable=False,
        )
    connection = socket.socket(fileno=os.dup(given.fileno()))
    # Not the response's own close(): that would give the connection back to the client's pool.
    response.raw.close()
    with contextlib.suppress(OSError):
        given.close()
    return Attached(connection)
