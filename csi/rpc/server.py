"""The gRPC server: services built from csi.proto's descriptors, threads, the socket, the drain.

The trap: gRPC removes an existing socket file when it binds, even one on which another driver answers. That
is why csi.rpc.endpoint hands it a name of its own.
"""

from __future__ import annotations

import functools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import grpc
from google.protobuf.message_factory import GetMessageClass

from csi._pb import csi_pb2
from csi.errors import Unimplemented
from csi.rpc.edge import Admission, Edge, Rpc
from csi.rpc.endpoint import EndpointError, SocketName, UnixEndpoint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from google.protobuf.descriptor import MethodDescriptor
    from google.protobuf.message import Message

    from csi.deadline import Deadline
    from csi.rpc.edge import Answer
    from csi.rpc.endpoint import Endpoint, TcpEndpoint

SPARE_THREADS: Final = 16
"""Threads of a service that working calls never get: probes are answered when all others are stuck."""
CONTROLLER_THREADS: Final = 256
NODE_THREADS: Final = 64

ALWAYS_ANSWERED: Final = frozenset(
    {
        "GetPluginInfo",
        "GetPluginCapabilities",
        "Probe",
        "ControllerGetCapabilities",
        "NodeGetCapabilities",
        "NodeGetInfo",
    }
)
"""Methods that take no place among the working calls: they neither wait nor touch a volume."""
UNDECLARED: Final = "the driver does not declare it among its capabilities"


@dataclass(frozen=True, slots=True)
class Service:
    """One service of csi.proto and what serves it.

    `servicer` has a method `(request, deadline) -> response` of the same name for each RPC that is served;
    the other RPCs answer UNIMPLEMENTED with the sentence `why_not`. None serves nothing.
    """

    name: str
    servicer: object | None
    threads: int = SPARE_THREADS
    why_not: str = UNDECLARED

    def rpcs(self) -> Iterator[tuple[str, Rpc]]:
        """Yield every RPC of the service with its name."""
        admission = Admission(max(self.threads - SPARE_THREADS, 1))
        for method in csi_pb2.DESCRIPTOR.services_by_name[self.name].methods:
            answer: Answer | None = getattr(self.servicer, method.name, None)
            yield (
                method.name,
                Rpc(
                    path=f"/csi.v1.{self.name}/{method.name}",
                    request_type=GetMessageClass(method.input_type),
                    answer=answer or functools.partial(_refuse, method, self.why_not),
                    admission=admission if answer and method.name not in ALWAYS_ANSWERED else None,
                ),
            )


def _refuse(method: MethodDescriptor, why: str, _request: Message, _deadline: Deadline) -> Message:
    raise Unimplemented(f"{method.name} is not served: {why}")


class Server:
    """Serves the services on one endpoint, from `start` to `drain`."""

    def __init__(self, services: Sequence[Service], edge: Edge) -> None:
        self._edge = edge
        self._socket: SocketName | None = None
        threads = sum(service.threads for service in services)
        self._server = grpc.server(
            ThreadPoolExecutor(threads, thread_name_prefix="rpc"), options=[("grpc.so_reuseport", 0)]
        )
        self._server.add_generic_rpc_handlers([_handlers(service, edge) for service in services])

    def start(self, endpoint: Endpoint) -> str:
        """Serve, and return the address to call; raises EndpointError when the endpoint cannot be had."""
        if not isinstance(endpoint, UnixEndpoint):
            return self._start_tcp(endpoint)
        name = SocketName(endpoint.path)
        with name.taken() as path:
            self._bind(f"unix:{path}")
            self._server.start()
        self._socket = name
        return f"unix:{endpoint.path}"

    def drain(self, seconds: float) -> int:
        """Refuse new calls, end the waits of running ones, and give these `seconds` to finish.

        Returns how many calls did not finish; their threads may still run.
        """
        finished = self._server.stop(seconds)
        self._edge.stop()
        finished.wait()
        if self._socket is not None:
            self._socket.give_back()
        return self._edge.running()

    def _start_tcp(self, endpoint: TcpEndpoint) -> str:
        port = self._bind(f"{endpoint.host}:{endpoint.port}")
        self._server.start()
        return f"{endpoint.host}:{port}"

    def _bind(self, address: str) -> int:
        try:
            return self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise EndpointError(f"cannot listen on {address}") from error


def _handlers(service: Service, edge: Edge) -> grpc.GenericRpcHandler:
    return grpc.method_handlers_generic_handler(
        f"csi.v1.{service.name}",
        {
            name: grpc.unary_unary_rpc_method_handler(
                functools.partial(edge.serve, rpc), response_serializer=_encode
            )
            for name, rpc in service.rpcs()
        },
    )


def _encode(response: Message) -> bytes:
    return response.SerializeToString()
