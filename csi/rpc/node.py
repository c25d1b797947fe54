"""The Node service over its port. Each method: demand, lock, act, answer.

Locks: every changing RPC holds its volume's id, so that a volume's steps in the kernel never overlap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from csi._pb import csi_pb2
from csi.model import VolumeId
from csi.rpc import convert
from csi.rpc.locks import VolumeLocks
from csi.rpc.validation import check_servable, demand

if TYPE_CHECKING:
    from csi.deadline import Deadline
    from csi.ports import NodeService

_RPC = csi_pb2.NodeServiceCapability.RPC
CAPABILITIES = (_RPC.STAGE_UNSTAGE_VOLUME, _RPC.GET_VOLUME_STATS, _RPC.VOLUME_CONDITION)


class Node:
    """What happens to a volume on this node."""

    def __init__(self, node: NodeService) -> None:
        self._node = node
        self._locks = VolumeLocks()

    def NodeGetInfo(
        self, _request: csi_pb2.NodeGetInfoRequest, _deadline: Deadline
    ) -> csi_pb2.NodeGetInfoResponse:
        """Say who this node is."""
        return convert.node_info(self._node.info())

    def NodeGetCapabilities(
        self, _request: csi_pb2.NodeGetCapabilitiesRequest, _deadline: Deadline
    ) -> csi_pb2.NodeGetCapabilitiesResponse:
        """Declare what is served."""
        capability = csi_pb2.NodeServiceCapability
        return csi_pb2.NodeGetCapabilitiesResponse(
            capabilities=[capability(rpc=capability.RPC(type=kind)) for kind in CAPABILITIES]
        )

    def NodeStageVolume(
        self, request: csi_pb2.NodeStageVolumeRequest, deadline: Deadline
    ) -> csi_pb2.NodeStageVolumeResponse:
        """Find the disk, format it after proof of blank, mount it at the staging path."""
        demand("volume_id", request.volume_id)
        demand("staging_target_path", request.staging_target_path)
        demand("volume_capability", request.HasField("volume_capability"))
        check_servable(request.volume_capability)
        with self._locks.hold(VolumeId(request.volume_id)):
            self._node.stage(convert.stage_request(request), deadline)
        return csi_pb2.NodeStageVolumeResponse()

    def NodeUnstageVolume(
        self, request: csi_pb2.NodeUnstageVolumeRequest, deadline: Deadline
    ) -> csi_pb2.NodeUnstageVolumeResponse:
        """Unmount the staging path."""
        demand("volume_id", request.volume_id)
        demand("staging_target_path", request.staging_target_path)
        volume = VolumeId(request.volume_id)
        with self._locks.hold(volume):
            self._node.unstage(volume, request.staging_target_path, deadline)
        return csi_pb2.NodeUnstageVolumeResponse()

    def NodePublishVolume(
        self, request: csi_pb2.NodePublishVolumeRequest, deadline: Deadline
    ) -> csi_pb2.NodePublishVolumeResponse:
        """Make the volume appear at the target path."""
        demand("volume_id", request.volume_id)
        demand("target_path", request.target_path)
        demand("volume_capability", request.HasField("volume_capability"))
        check_servable(request.volume_capability)
        with self._locks.hold(VolumeId(request.volume_id)):
            self._node.publish(convert.node_publish_request(request), deadline)
        return csi_pb2.NodePublishVolumeResponse()

    def NodeUnpublishVolume(
        self, request: csi_pb2.NodeUnpublishVolumeRequest, deadline: Deadline
    ) -> csi_pb2.NodeUnpublishVolumeResponse:
        """Remove the volume from the target path."""
        demand("volume_id", request.volume_id)
        demand("target_path", request.target_path)
        volume = VolumeId(request.volume_id)
        with self._locks.hold(volume):
            self._node.unpublish(volume, request.target_path, deadline)
        return csi_pb2.NodeUnpublishVolumeResponse()

    def NodeGetVolumeStats(
        self, request: csi_pb2.NodeGetVolumeStatsRequest, deadline: Deadline
    ) -> csi_pb2.NodeGetVolumeStatsResponse:
        """Say how full the volume is and what is wrong with it; holds no lock, since it may hang."""
        demand("volume_id", request.volume_id)
        demand("volume_path", request.volume_path)
        volume = VolumeId(request.volume_id)
        return convert.node_stats(self._node.stats(volume, request.volume_path, deadline))
