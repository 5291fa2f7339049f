"""The daemon's stream taken apart, and the two descriptors in front of it."""

from __future__ import annotations

import os
import socket
import ssl
import struct
import subprocess
import threading
from pathlib import Path

import pytest

from taskforge.sandbox.docker_attach import Attached, Packets


def packet(data: bytes, stream: int = 1) -> bytes:
    return struct.pack(">BxxxL", stream, len(data)) + data


def read(fd: int, count: int) -> bytes:
    found = b""
    while len(found) < count and (block := os.read(fd, count - len(found))):
        found += block
    return found


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 1000])
def test_packets_however_they_are_cut(size: int) -> None:
    stream = packet(b"one") + packet(b"wrong", 2) + packet(b"") + packet(b"two" * 50) + packet(b"end", 2)
    packets = Packets()
    out = b"".join(packets.feed(stream[start : start + size]) for start in range(0, len(stream), size))
    assert out == b"one" + b"two" * 50
    assert packets.errors == b"wrongend"


def test_of_standard_error_the_end_is_kept() -> None:
    packets = Packets()
    assert packets.feed(packet(b"x" * 5000 + b"last words", 2)) == b""
    assert len(packets.errors) == 2000
    assert packets.errors.endswith(b"last words")


def secured(folder: Path) -> tuple[socket.socket, socket.socket]:
    """Both ends of an encrypted connection."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=daemon",
         "-addext", "subjectAltName=DNS:daemon", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    here, there = socket.socketpair()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    client = ssl.create_default_context(cafile=certificate)
    ends: list[socket.socket] = []
    thread = threading.Thread(target=lambda: ends.append(server.wrap_socket(there, server_side=True)))
    thread.start()
    mine = client.wrap_socket(here, server_hostname="daemon")
    thread.join()
    return mine, ends[0]


@pytest.fixture(params=["plain", "encrypted"])
def ends(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[socket.socket, socket.socket]:
    return socket.socketpair() if request.param == "plain" else secured(tmp_path)


def test_both_directions_at_once(ends: tuple[socket.socket, socket.socket]) -> None:
    here, daemon = ends
    attached = Attached(here)
    given, answer = os.urandom(3_000_000), os.urandom(3_000_000)
    got = bytearray()

    def serve() -> None:
        while len(got) < len(given):
            got.extend(daemon.recv(1 << 16))
        for start in range(0, len(answer), 50_001):
            daemon.sendall(packet(answer[start : start + 50_001]))
        daemon.sendall(packet(b"said", 2))

    def write() -> None:
        view = memoryview(given)
        while view:
            view = view[os.write(attached.to, view) :]

    threads = [threading.Thread(target=serve), threading.Thread(target=write)]
    for thread in threads:
        thread.start()
    assert read(attached.back, len(answer)) == answer
    for thread in threads:
        thread.join()
    assert bytes(got) == given
    daemon.close()
    assert os.read(attached.back, 1) == b""
    attached.close()
    assert attached.errors == "said"
    os.close(attached.to)
    os.close(attached.back)


def test_closing_the_input_closes_the_other_end() -> None:
    here, daemon = socket.socketpair()
    attached = Attached(here)
    os.write(attached.to, b"last")
    os.close(attached.to)
    assert daemon.recv(10) == b"last"
    assert daemon.recv(10) == b""
    daemon.sendall(packet(b"still here"))
    assert read(attached.back, 10) == b"still here"
    daemon.close()
    attached.close()
    os.close(attached.back)


def test_closing_while_nobody_reads_does_not_wait() -> None:
    here, daemon = socket.socketpair()
    attached = Attached(here)
    daemon.setblocking(False)
    try:
        while True:
            daemon.send(packet(b"x" * 60_000))
    except BlockingIOError:
        pass
    attached.close()
    assert not attached._thread.is_alive()
    daemon.close()
    os.close(attached.to)
    os.close(attached.back)
