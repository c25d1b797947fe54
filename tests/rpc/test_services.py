"""The three services: what is declared, what is served, and how values cross the seam."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc
import pytest
from prometheus_client import CollectorRegistry

from csi._pb import csi_pb2
from csi.model import (
    AccessMode,
    Capability,
    CreateRequest,
    NodeId,
    NodePublishRequest,
    PublishRequest,
    StageRequest,
    VolumeId,
    VolumeStats,
)
from csi.rpc import convert
from csi.rpc.edge import Edge
from csi.rpc.endpoint import TcpEndpoint
from csi.rpc.server import Server, Service

from .inprocess import mount, serving
from .messages import LIMIT, methods, path, send

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.protobuf.descriptor import MethodDescriptor
    from google.protobuf.message import Message

    from .inprocess import Driver

SERVED = {
    "GetPluginInfo",
    "GetPluginCapabilities",
    "Probe",
    "ControllerGetCapabilities",
    "CreateVolume",
    "DeleteVolume",
    "ValidateVolumeCapabilities",
    "ControllerPublishVolume",
    "ControllerUnpublishVolume",
    "NodeGetCapabilities",
    "NodeGetInfo",
    "NodeStageVolume",
    "NodeUnstageVolume",
    "NodePublishVolume",
    "NodeUnpublishVolume",
    "NodeGetVolumeStats",
}
GARBAGE = [b"", b"\xff" * 64, b"\x0a\xff", b"\x0a\x02\xff\xfe", b"\x08\x01" * 1000]


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    with serving() as driver:
        yield driver


@pytest.mark.parametrize("method", methods(), ids=lambda method: method.name)
def test_garbage_is_never_unknown(driver: Driver, method: MethodDescriptor) -> None:
    """Whatever bytes arrive, the answer has a code that says something."""
    for raw in GARBAGE:
        code, _ = send(driver.channel, path(method), raw)
        assert code in {
            grpc.StatusCode.OK,
            grpc.StatusCode.INVALID_ARGUMENT,
            grpc.StatusCode.UNIMPLEMENTED,
        }


@pytest.mark.parametrize("method", methods(), ids=lambda method: method.name)
def test_what_is_not_declared_is_unimplemented(driver: Driver, method: MethodDescriptor) -> None:
    """A method outside the declared capabilities answers UNIMPLEMENTED and says why; the others do not."""
    code, details = send(driver.channel, path(method), b"")
    assert (code is grpc.StatusCode.UNIMPLEMENTED) is (method.name not in SERVED)
    if method.name not in SERVED:
        assert (
            details == f"{method.name} is not served: the driver does not declare it among its capabilities"
        )


def test_a_half_that_is_elsewhere_refuses_every_method() -> None:
    """A service without a servicer answers every method UNIMPLEMENTED, its capabilities too."""
    server = Server(
        [Service("Controller", None, why_not="it is elsewhere")], Edge(LIMIT, CollectorRegistry())
    )
    address = server.start(TcpEndpoint("127.0.0.1", 0))
    with grpc.insecure_channel(address) as channel:
        for method in csi_pb2.DESCRIPTOR.services_by_name["Controller"].methods:
            code, details = send(channel, path(method), b"")
            assert code is grpc.StatusCode.UNIMPLEMENTED
            assert details == f"{method.name} is not served: it is elsewhere"
    server.drain(0)


def test_the_plugin_says_who_it_is(driver: Driver) -> None:
    """Name and version are the driver's; it declares a controller service and is ready."""
    info = driver.identity.GetPluginInfo(csi_pb2.GetPluginInfoRequest(), timeout=LIMIT)
    declared = driver.identity.GetPluginCapabilities(csi_pb2.GetPluginCapabilitiesRequest(), timeout=LIMIT)
    assert (info.name, info.vendor_version) == ("driver.harvesterhci.io", "1.2.3")
    assert [capability.service.type for capability in declared.capabilities] == [
        csi_pb2.PluginCapability.Service.CONTROLLER_SERVICE
    ]
    assert driver.identity.Probe(csi_pb2.ProbeRequest(), timeout=LIMIT).ready.value


