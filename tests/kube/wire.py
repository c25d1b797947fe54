"""A server that speaks just enough HTTP/1.1 to misbehave: it resets, stalls, trickles and tears lines.

What the API means is tested against the simulated and the real API server; here only the wire is.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping

PATIENCE = 10.0
"""Seconds that anything in these tests may take before it counts as broken."""


@dataclass(frozen=True, slots=True)
class Heard:
    """One request as it arrived. Header names are lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Exchange:
    """One request and the connection to answer it on."""

    heard: Heard
    connection: socket.socket
    stopping: threading.Event
    keep: bool = field(default=True)

    def reply(self, code: int = 200, body: bytes = b"{}", headers: Mapping[str, str] | None = None) -> None:
        """Answer in full."""
        extra = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        self.send(f"HTTP/1.1 {code} x\r\n{extra}Content-Length: {len(body)}\r\n\r\n".encode() + body)

    def begin(self) -> None:
        """Begin an answer of unknown length, as a watch is."""
        self.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")

    def chunk(self, part: bytes) -> None:
        """Send one piece of it; an empty one ends it."""
        self.send(f"{len(part):x}\r\n".encode() + part + b"\r\n")

    def send(self, raw: bytes) -> None:
        """Send bytes as they are."""
        self.connection.sendall(raw)

    def reset(self) -> None:
        """Drop the connection with a TCP reset."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.keep = False

    def stall(self) -> None:
        """Say nothing more until the test is over."""
        self.stopping.wait(PATIENCE)
        self.keep = False


class Wire:
    """Listens on a loopback port and lets `behave` answer each request."""

    def __init__(self, behave: Callable[[Exchange], None], tls: ssl.SSLContext | None = None) -> None:
        self._behave = behave
        self._tls = tls
        self.heard: list[Heard] = []
        self.connections = 0
        self._stopping = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        """Where it listens."""
        scheme = "https" if self._tls else "http"
        return f"{scheme}://127.0.0.1:{self._listener.getsockname()[1]}"

    def settle(self) -> None:
        """Wait until the connections that are to end have ended."""
        for thread in self._threads[1:]:
            thread.join(PATIENCE)

    def close(self) -> None:
        """End all connections and threads."""
        self._stopping.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE)
        self._listener.close()

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(PATIENCE)
        with connection, contextlib.suppress(OSError):
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
            connection.settimeout(0.05)  # so that an idle connection sees the end of the test
            with connection:
                while (heard := self._next(connection)) is not None:
                    self.heard.append(heard)
                    exchange = Exchange(heard, connection, self._stopping)
                    self._behave(exchange)
                    if not exchange.keep:
                        return

    def _next(self, connection: socket.socket) -> Heard | None:
        head = self._receive(connection, lambda got: b"\r\n\r\n" in got)
        if head is None:
            return None
        top, _, body = head.partition(b"\r\n\r\n")
        first, *lines = top.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        length = int(headers.get("content-length", "0"))
        rest = self._receive(connection, lambda got: len(body) + len(got) >= length)
        method, path, _ = first.split(" ")
        return Heard(method, path, headers, body + (rest or b""))

    def _receive(self, connection: socket.socket, enough: Callable[[bytes], bool]) -> bytes | None:
        """Return bytes until `enough`; None when the peer or the test ended first."""
        got = b""
        while not enough(got):
            try:
                part = connection.recv(1 << 16)
            except TimeoutError:
                if self._stopping.is_set():
                    return None
                continue
            if not part:
                return None
            got += part
        return got
