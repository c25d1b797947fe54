"""One API server for every test here: the in-memory one, or a real kube-apiserver under `make conformance`.

What a test may use is what both have. What only one has (garbage collection needs a controller manager beside
the real one) is tested in tests/apiserver.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import ssl
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import pytest

from kube.config import connect, from_kubeconfig
from kube.errors import Forbidden, NotServed, TooManyRequests
from kube.objects import text
from kube.resources import CRDS, NAMESPACES
from sim.apiserver.server import ApiServer
from tests.real.apiserver import Settings, User, real_apiserver

from . import shapes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kube.objects import Json, Object
    from kube.resources import Resource
    from kube.rest import RestClient

REAL_VARIABLE = "HARVESTER_COMPANION_REAL"
TOOLS_VARIABLE = "HARVESTER_COMPANION_TOOLS"
GUEST = User("guest", "guest-token", ("guests",))
"""A user without rights, until a test binds a role to it or to its group."""
ACCOUNT = User(
    "system:serviceaccount:default:robot",
    "robot-token",
    ("system:serviceaccounts", "system:serviceaccounts:default"),
)
"""A service account, likewise."""
CALL_LIMIT = 20.0
_numbers = itertools.count(1)


class Answer(NamedTuple):
    """What came back over plain HTTPS. `body` is decoded where it is one JSON object, else text."""

    code: int
    body: Json


@dataclass(frozen=True, slots=True)
class Server:
    """A running server, of either kind, and what a test may ask of it beside its API."""

    kubeconfig: Callable[[str, str], Path]
    """Writes a kubeconfig for a token and a default namespace."""
    admin_token: str
    forget_before: Callable[[str], None]
    """Drops the history before a resourceVersion; of config maps only, on a real server."""
    real: bool


@dataclass(frozen=True, slots=True)
class Api:
    """What a test gets: an administrator's client, and a namespace of its own."""

    client: RestClient
    namespace: str
    kubeconfig: Path
    """The administrator's, with that namespace."""
    server: Server

    @property
    def real(self) -> bool:
        """Whether it is a real kube-apiserver."""
        return self.server.real

    def connect(self, token: str) -> RestClient:
        """Return a client of another user."""
        return connect(from_kubeconfig(self.server.kubeconfig(token, self.namespace)))

    def forget_before(self, resource_version: str) -> None:
        """Let the server forget older versions of config maps."""
        self.server.forget_before(resource_version)

    def send(
        self,
        method: str,
        path: str,
        body: Json = None,
        *,
        form: str = "application/json",
        token: str | None = None,
        accept: str = "application/json",
    ) -> Answer:
        """Send a request as it is, over plain HTTPS: for what our client would not send. "" is no token."""
        connection = from_kubeconfig(self.kubeconfig)
        trust = _trust(connection.configuration)
        token = self.server.admin_token if token is None else token
        headers = {"Accept": accept, "Content-Type": form}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        sent = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        address = urlsplit(connection.server).netloc
        with contextlib.closing(
            http.client.HTTPSConnection(address, timeout=CALL_LIMIT, context=trust)
        ) as wire:
            wire.request(method, path, sent, headers)
            response = wire.getresponse()
            return Answer(response.status, _decoded(response.read()))


def _trust(configuration: Json) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=configuration.ssl_ca_cert, cadata=configuration.ca_cert_data)


def _decoded(body: bytes) -> Json:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run the server that the environment asks for."""
    directory = tmp_path_factory.mktemp("server")
    with _real(directory) if os.environ.get(REAL_VARIABLE) else _in_memory(directory) as running:
        yield running


@contextlib.contextmanager
def _in_memory(directory: Path) -> Iterator[Server]:
    with ApiServer(bookmark_interval=1.0) as server:
        for user in (GUEST, ACCOUNT):
            server.add_user(user.name, user.token, user.groups)

        def kubeconfig(token: str, namespace: str) -> Path:
            path = directory / f"{next(_numbers)}.kubeconfig"
            path.write_text(server.kubeconfig(token, namespace))
            return path

        yield Server(kubeconfig, server.admin_token, server.forget_before, real=False)


@contextlib.contextmanager
def _real(directory: Path) -> Iterator[Server]:
    settings = Settings(users=(GUEST, ACCOUNT), uncached=("configmaps",))
    tools = Path(os.environ[TOOLS_VARIABLE])
    with real_apiserver(directory, tools, settings) as server:
        yield Server(server.kubeconfig, server.admin_token, server.forget_before, real=True)


@pytest.fixture(scope="session")
def admin(server: Server) -> Iterator[RestClient]:
    """Return the administrator's client."""
    client = connect(from_kubeconfig(server.kubeconfig(server.admin_token, "default")))
    yield client
    client.close()


@pytest.fixture
def api(server: Server, admin: RestClient) -> Api:
    """Make a namespace for the test; it stays, since nothing on a real server would empty it."""
    namespace: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "contract-"}}
    name = text(admin.create(NAMESPACES, namespace), "metadata", "name")
    return Api(admin, name, server.kubeconfig(server.admin_token, name), server)


@pytest.fixture(scope="session")
def widgets(admin: RestClient) -> None:
    """Define the custom kinds, and wait until they are served."""
    for definition in shapes.DEFINITIONS:
        admin.create(CRDS, definition)
    for resource in (shapes.WIDGETS, shapes.GADGETS):
        _await_served(admin, resource)


def _await_served(admin: RestClient, resource: Resource) -> None:
    """A real server serves a new kind a moment after its definition is stored."""
    end = time.monotonic() + CALL_LIMIT
    while time.monotonic() < end:
        try:
            admin.list(resource)
        except (NotServed, TooManyRequests):
            threading.Event().wait(0.05)
        else:
            return
    pytest.fail(f"{resource.qualified} is not served")


@pytest.fixture
def eventually(server: Server) -> Callable[[Callable[[], object]], None]:
    """Return what repeats a call until it is not forbidden: a real server learns of roles a moment later."""

    def repeat(call: Callable[[], object]) -> None:
        for _ in range(100 if server.real else 1):
            try:
                call()
            except Forbidden as error:
                refused = error
                threading.Event().wait(0.05)
            else:
                return
        raise refused

    return repeat
