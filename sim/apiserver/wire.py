"""HTTP/1.1 over TLS: connections that are kept, one thread for each, and a clean end of all of them.

Own code and not http.server: an answer leaves in one segment, a closed watch is noticed at once (one thread
looks after all of them), and `stop` ends every connection whatever it waits for. The trap: a thread that
writes to a socket must not meet another that closes it, so others only shut it down, below TLS.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from io import BufferedReader

MAX_BODY: Final = 3 * 1024 * 1024
"""Bytes that the real server takes as a body."""
MAX_LINE: Final = 64 * 1024
MAX_HEADERS: Final = 100
HANDSHAKE_LIMIT: Final = 10.0
STOP_LIMIT: Final = 10.0
JSON: Final = "application/json"


class HangUp(Exception):
    """Close the connection without an answer."""


class _BrokenRequest(Exception):
    """What came cannot be read on: it is answered with a code, and the connection ends."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request. The names of `headers` are in lower case. They hold a credential: never log them."""

    method: str
    target: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


class Handler(Protocol):
    """What answers requests. Called from the connection's thread; raises HangUp to answer nothing."""

    def __call__(self, request: HttpRequest, connection: Connection) -> None:
        """Answer with `connection.answer`, or with a stream."""
        ...


class Connection:
    """One client's connection, for the handler to answer on."""

    def __init__(self, sock: ssl.SSLSocket, listener: Listener) -> None:
        self._socket = sock
        self._listener = listener
        self._keep = True

    def serve(self, handler: Handler) -> None:
        """Answer requests until the client or the server ends the connection."""
        self._socket.settimeout(HANDSHAKE_LIMIT)
        self._socket.do_handshake()
        self._socket.settimeout(None)
        with self._socket.makefile("rb") as reader:
            try:
                while self._keep and (request := _read_request(reader)):
                    self._keep = request.headers.get("connection", "").lower() != "close"
                    handler(request, self)
            except _BrokenRequest as broken:
                self._keep = False
                self.answer(broken.code, str(broken).encode(), "text/plain")

    def answer(self, code: int, body: bytes, content_type: str = JSON, headers: Iterable[str] = ()) -> None:
        """Send a whole answer."""
        lines = [f"Content-Length: {len(body)}", *headers]
        self._socket.sendall(self._head(code, content_type, lines) + body)

    def begin_stream(self, content_type: str = JSON) -> None:
        """Begin an answer whose end is not known."""
        self._socket.sendall(self._head(200, content_type, ["Transfer-Encoding: chunked"]))

    def send(self, part: bytes) -> None:
        """Send a part of a stream; nothing for an empty one, which would end it."""
        if part:
            self._socket.sendall(b"%x\r\n%b\r\n" % (len(part), part))

    def end_stream(self) -> None:
        """End the stream properly."""
        self._socket.sendall(b"0\r\n\r\n")

    @contextlib.contextmanager
    def on_close(self, callback: Callable[[], None]) -> Iterator[None]:
        """Call back, from another thread, when the client closes the connection meanwhile."""
        with self._listener.watching(self._socket, callback):
            yield

    def shut(self) -> None:
        """End the connection from another thread; its own thread then closes it."""
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def _head(self, code: int, content_type: str, lines: Iterable[str]) -> bytes:
        phrase = HTTPStatus(code).phrase
        closing = () if self._keep else ("Connection: close",)
        head = (f"HTTP/1.1 {code} {phrase}", f"Content-Type: {content_type}", *lines, *closing, "", "")
        return "\r\n".join(head).encode()


class Listener:
    """The listening socket and all connections that came from it."""

    def __init__(self, context: ssl.SSLContext, handler: Handler, port: int) -> None:
        """Listen on loopback; port 0 takes a free one."""
        self._context = context
        self._handler = handler
        self._socket = socket.create_server(("127.0.0.1", port), backlog=512)
        self.port: int = self._socket.getsockname()[1]
        self._lock = threading.Lock()
        self._connections: dict[Connection, threading.Thread] = {}
        self._stopping = False
        self._events = select.epoll()
        self._watched: dict[int, Callable[[], None]] = {}
        self._thread = threading.Thread(target=self._listen, name=f"apiserver-{self.port}", daemon=True)

    def start(self) -> None:
        """Take connections from now on."""
        self._events.register(self._socket, select.EPOLLIN)
        self._thread.start()

    def stop(self) -> None:
        """Take no more connections, end all, and wait for their threads."""
        with self._lock:
            self._stopping = True
            threads = tuple(self._connections.values())
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(STOP_LIMIT)
        self.drop()
        for thread in threads:
            thread.join(STOP_LIMIT)
        self._events.close()
        self._socket.close()

    def drop(self) -> None:
        """Cut all connections; their threads end by themselves."""
        with self._lock:
            connections = tuple(self._connections)
        for connection in connections:
            connection.shut()

    @contextlib.contextmanager
    def watching(self, sock: socket.socket, callback: Callable[[], None]) -> Iterator[None]:
        """Call back once when the peer closes its side."""
        number = sock.fileno()
        self._watched[number] = callback
        self._events.register(number, select.EPOLLRDHUP | select.EPOLLONESHOT)
        try:
            yield
        finally:
            self._events.unregister(number)
            self._watched.pop(number, None)

    def _listen(self) -> None:
        while not self._stopping:
            for number, _ in self._events.poll():
                if number == self._socket.fileno():
                    self._accept()
                elif callback := self._watched.pop(number, None):
                    callback()

    def _accept(self) -> None:
        try:
            raw, _ = self._socket.accept()
        except OSError:  # stopping, or the client is gone already
            return
        try:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock = self._context.wrap_socket(raw, server_side=True, do_handshake_on_connect=False)
        except OSError:
            raw.close()
            return
        connection = Connection(sock, self)
        thread = threading.Thread(
            target=self._run, args=(connection, sock), name="apiserver-connection", daemon=True
        )
        with self._lock:
            if self._stopping:
                sock.close()
                return
            self._connections[connection] = thread
        thread.start()

    def _run(self, connection: Connection, sock: ssl.SSLSocket) -> None:
        try:
            connection.serve(self._handler)
        except HangUp:
            pass
        except OSError:  # the client went away, or would not speak TLS with us
            pass
        finally:
            sock.close()
            with self._lock:
                self._connections.pop(connection, None)


def _read_request(reader: BufferedReader) -> HttpRequest | None:
    """Read one request; None when the client ended the connection between two."""
    if not (line := reader.readline(MAX_LINE)):
        return None
    try:
        method, target, _ = line.decode("latin-1").split()
    except ValueError:
        raise _BrokenRequest(400, "no request line") from None
    headers = _read_headers(reader)
    if "transfer-encoding" in headers:
        raise _BrokenRequest(411, "a chunked body")
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        raise _BrokenRequest(400, "a body of no length")
    if int(length) > MAX_BODY:
        raise _BrokenRequest(413, f"Request entity too large: limit is {MAX_BODY}")
    body = reader.read(int(length))
    return HttpRequest(method, target, headers, body) if len(body) == int(length) else None


def _read_headers(reader: BufferedReader) -> dict[str, str]:
    headers: dict[str, str] = {}
    for _ in range(MAX_HEADERS):
        line = reader.readline(MAX_LINE).decode("latin-1")
        if line in ("\r\n", "\n", ""):
            return headers
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    raise _BrokenRequest(431, "too many headers")