def test_capabilities_are_what_is_served(driver: Driver) -> None:
    """The controller creates and publishes, the node stages; nothing else is declared."""
    controller = driver.controller.ControllerGetCapabilities(
        csi_pb2.ControllerGetCapabilitiesRequest(), timeout=LIMIT
    )
    node = driver.node.NodeGetCapabilities(csi_pb2.NodeGetCapabilitiesRequest(), timeout=LIMIT)
    assert [capability.rpc.type for capability in controller.capabilities] == [
        csi_pb2.ControllerServiceCapability.RPC.CREATE_DELETE_VOLUME,
        csi_pb2.ControllerServiceCapability.RPC.PUBLISH_UNPUBLISH_VOLUME,
    ]
    assert [capability.rpc.type for capability in node.capabilities] == [
        csi_pb2.NodeServiceCapability.RPC.STAGE_UNSTAGE_VOLUME,
        csi_pb2.NodeServiceCapability.RPC.GET_VOLUME_STATS,
        csi_pb2.NodeServiceCapability.RPC.VOLUME_CONDITION,
    ]


WRITER = Capability(AccessMode.SINGLE_NODE_WRITER, fs_type="ext4")
VOLUME = VolumeId("v")
CONTEXTS = {"publish_context": {"a": "b"}, "volume_context": {"c": "d"}}
SEAM = [
    (
        "Controller/CreateVolume",
        csi_pb2.CreateVolumeRequest(
            name="N",
            capacity_range=csi_pb2.CapacityRange(required_bytes=5, limit_bytes=6),
            volume_capabilities=[mount()],
            parameters={"p": "q"},
            volume_content_source=csi_pb2.VolumeContentSource(),
        ),
        CreateRequest("N", 5, 6, (WRITER,), {"p": "q"}, has_source=True),
    ),
    ("Controller/DeleteVolume", csi_pb2.DeleteVolumeRequest(volume_id="v"), VOLUME),
    (
        "Controller/ControllerPublishVolume",
        csi_pb2.ControllerPublishVolumeRequest(
            volume_id="v", node_id="n", volume_capability=mount(), volume_context={"c": "d"}
        ),
        PublishRequest(VOLUME, NodeId("n"), WRITER, readonly=False, volume_context={"c": "d"}),
    ),
    (
        "Controller/ControllerUnpublishVolume",
        csi_pb2.ControllerUnpublishVolumeRequest(volume_id="v", node_id="n"),
        (VOLUME, NodeId("n")),
    ),
    (
        "Controller/ControllerUnpublishVolume",
        csi_pb2.ControllerUnpublishVolumeRequest(volume_id="v"),
        (VOLUME, None),
    ),
    (
        "Node/NodeStageVolume",
        csi_pb2.NodeStageVolumeRequest(
            volume_id="v", staging_target_path="/s", volume_capability=mount(), **CONTEXTS
        ),
        StageRequest(VOLUME, "/s", WRITER, {"a": "b"}, {"c": "d"}),
    ),
    (
        "Node/NodeUnstageVolume",
        csi_pb2.NodeUnstageVolumeRequest(volume_id="v", staging_target_path="/s"),
        (VOLUME, "/s"),
    ),
    (
        "Node/NodePublishVolume",
        csi_pb2.NodePublishVolumeRequest(
            volume_id="v",
            staging_target_path="/s",
            target_path="/t",
            volume_capability=mount(),
            readonly=True,
            **CONTEXTS,
        ),
        NodePublishRequest(VOLUME, "/s", "/t", WRITER, True, {"a": "b"}, {"c": "d"}),
    ),
    (
        "Node/NodeUnpublishVolume",
        csi_pb2.NodeUnpublishVolumeRequest(volume_id="v", target_path="/t"),
        (VOLUME, "/t"),
    ),
    (
        "Node/NodeGetVolumeStats",
        csi_pb2.NodeGetVolumeStatsRequest(volume_id="v", volume_path="/t"),
        (VOLUME, "/t"),
    ),
]


