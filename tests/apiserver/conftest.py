"""A server of each test's own, and clients to it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from kube.config import connect, from_kubeconfig
from kube.rest import Limits
from sim.apiserver.server import ApiServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kube.rest import RestClient

    Connect = Callable[[ApiServer, str], RestClient]


@pytest.fixture
def server() -> Iterator[ApiServer]:
    """Run a server."""
    with ApiServer() as running:
        yield running


@pytest.fixture
def connect_to(tmp_path: Path) -> Iterator[Connect]:
    """Return what makes a client of a server for a token; all are closed at the end."""
    clients: list[RestClient] = []
    numbers = itertools.count()

    def make(server: ApiServer, token: str) -> RestClient:
        path = tmp_path / f"{next(numbers)}.kubeconfig"
        path.write_text(server.kubeconfig(token))
        limits = Limits(connect=5.0, answer=10.0)
        clients.append(connect(from_kubeconfig(path), pool_size=8, limits=limits))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def client(server: ApiServer, connect_to: Connect) -> RestClient:
    """Return the administrator's client."""
    return connect_to(server, server.admin_token)
