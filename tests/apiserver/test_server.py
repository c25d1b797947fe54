"""The server as a whole: its connections, its load, its end."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from kube import json_patch
from kube.client import EVERYTHING, JsonPatch, Selector
from kube.config import connect, from_kubeconfig
from kube.errors import Conflict, Unauthorized, Unreachable
from kube.objects import dig, name_of, version_of
from kube.resources import CONFIG_MAPS
from sim.apiserver.server import ApiServer
from tests.contract.shapes import config_map

from .raw import converse, send

if TYPE_CHECKING:
    from pathlib import Path

    from kube.objects import Json
    from kube.rest import RestClient

    from .conftest import Connect

HOME = "default"
WATCHES = 200
STRANGE: tuple[Json, ...] = (
    None,
    1,
    "x",
    [],
    [1],
    {"metadata": 1},
    {"metadata": {"name": 1, "labels": 1}},
    {"metadata": {"name": "a", "annotations": {"k": 1}}},
    {"metadata": {"name": "a", "finalizers": "f"}},
    {"metadata": {"name": "a", "finalizers": [1]}},
    {"metadata": {"name": "a", "ownerReferences": [1]}},
    {"metadata": {"name": "a", "ownerReferences": [{"name": "x"}]}},
    {"kind": 1, "metadata": {"name": "b"}},
)


def threads() -> set[threading.Thread]:
    """Return the threads of servers; another suite may have one running."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("apiserver-")}


def open_files() -> int:
    """Return how many files and sockets this process has open."""
    return len(os.listdir("/proc/self/fd"))


def test_nothing_is_left_when_it_ends(tmp_path: Path) -> None:
    """Idle connections, open watches, frozen ones and the threads of all end with the server."""
    before, running = open_files(), threads()
    server = ApiServer()
    server.start()
    path = tmp_path / "kubeconfig"
    path.write_text(server.kubeconfig(server.admin_token))
    client = connect(from_kubeconfig(path))
    watch = client.watch(CONFIG_MAPS, HOME, EVERYTHING, resource_version=server.version)
    server.faults.freeze_watches(lambda _: True)
    frozen = client.watch(CONFIG_MAPS, HOME, EVERYTHING, resource_version=server.version)
    assert len(threads() - running) >= 4
    server.stop()
    assert threads() <= running
    for ended in (watch, frozen):
        with suppress(Unreachable):  # cut before its last chunk, or ended in good order
            assert list(ended) == []
        ended.close()
    with pytest.raises(Unreachable):
        client.list(CONFIG_MAPS)
    client.close()
    server.stop()
    assert open_files() == before


def test_many_watches_hear_of_every_write(server: ApiServer, client: RestClient, connect_to: Connect) -> None:
    """Two hundred watches at once each see what they asked for, and a closed one leaves its thread."""
    del client
    many = connect_to(server, server.admin_token)
    with ExitStack() as stack:
        watches = [
            stack.enter_context(
                closing(
                    many.watch(
                        CONFIG_MAPS,
                        HOME,
                        Selector(fields=f"metadata.name=m-{number % 2}"),
                        resource_version=server.version,
                    )
                )
            )
            for number in range(WATCHES)
        ]
        for name in ("m-0", "m-1"):
            many.create(CONFIG_MAPS, config_map(name), HOME)
        seen = [name_of(next(iter(watch)).object) for watch in watches]
        assert seen == ["m-0", "m-1"] * (WATCHES // 2)
    _await(lambda: not server.faults.open_watches)


def _await(condition: object) -> None:
    """Wait, bounded, until the server has noticed what happened on its connections."""
    assert callable(condition)
    for _ in range(500):
        if condition():
            return
        threading.Event().wait(0.02)
    pytest.fail("it did not happen")


def test_writers_that_meet_lose_nothing(client: RestClient) -> None:
    """Of concurrent guarded increments each succeeds once; of concurrent plain patches none is lost."""
    client.create(CONFIG_MAPS, config_map("a", {"n": "0"}), HOME)

    def increment(number: int) -> None:
        while True:
            n = dig(client.get(CONFIG_MAPS, "a", HOME), "data", "n")
            guarded = [json_patch.test("/data/n", n), json_patch.replace("/data/n", str(int(n) + 1))]
            try:
                client.patch(CONFIG_MAPS, "a", JsonPatch(guarded), HOME)
            except Conflict:
                continue
            client.patch(CONFIG_MAPS, "a", JsonPatch([json_patch.add(f"/data/k{number}", "")]), HOME)
            return

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(increment, range(24)))
    data = client.get(CONFIG_MAPS, "a", HOME)["data"]
    assert data["n"] == "24"
    assert len(data) == 25


