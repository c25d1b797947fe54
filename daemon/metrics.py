"""A port for Prometheus and for whoever asks whether the process lives: /metrics and /healthz over HTTP."""

from __future__ import annotations

import http.server
import threading
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

READ_LIMIT: Final = 5.0
"""Seconds a client may take to say what it wants."""


class MetricsServer:
    """Serves the metrics of one registry until it is closed."""

    def __init__(self, host: str, port: int, registry: CollectorRegistry) -> None:
        """Listen at once; port 0 takes a free one. Raises OSError when the address cannot be had."""

        class Handler(_Handler):
            metrics = registry

        self._server = http.server.ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
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
