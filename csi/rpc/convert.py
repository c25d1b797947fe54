"""protobuf to values and back. Pure; requests have passed csi.rpc.validation."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from csi.model import NodeInfo, Usage, Volume, VolumeStats


def capability(message: csi_pb2.VolumeCapability) -> Capability:
    """Read one capability."""
    mode = csi_pb2.VolumeCapability.AccessMode.Mode.Name(message.access_mode.mode)
    return Capability(
        mode=AccessMode[mode],
        block=message.HasField("block"),
        fs_type=message.mount.fs_type,
        mount_flags=tuple(message.mount.mount_flags),
    )


def capabilities(messages: Iterable[csi_pb2.VolumeCapability]) -> tuple[Capability, ...]:
    """Read a capability set."""
    return tuple(capability(message) for message in messages)


def create_request(message: csi_pb2.CreateVolumeRequest) -> CreateRequest:
    """Read CreateVolume."""
    return CreateRequest(
        name=message.name,
        required=message.capacity_range.required_bytes,
        limit=message.capacity_range.limit_bytes,
        capabilities=capabilities(message.volume_capabilities),
        parameters=dict(message.parameters),
        has_source=message.HasField("volume_content_source"),
    )


def created(volume: Volume) -> csi_pb2.CreateVolumeResponse:
    """Answer CreateVolume."""
    return csi_pb2.CreateVolumeResponse(
        volume=csi_pb2.Volume(
            volume_id=volume.id, capacity_bytes=volume.capacity, volume_context=volume.context
        )
    )


def confirmed(
    message: csi_pb2.ValidateVolumeCapabilitiesRequest, why_not: str
) -> csi_pb2.ValidateVolumeCapabilitiesResponse:
    """Answer ValidateVolumeCapabilities: what was asked is confirmed, or `why_not` says why it is not."""
    if why_not:
        return csi_pb2.ValidateVolumeCapabilitiesResponse(message=why_not)
    return csi_pb2.ValidateVolumeCapabilitiesResponse(
        confirmed=csi_pb2.ValidateVolumeCapabilitiesResponse.Confirmed(
            volume_context=message.volume_context,
            volume_capabilities=message.volume_capabilities,
            parameters=message.parameters,
        )
    )


def publish_request(message: csi_pb2.ControllerPublishVolumeRequest) -> PublishRequest:
    """Read ControllerPublishVolume."""
    return PublishRequest(
        volume=VolumeId(message.volume_id),
        node=NodeId(message.node_id),
        capability=capability(message.volume_capability),
        readonly=message.readonly,
        volume_context=dict(message.volume_context),
    )


def stage_request(message: csi_pb2.NodeStageVolumeRequest) -> StageRequest:
    """Read NodeStageVolume."""
    return StageRequest(
        volume=VolumeId(message.volume_id),
        path=message.staging_target_path,
        capability=capability(message.volume_capability),
        publish_context=dict(message.publish_context),
        volume_context=dict(message.volume_context),
    )


def node_publish_request(message: csi_pb2.NodePublishVolumeRequest) -> NodePublishRequest:
    """Read NodePublishVolume."""
    return NodePublishRequest(
        volume=VolumeId(message.volume_id),
        staging_path=message.staging_target_path,
        target_path=message.target_path,
        capability=capability(message.volume_capability),
        readonly=message.readonly,
        publish_context=dict(message.publish_context),
        volume_context=dict(message.volume_context),
    )


def node_info(info: NodeInfo) -> csi_pb2.NodeGetInfoResponse:
    """Answer NodeGetInfo."""
    return csi_pb2.NodeGetInfoResponse(node_id=info.node, max_volumes_per_node=info.max_volumes)


def node_stats(stats: VolumeStats) -> csi_pb2.NodeGetVolumeStatsResponse:
    """Answer NodeGetVolumeStats.

    Without any figure an entry of unknown unit stands for them: kubelet takes an answer that has none for an
    error and drops the condition with it (csi_client.go, NodeGetVolumeStats).
    """
    unit = csi_pb2.VolumeUsage.Unit
    known = [_usage(of, in_) for of, in_ in ((stats.bytes, unit.BYTES), (stats.inodes, unit.INODES)) if of]
    return csi_pb2.NodeGetVolumeStatsResponse(
        usage=known or [csi_pb2.VolumeUsage()],
        volume_condition=csi_pb2.VolumeCondition(
            abnormal=bool(stats.trouble), message=stats.trouble or "nothing is known to be wrong"
        ),
    )


def _usage(usage: Usage, unit: csi_pb2.VolumeUsage.Unit.ValueType) -> csi_pb2.VolumeUsage:
    return csi_pb2.VolumeUsage(unit=unit, total=usage.total, used=usage.used, available=usage.available)
