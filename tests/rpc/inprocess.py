"""A driver's gRPC side in this process, over services whose behaviour the test gives."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import grpc
from prometheus_client import CollectorRegistry

from csi._pb import csi_pb2, csi_pb2_grpc
from csi.model import NodeId, NodeInfo, Usage, Volume, VolumeId, VolumeStats
from csi.rpc.controller import Controller
from csi.rpc.edge import Edge
from csi.rpc.endpoint import TcpEndpoint
from csi.rpc.identity import Identity
from csi.rpc.node import Node
from csi.rpc.server import SPARE_THREADS, Server, Service

from .messages import LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from csi.deadline import Deadline
    from csi.model import Capability, CreateRequest, NodePublishRequest, PublishRequest, StageRequest

CANARY = "canary-in-the-mine"


def nothing(_deadline: Deadline) -> None:
    """Do nothing."""


@dataclass
class Behaviour:
    """What every working call does, and what the services were asked."""

    work: Callable[[Deadline], None] = nothing
    asked: list[object] = field(default_factory=list)

    def do(self, deadline: Deadline, *asked: object) -> None:
        """Note what was asked, then work."""
        self.asked.append(asked[0] if len(asked) == 1 else asked)
        self.work(deadline)


class Volumes:
    """A VolumeService that makes what it is asked for."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._do = behaviour.do

    def create(self, request: CreateRequest, deadline: Deadline) -> Volume:
        self._do(deadline, request)
        return Volume(VolumeId(request.name.lower()), request.required)

    def delete(self, volume: VolumeId, deadline: Deadline) -> None:
        self._do(deadline, volume)

    def validate(self, volume: VolumeId, capabilities: tuple[Capability, ...], deadline: Deadline) -> str:
        self._do(deadline, volume, capabilities)
        return "one node at a time" if any(each.mode.multi_node for each in capabilities) else ""


class Attachments:
    """An AttachmentService that tells the size in the publish context."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._do = behaviour.do

    def publish(self, request: PublishRequest, deadline: Deadline) -> Mapping[str, str]:
        self._do(deadline, request)
        return {"size": "1"}

    def unpublish(self, volume: VolumeId, node: NodeId | None, deadline: Deadline) -> None:
        self._do(deadline, volume, node)


class NodeHalf:
    """A NodeService of node `n1`."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._do = behaviour.do

    def info(self) -> NodeInfo:
        return NodeInfo(NodeId("n1"))

    def stage(self, request: StageRequest, deadline: Deadline) -> None:
        self._do(deadline, request)

    def unstage(self, volume: VolumeId, path: str, deadline: Deadline) -> None:
        self._do(deadline, volume, path)

    def publish(self, request: NodePublishRequest, deadline: Deadline) -> None:
        self._do(deadline, request)

    def unpublish(self, volume: VolumeId, target: str, deadline: Deadline) -> None:
        self._do(deadline, volume, target)

    def stats(self, volume: VolumeId, path: str, deadline: Deadline) -> VolumeStats:
        self._do(deadline, volume, path)
        return VolumeStats(Usage(100, 30, 60), Usage(10, 3, 7))


@dataclass
class Driver:
    """A served driver and its stubs."""

    behaviour: Behaviour
    server: Server
    registry: CollectorRegistry
    address: str
    channel: grpc.Channel

    @property
    def identity(self) -> csi_pb2_grpc.IdentityStub:
        return csi_pb2_grpc.IdentityStub(self.channel)

    @property
    def controller(self) -> csi_pb2_grpc.ControllerStub:
        return csi_pb2_grpc.ControllerStub(self.channel)

    @property
    def node(self) -> csi_pb2_grpc.NodeStub:
        return csi_pb2_grpc.NodeStub(self.channel)


@contextmanager
def serving(*, max_wait: float = LIMIT, places: int = 8) -> Iterator[Driver]:
    """Serve all three services on a free port, with `places` for working calls of each half."""
    behaviour, registry = Behaviour(), CollectorRegistry()
    threads = places + SPARE_THREADS
    services = [
        Service("Identity", Identity("1.2.3")),
        Service(
            "Controller",
            Controller(Volumes(behaviour), Attachments(behaviour), lambda name: VolumeId(name.lower())),
            threads,
        ),
        Service("Node", Node(NodeHalf(behaviour)), threads),
    ]
    server = Server(services, Edge(max_wait, registry))
    address = server.start(TcpEndpoint("127.0.0.1", 0))
    with grpc.insecure_channel(address) as channel:
        yield Driver(behaviour, server, registry, address, channel)
        server.drain(0)


class Gate:
    """Work that stays until it is let go, and tells when `count` calls are in it."""

    def __init__(self, count: int = 1) -> None:
        self._arrived = threading.Semaphore(0)
        self._count = count
        self._open = threading.Event()

    def __call__(self, _deadline: Deadline) -> None:
        self._arrived.release()
        assert self._open.wait(LIMIT)

    def await_all(self) -> None:
        """Wait until all calls are in."""
        for _ in range(self._count):
            assert self._arrived.acquire(timeout=LIMIT)

    def open(self) -> None:
        """Let them go."""
        self._open.set()


def mount(fs_type: str = "ext4") -> csi_pb2.VolumeCapability:
    """Return a single-writer capability of a file system."""
    return csi_pb2.VolumeCapability(
        mount=csi_pb2.VolumeCapability.MountVolume(fs_type=fs_type),
        access_mode=csi_pb2.VolumeCapability.AccessMode(
            mode=csi_pb2.VolumeCapability.AccessMode.SINGLE_NODE_WRITER
        ),
    )


def delete(volume: str) -> csi_pb2.DeleteVolumeRequest:
    """Return the smallest working request."""
    return csi_pb2.DeleteVolumeRequest(volume_id=volume)