@pytest.mark.parametrize(("method", "request_", "asked"), SEAM)
def test_requests_cross_the_seam_as_values(
    driver: Driver, method: str, request_: Message, asked: object
) -> None:
    """Every field that a service decides by reaches it."""
    send(driver.channel, f"/csi.v1.{method}", request_.SerializeToString())
    assert driver.behaviour.asked[-1] == asked


def test_answers_cross_the_seam_as_messages(driver: Driver) -> None:
    """What a service answers reaches the caller: the id, the real size, the publish context."""
    create = csi_pb2.CreateVolumeRequest(
        name="N", capacity_range=csi_pb2.CapacityRange(required_bytes=5), volume_capabilities=[mount()]
    )
    publish = csi_pb2.ControllerPublishVolumeRequest(volume_id="v", node_id="n", volume_capability=mount())
    volume = driver.controller.CreateVolume(create, timeout=LIMIT).volume
    context = driver.controller.ControllerPublishVolume(publish, timeout=LIMIT).publish_context
    assert (volume.volume_id, volume.capacity_bytes, dict(context)) == ("n", 5, {"size": "1"})


def test_figures_cross_the_seam(driver: Driver) -> None:
    """Bytes, inodes and the condition reach the caller."""
    request = csi_pb2.NodeGetVolumeStatsRequest(volume_id="v", volume_path="/t")
    response = driver.node.NodeGetVolumeStats(request, timeout=LIMIT)
    told = [(each.unit, each.total, each.used, each.available) for each in response.usage]
    unit = csi_pb2.VolumeUsage.Unit
    assert told == [(unit.BYTES, 100, 30, 60), (unit.INODES, 10, 3, 7)]
    assert not response.volume_condition.abnormal


def test_trouble_reaches_kubelet() -> None:
    """Kubelet reads a condition only from an answer that has some usage."""
    response = convert.node_stats(VolumeStats(trouble="its device is gone"))
    assert [each.unit for each in response.usage] == [csi_pb2.VolumeUsage.UNKNOWN]
    assert response.volume_condition.abnormal
    assert response.volume_condition.message == "its device is gone"


def test_a_capability_that_is_not_served_is_not_confirmed(driver: Driver) -> None:
    """ValidateVolumeCapabilities answers a shared mode with a sentence, not with an error."""
    shared = mount()
    shared.access_mode.mode = csi_pb2.VolumeCapability.AccessMode.MULTI_NODE_MULTI_WRITER
    request = csi_pb2.ValidateVolumeCapabilitiesRequest(volume_id="v", volume_capabilities=[mount(), shared])
    response = driver.controller.ValidateVolumeCapabilities(request, timeout=LIMIT)
    assert not response.HasField("confirmed")
    assert response.message == "one node at a time"


def test_a_capability_that_is_served_is_confirmed(driver: Driver) -> None:
    """ValidateVolumeCapabilities confirms what was asked, with its parameters and context."""
    request = csi_pb2.ValidateVolumeCapabilitiesRequest(
        volume_id="v", volume_capabilities=[mount()], parameters={"p": "q"}, volume_context={"c": "d"}
    )
    confirmed = driver.controller.ValidateVolumeCapabilities(request, timeout=LIMIT).confirmed
    assert list(confirmed.volume_capabilities) == [mount()]
    assert dict(confirmed.parameters) == {"p": "q"}
    assert dict(confirmed.volume_context) == {"c": "d"}


@pytest.mark.parametrize("mode", list(AccessMode))
def test_every_access_mode_is_read(mode: AccessMode) -> None:
    """The model knows every access mode of csi.proto by its name."""
    message = mount()
    message.access_mode.mode = csi_pb2.VolumeCapability.AccessMode.Mode.Value(mode.value)
    assert convert.capability(message).mode is mode


def test_raw_block_is_told_from_mount() -> None:
    """A block capability has no file system."""
    message = csi_pb2.VolumeCapability(block=csi_pb2.VolumeCapability.BlockVolume())
    assert convert.capability(message) == Capability(AccessMode.UNKNOWN, block=True)
