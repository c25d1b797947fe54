"""Where the driver listens, and whose socket is whose."""

from __future__ import annotations

import socket
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
from prometheus_client import CollectorRegistry

from csi._pb import csi_pb2, csi_pb2_grpc
from csi.rpc.edge import Edge
from csi.rpc.endpoint import (
    MAX_SOCKET_PATH,
    Endpoint,
    EndpointError,
    TcpEndpoint,
    UnixEndpoint,
    parse_endpoint,
)
from csi.rpc.identity import Identity
from csi.rpc.server import Server, Service

from .messages import LIMIT

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("unix:///csi/csi.sock", UnixEndpoint(Path("/csi/csi.sock"))),
        ("unix:/csi/csi.sock", UnixEndpoint(Path("/csi/csi.sock"))),
        ("unix:csi.sock", UnixEndpoint(Path("csi.sock"))),
        ("UNIX:///csi.sock", UnixEndpoint(Path("/csi.sock"))),
        ("tcp://127.0.0.1:0", TcpEndpoint("127.0.0.1", 0)),
        ("tcp://localhost:10000", TcpEndpoint("localhost", 10000)),
        ("tcp://[::1]:10000", TcpEndpoint("[::1]", 10000)),
    ],
)
def test_endpoints_are_read(text: str, endpoint: Endpoint) -> None:
    """A scheme is taken off as a prefix, not letter by letter; loopback ports serve tests."""
    assert parse_endpoint(text) == endpoint


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "neither"),
        ("/csi/csi.sock", "neither"),
        ("http://localhost:1", "neither"),
        ("unix:", "no absolute path"),
        ("unix://", "no absolute path"),
        ("unix://csi/csi.sock", "no absolute path"),
        ("unix:///" + "s" * MAX_SOCKET_PATH, "too long"),
        ("tcp://0.0.0.0:1", "open to others"),
        ("tcp://:1", "open to others"),
        ("tcp://localhost:", "no port"),
        ("tcp://localhost:65536", "no port"),
        ("tcp://localhost:-1", "no port"),
    ],
)
def test_a_wrong_endpoint_is_told_why(text: str, words: str) -> None:
    """What cannot be listened on, or must not be open to others, is refused with the reason."""
    with pytest.raises(ValueError, match=words):
        parse_endpoint(text)


@contextmanager
def serving(path: Path) -> Iterator[Server]:
    """Serve Identity on a socket."""
    server = Server([Service("Identity", Identity("1"))], Edge(LIMIT, CollectorRegistry()))
    server.start(UnixEndpoint(path))
    yield server
    server.drain(0)


def answers(path: Path) -> bool:
    """Tell whether a driver answers on the socket."""
    with grpc.insecure_channel(f"unix:{path}") as channel:
        return csi_pb2_grpc.IdentityStub(channel).Probe(csi_pb2.ProbeRequest(), timeout=LIMIT).ready.value


def test_a_socket_is_there_while_it_serves(tmp_path: Path) -> None:
    """The socket answers, is for owner and group alone, and is gone afterwards with everything else."""
    path = tmp_path / "csi.sock"
    with serving(path):
        assert answers(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        assert list(tmp_path.iterdir()) == [path]
    assert list(tmp_path.iterdir()) == []


def test_a_socket_left_by_a_dead_driver_is_replaced(tmp_path: Path) -> None:
    """A socket on which nothing answers is no obstacle."""
    path = tmp_path / "csi.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    with serving(path):
        assert answers(path)


def test_a_socket_in_use_is_left_alone(tmp_path: Path) -> None:
    """A second driver on one socket is refused, and the first one goes on."""
    path = tmp_path / "csi.sock"
    with serving(path):
        with pytest.raises(EndpointError, match="another driver answers there"), serving(path):
            pass
        assert answers(path)


def test_a_socket_that_does_not_accept_any_more_calls_is_in_use(tmp_path: Path) -> None:
    """A socket whose owner is busy is not taken for a dead one."""
    path = tmp_path / "csi.sock"
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as waiting:
        busy.bind(str(path))
        busy.listen(0)
        waiting.connect(str(path))
        with pytest.raises(EndpointError, match="in use"), serving(path):
            pass


def test_a_file_in_the_way_is_left_alone(tmp_path: Path) -> None:
    """What is no socket is never removed."""
    path = tmp_path / "csi.sock"
    path.write_text("precious")
    with pytest.raises(EndpointError, match="no socket"), serving(path):
        pass
    assert path.read_text() == "precious"


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    """A folder that does not exist is named."""
    with pytest.raises(EndpointError, match="gone: No such file"), serving(tmp_path / "gone" / "csi.sock"):
        pass


def test_another_drivers_socket_outlives_our_end(tmp_path: Path) -> None:
    """A driver that ends late leaves the socket of its successor alone."""
    path = tmp_path / "csi.sock"
    with socket.socket(socket.AF_UNIX) as successor:
        with serving(path):
            path.unlink()
            successor.bind(str(path))
        assert path.is_socket()


def test_a_port_in_use_is_told() -> None:
    """A port that somebody has is an error with its address, not a shared port."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = Server([Service("Identity", Identity("1"))], Edge(LIMIT, CollectorRegistry()))
        with pytest.raises(EndpointError, match=f"cannot listen on 127.0.0.1:{port}"):
            server.start(TcpEndpoint("127.0.0.1", port))
        server.drain(0)
