"""Requests as they are, for what our client would not send."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from kube.objects import Json
    from sim.apiserver.server import ApiServer

LIMIT = 10.0


def trust(server: ApiServer) -> ssl.SSLContext:
    """Return TLS that trusts the server."""
    return ssl.create_default_context(cadata=server.ca_pem)


def send(server: ApiServer, method: str, path: str, body: Json = None) -> tuple[int, Json]:
    """Send one request as the administrator, and return the code and the decoded answer."""
    connection = http.client.HTTPSConnection(
        urlsplit(server.url).netloc, timeout=LIMIT, context=trust(server)
    )
    headers = {"Authorization": f"Bearer {server.admin_token}", "Content-Type": "application/json"}
    with contextlib.closing(connection):
        connection.request(method, path, json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


def converse(server: ApiServer, sent: bytes) -> bytes:
    """Send bytes over TLS and return all that comes back until the server closes the connection."""
    address = ("127.0.0.1", urlsplit(server.url).port)
    with (
        socket.create_connection(address, LIMIT) as plain,
        trust(server).wrap_socket(plain, server_hostname="127.0.0.1") as wire,
    ):
        wire.sendall(sent)
        parts = []
        with contextlib.suppress(ConnectionResetError):
            while part := wire.recv(65536):
                parts.append(part)
        return b"".join(parts)
