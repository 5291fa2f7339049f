"""A daemon on another machine: all that reaches it comes over one address, in the clear or encrypted."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskforge.model import Entry
from taskforge.sandbox import PytestJob, SandboxSpec, backend
from taskforge.sandbox.docker import Docker

DAEMON = "/var/run/docker.sock"


def copy(source: socket.socket, target: socket.socket) -> None:
    """One direction of a connection, its end included."""
    with contextlib.suppress(OSError):
        while block := source.recv(1 << 16):
            target.sendall(block)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def forwarder(context: ssl.SSLContext | None) -> Iterator[int]:
    """A port of this machine that leads to the daemon."""
    threads: list[threading.Thread] = []
    ends: list[socket.socket] = []

    def connection(near: socket.socket) -> None:
        with contextlib.ExitStack() as stack:
            if context is not None:
                near = context.wrap_socket(near, server_side=True)
            stack.enter_context(near)
            ends.append(near)
            far = stack.enter_context(socket.socket(socket.AF_UNIX))
            far.connect(DAEMON)
            back = threading.Thread(target=copy, args=(far, near))
            back.start()
            copy(near, far)
            back.join()

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _address = server.accept()
                threads.append(threading.Thread(target=connection, args=(near,)))
                threads[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        accepting = threading.Thread(target=serve)
        accepting.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            accepting.join()
    # The client keeps connections for the next request.
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


def certified(folder: Path) -> ssl.SSLContext:
    """Writes what a client wants in its folder of certificates: one pair serves as everything."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"],
        check=True, capture_output=True,
    )  # fmt: skip
    (folder / "ca.pem").write_bytes((folder / "cert.pem").read_bytes())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_suite_on_a_remote_daemon(
    encrypted: bool, calc_spec: SandboxSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend("docker")
    context = certified(tmp_path) if encrypted else None
    if encrypted:
        for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):  # They go before what the daemon's client was told.
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
        monkeypatch.setenv("DOCKER_CERT_PATH", str(tmp_path))
    with forwarder(context) as port:
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
        docker = Docker(tmp_path / "docker")
        with docker.start(calc_spec) as sandbox:
            result = sandbox.run(PytestJob())
            large = {"large.bin": Entry(bytes(range(256)) * 40_000)}
            sandbox.lay(large)
            assert sandbox.read("/workspace")["large.bin"].data == large["large.bin"].data
        docker.daemon.renew()
    assert [report.outcome for report in result.reports] == ["passed"] * 15
