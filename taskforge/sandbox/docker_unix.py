"""The way to a daemon at a socket of this host. docker's own leaves a descriptor open where nobody listens any more,
and keeps a pool of connections for each of 25 paths, a container's id and all."""

from __future__ import annotations

import socket
from typing import Any

from docker.transport.unixconn import UnixHTTPAdapter, UnixHTTPConnection, UnixHTTPConnectionPool

__all__ = ["Adapter"]


class _Connection(UnixHTTPConnection):  # type: ignore[misc]
    def connect(self) -> None:
        attempt = socket.socket(socket.AF_UNIX)
        try:
            attempt.settimeout(self.timeout)
            attempt.connect(self.unix_socket)
        except BaseException:
            attempt.close()
            raise
        self.sock = attempt


class _Pool(UnixHTTPConnectionPool):  # type: ignore[misc]
    def _new_conn(self) -> _Connection:
        return _Connection(self.base_url, self.socket_path, self.timeout)


class Adapter(UnixHTTPAdapter):  # type: ignore[misc]
    """One pool of connections to one socket, whatever is asked."""

    def get_connection(self, url: str, proxies: Any = None) -> _Pool:  # noqa: ARG002 - there is none on the way
        with self.pools.lock:
            pool: _Pool | None = self.pools.get(self.socket_path)
            if pool is None:
                pool = self.pools[self.socket_path] = _Pool(
                    url, self.socket_path, self.timeout, maxsize=self.max_pool_size
                )
        return pool
