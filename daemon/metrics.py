"""A port for Prometheus and for whoever asks whether the process lives: /metrics and /healthz over HTTP."""

from __future__ import annotations

import http.server
import socket
import threading
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import structlog
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

log = structlog.get_logger()

READ_LIMIT: Final = 5.0
"""Seconds a client may take to say what it wants."""


class MetricsServer:
    """Serves the metrics of one registry until it is closed."""

    def __init__(self, host: str, port: int, registry: CollectorRegistry) -> None:
        """Listen at once. Raises OSError when the address cannot be had.

        `host` "" takes every address, in both families where the machine has both; port 0 takes a free one.
        """

        class Handler(_Handler):
            metrics = registry

        host = host or ("::" if socket.has_dualstack_ipv6() else "0.0.0.0")
        self._server = (_ServerV6 if ":" in host else _Server)((host, port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return self._server.server_port

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Note a request that ended badly, most often because the client went away."""
        log.info("metrics request failed", client=client_address, exc_info=True)


class _ServerV6(_Server):
    address_family = socket.AF_INET6


class _Handler(http.server.BaseHTTPRequestHandler):
    metrics: CollectorRegistry
    timeout = READ_LIMIT

    def do_GET(self) -> None:
        match self.path.partition("?")[0]:
            case "/metrics":
                self._answer(HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(self.metrics))
            case "/healthz":
                self._answer(HTTPStatus.OK, "text/plain", b"ok\n")
            case _:
                self._answer(HTTPStatus.NOT_FOUND, "text/plain", b"/metrics and /healthz are served here\n")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing: a scrape each few seconds is no event."""

    def _answer(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