def test_a_watch_sees_concurrent_writes_in_the_order_of_their_versions(
    server: ApiServer, client: RestClient
) -> None:
    """Versions only rise, and none is left out."""
    with closing(client.watch(CONFIG_MAPS, HOME, EVERYTHING, resource_version=server.version)) as watch:
        with ThreadPoolExecutor(8) as pool:
            made = list(pool.map(lambda n: client.create(CONFIG_MAPS, config_map(f"m-{n}"), HOME), range(40)))
        events = iter(watch)
        versions = [int(version_of(next(events).object)) for _ in made]
    assert versions == sorted(int(version_of(each)) for each in made)


def test_bookmarks_come_while_nothing_happens(connect_to: Connect) -> None:
    """A bookmark carries the newest version, of other kinds too, so that a resume need not go back."""
    with ApiServer(bookmark_interval=0.05) as server:
        client = connect_to(server, server.admin_token)
        watch = client.watch(CONFIG_MAPS, "kube-system", EVERYTHING, resource_version=server.version)
        client.create(CONFIG_MAPS, config_map("a"), HOME)
        newest = server.version
        with closing(watch):
            bookmark = next(event for event in watch if version_of(event.object) == newest)
        assert bookmark.type == "BOOKMARK"
        assert (bookmark.object["kind"], bookmark.object["metadata"]) == (
            "ConfigMap",
            {"resourceVersion": newest},
        )


def test_connections_are_kept_and_cut(server: ApiServer, client: RestClient) -> None:
    """Calls one after another share a connection; cut connections are simply made anew."""
    before = threads()
    for _ in range(3):
        client.list(CONFIG_MAPS)
    [connection] = threads() - before
    watch = client.watch(CONFIG_MAPS, HOME, EVERYTHING, resource_version=server.version)
    server.drop_connections()
    with pytest.raises(Unreachable):
        list(watch)
    connection.join(10)
    assert not connection.is_alive()
    client.list(CONFIG_MAPS)


def test_a_token_can_be_taken_back(server: ApiServer, connect_to: Connect) -> None:
    """Whoever has it is a stranger from then on."""
    server.add_user("u", "u-token", ("system:masters",))
    client = connect_to(server, "u-token")
    client.list(CONFIG_MAPS)
    server.remove_user("u-token")
    with pytest.raises(Unauthorized):
        client.list(CONFIG_MAPS)


def test_a_later_server_in_the_same_directory_is_trusted(tmp_path: Path, connect_to: Connect) -> None:
    """Authority and port can be kept, so that a client outlives its server; the key is ours alone."""
    home = tmp_path / "server"
    with ApiServer(directory=home) as first:
        first.add_user("u", "u-token", ("system:masters",))
        client = connect_to(first, "u-token")
        client.list(CONFIG_MAPS)
        port = urlsplit(first.url).port or 0
    with ApiServer(directory=home, port=port) as second:
        second.add_user("u", "u-token", ("system:masters",))
        client.list(CONFIG_MAPS)
        assert second.ca_pem == first.ca_pem
    assert (home / "server.pem").stat().st_mode & 0o077 == 0


def test_only_the_own_authority_is_needed_and_nobody_else_is_trusted(server: ApiServer) -> None:
    """Another server's certificate is not accepted, and plain HTTP gets no answer."""
    address = ("127.0.0.1", urlsplit(server.url).port)
    with ApiServer() as other, socket.create_connection(address, 5) as plain:
        context = ssl.create_default_context(cadata=other.ca_pem)
        with pytest.raises(ssl.SSLCertVerificationError):
            context.wrap_socket(plain, server_hostname="127.0.0.1")
    with socket.create_connection(address, 5) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with suppress(ConnectionResetError):
            assert b"HTTP" not in plain.recv(100)
    assert send(server, "GET", "/version")[0] == 200


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        pytest.param(b"nonsense\r\n\r\n", b"400", id="no-request-line"),
        pytest.param(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 101, b"431", id="too-many-headers"),
        pytest.param(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"411", id="chunked"),
        pytest.param(b"POST / HTTP/1.1\r\nContent-Length: 4000000\r\n\r\n", b"413", id="too-large"),
        pytest.param(b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n", b"400", id="no-length"),
        pytest.param(b"BREW / HTTP/1.1\r\nConnection: close\r\n\r\n", b"405", id="no-such-method"),
    ],
)
def test_a_broken_request_ends_its_connection_only(server: ApiServer, sent: bytes, status: bytes) -> None:
    """What cannot be read is refused or dropped; the server goes on."""
    answer = converse(server, sent)
    assert answer[9:12] == status
    assert send(server, "GET", "/version")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_a_strange_body_is_the_clients_fault(server: ApiServer, method: str) -> None:
    """Whatever JSON is sent, the answer is a 4xx, never a fault of ours."""
    path = CONFIG_MAPS.path(HOME)
    send(server, "POST", path, {"metadata": {"name": "a"}})
    for body in STRANGE:
        code, answer = send(server, method, path if method == "POST" else f"{path}/a", body)
        assert 400 <= code < 500, (body, answer)
