"""What every request must satisfy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc
import pytest

from csi._pb import csi_pb2
from csi.errors import InvalidArgument
from csi.rpc.validation import check_sizes

from .inprocess import mount, serving
from .messages import send

if TYPE_CHECKING:
    from google.protobuf.message import Message

MODE = csi_pb2.VolumeCapability.AccessMode
MOUNT = csi_pb2.VolumeCapability.MountVolume()
BLOCK = csi_pb2.VolumeCapability.BlockVolume()


def capability(mode: int = MODE.SINGLE_NODE_WRITER, *, block: bool = False) -> csi_pb2.VolumeCapability:
    access = csi_pb2.VolumeCapability.AccessMode()
    access.mode = mode  # type: ignore[assignment] # numbers that csi.proto does not know are wanted here
    if block:
        return csi_pb2.VolumeCapability(block=BLOCK, access_mode=access)
    return csi_pb2.VolumeCapability(mount=MOUNT, access_mode=access)


CREATE = csi_pb2.CreateVolumeRequest
DELETE = csi_pb2.DeleteVolumeRequest
VALIDATE = csi_pb2.ValidateVolumeCapabilitiesRequest
PUBLISH = csi_pb2.ControllerPublishVolumeRequest
UNPUBLISH = csi_pb2.ControllerUnpublishVolumeRequest
STAGE = csi_pb2.NodeStageVolumeRequest
UNSTAGE = csi_pb2.NodeUnstageVolumeRequest
NODE_PUBLISH = csi_pb2.NodePublishVolumeRequest
NODE_UNPUBLISH = csi_pb2.NodeUnpublishVolumeRequest
UNTYPED = csi_pb2.VolumeCapability(access_mode=MODE(mode=MODE.SINGLE_NODE_WRITER))
UNMODED = csi_pb2.VolumeCapability(mount=MOUNT)

REFUSED = [
    (CREATE(volume_capabilities=[mount()]), "name"),
    (CREATE(name="n"), "volume_capabilities"),
    (CREATE(name="n" * 129, volume_capabilities=[mount()]), "name has 129 bytes"),
    (CREATE(name="n", volume_capabilities=[mount(), UNTYPED]), "neither block nor mount"),
    (CREATE(name="n", volume_capabilities=[UNMODED]), "access_mode"),
    (CREATE(name="n", volume_capabilities=[capability(MODE.UNKNOWN)]), "access_mode"),
    (CREATE(name="n", volume_capabilities=[capability(99)]), "99"),
    (CREATE(name="n", volume_capabilities=[capability(MODE.MULTI_NODE_MULTI_WRITER)]), "one node at a time"),
    (CREATE(name="n", volume_capabilities=[capability(MODE.MULTI_NODE_READER_ONLY)]), "one node at a time"),
    (CREATE(name="n", volume_capabilities=[mount()], mutable_parameters={"a": "b"}), "MODIFY_VOLUME"),
    (DELETE(), "volume_id"),
    (VALIDATE(volume_capabilities=[mount()]), "volume_id"),
    (VALIDATE(volume_id="v"), "volume_capabilities"),
    (VALIDATE(volume_id="v", volume_capabilities=[UNTYPED]), "neither block nor mount"),
    (PUBLISH(), "volume_id"),
    (PUBLISH(volume_id="v"), "node_id"),
    (PUBLISH(volume_id="v", node_id="n"), "volume_capability"),
    (PUBLISH(volume_id="v", node_id="n" * 257, volume_capability=mount()), "node_id has 257 bytes"),
    (
        PUBLISH(volume_id="v", node_id="n", volume_capability=capability(MODE.MULTI_NODE_SINGLE_WRITER)),
        "one node at a time",
    ),
    (PUBLISH(volume_id="v", node_id="n", volume_capability=mount(), readonly=True), "PUBLISH_READONLY"),
    (UNPUBLISH(), "volume_id"),
    (STAGE(), "volume_id"),
    (STAGE(volume_id="v"), "staging_target_path"),
    (STAGE(volume_id="v", staging_target_path="/s"), "volume_capability"),
    (STAGE(volume_id="v", staging_target_path="/s", volume_capability=UNTYPED), "neither block nor mount"),
    (UNSTAGE(), "volume_id"),
    (UNSTAGE(volume_id="v"), "staging_target_path"),
    (NODE_PUBLISH(), "volume_id"),
    (NODE_PUBLISH(volume_id="v"), "target_path"),
    (NODE_PUBLISH(volume_id="v", target_path="/t"), "volume_capability"),
    (NODE_UNPUBLISH(), "volume_id"),
    (NODE_UNPUBLISH(volume_id="v"), "target_path"),
]


def method_of(request: Message) -> str:
    name = type(request).__name__.removesuffix("Request")
    service = "Node" if name.startswith("Node") else "Controller"
    return f"/csi.v1.{service}/{name}"


def test_what_is_missing_or_impossible_is_refused_before_any_work() -> None:
    """Each fault is INVALID_ARGUMENT with the field's name, in the spec's order, and no service is asked."""
    with serving() as driver:
        for request, words in REFUSED:
            code, details = send(driver.channel, method_of(request), request.SerializeToString())
            assert (code, words in details) == (grpc.StatusCode.INVALID_ARGUMENT, True), request
        assert driver.behaviour.asked == []


SIZES = [
    (DELETE(volume_id="v" * 128), True),
    (DELETE(volume_id="v" * 129), False),
    (DELETE(volume_id="é" * 65), False),
    (DELETE(volume_id="v", secrets={"k": "s" * 4095}), True),
    (DELETE(volume_id="v", secrets={"k": "s" * 4096}), False),
    (PUBLISH(node_id="n" * 256), True),
    (UNSTAGE(staging_target_path="/" + "s" * 4000), True),
    (UNSTAGE(staging_target_path="/" + "s" * 4095), False),
    (CREATE(volume_capabilities=[mount("f" * 129)]), False),
    (CREATE(parameters={"k": "p" * 4096}), False),
    (
        CREATE(
            volume_capabilities=[
                csi_pb2.VolumeCapability(
                    mount=csi_pb2.VolumeCapability.MountVolume(mount_flags=["o" * 2048, "o" * 2049])
                )
            ]
        ),
        False,
    ),
]


@pytest.mark.parametrize(("request_", "fits"), SIZES)
def test_sizes(request_: Message, fits: bool) -> None:
    """Strings hold 128 bytes, node ids 256, paths PATH_MAX, maps and mount flags 4 KiB; never cut."""
    if fits:
        check_sizes(request_)
    else:
        with pytest.raises(InvalidArgument, match="at most"):
            check_sizes(request_)
