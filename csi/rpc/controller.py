"""The Controller service over the ports. Each method: demand, lock, act, answer.

Locks: every changing RPC holds its volume's id; CreateVolume, which has only a name, holds the id that the
name becomes. ValidateVolumeCapabilities changes nothing and holds nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from csi._pb import csi_pb2
from csi.errors import InvalidArgument
from csi.model import NodeId, VolumeId
from csi.rpc import convert
from csi.rpc.locks import VolumeLocks
from csi.rpc.validation import check_capability, check_servable, demand

if TYPE_CHECKING:
    from collections.abc import Callable

    from csi.deadline import Deadline
    from csi.ports import AttachmentService, VolumeService

_RPC = csi_pb2.ControllerServiceCapability.RPC
CAPABILITIES = (_RPC.CREATE_DELETE_VOLUME, _RPC.PUBLISH_UNPUBLISH_VOLUME)


class Controller:
    """What happens to volumes on the host. `volume_id_for` tells the id that a request's name becomes."""

    def __init__(
        self,
        volumes: VolumeService,
        attachments: AttachmentService,
        volume_id_for: Callable[[str], VolumeId],
    ) -> None:
        self._volumes = volumes
        self._attachments = attachments
        self._volume_id_for = volume_id_for
        self._locks = VolumeLocks()

    def ControllerGetCapabilities(
        self, _request: csi_pb2.ControllerGetCapabilitiesRequest, _deadline: Deadline
    ) -> csi_pb2.ControllerGetCapabilitiesResponse:
        """Declare what is served."""
        capability = csi_pb2.ControllerServiceCapability
        return csi_pb2.ControllerGetCapabilitiesResponse(
            capabilities=[capability(rpc=capability.RPC(type=kind)) for kind in CAPABILITIES]
        )

    def CreateVolume(
        self, request: csi_pb2.CreateVolumeRequest, deadline: Deadline
    ) -> csi_pb2.CreateVolumeResponse:
        """Make the claim behind a volume."""
        demand("name", request.name)
        demand("volume_capabilities", request.volume_capabilities)
        for capability in request.volume_capabilities:
            check_servable(capability)
        if request.mutable_parameters:
            raise InvalidArgument("mutable_parameters: the driver does not declare MODIFY_VOLUME")
        with self._locks.hold(self._volume_id_for(request.name)):
            volume = self._volumes.create(convert.create_request(request), deadline)
        return convert.created(volume)

    def DeleteVolume(
        self, request: csi_pb2.DeleteVolumeRequest, deadline: Deadline
    ) -> csi_pb2.DeleteVolumeResponse:
        """Delete the claim behind a volume."""
        demand("volume_id", request.volume_id)
        volume = VolumeId(request.volume_id)
        with self._locks.hold(volume):
            self._volumes.delete(volume, deadline)
        return csi_pb2.DeleteVolumeResponse()

    def ValidateVolumeCapabilities(
        self, request: csi_pb2.ValidateVolumeCapabilitiesRequest, deadline: Deadline
    ) -> csi_pb2.ValidateVolumeCapabilitiesResponse:
        """Say whether the volume can be used as asked; "no" is an answer, not an error."""
        demand("volume_id", request.volume_id)
        demand("volume_capabilities", request.volume_capabilities)
        for capability in request.volume_capabilities:
            check_capability(capability)
        asked = convert.capabilities(request.volume_capabilities)
        why_not = self._volumes.validate(VolumeId(request.volume_id), asked, deadline)
        return convert.confirmed(request, why_not)

    def ControllerPublishVolume(
        self, request: csi_pb2.ControllerPublishVolumeRequest, deadline: Deadline
    ) -> csi_pb2.ControllerPublishVolumeResponse:
        """Bring the disk into the machine."""
        demand("volume_id", request.volume_id)
        demand("node_id", request.node_id)
        demand("volume_capability", request.HasField("volume_capability"))
        check_servable(request.volume_capability)
        if request.readonly:
            raise InvalidArgument("readonly: the driver does not declare PUBLISH_READONLY")
        with self._locks.hold(VolumeId(request.volume_id)):
            context = self._attachments.publish(convert.publish_request(request), deadline)
        return csi_pb2.ControllerPublishVolumeResponse(publish_context=context)

    def ControllerUnpublishVolume(
        self, request: csi_pb2.ControllerUnpublishVolumeRequest, deadline: Deadline
    ) -> csi_pb2.ControllerUnpublishVolumeResponse:
        """Take the disk out of the machine; without a node id, out of all machines."""
        demand("volume_id", request.volume_id)
        volume, node = VolumeId(request.volume_id), NodeId(request.node_id) if request.node_id else None
        with self._locks.hold(volume):
            self._attachments.unpublish(volume, node, deadline)
        return csi_pb2.ControllerUnpublishVolumeResponse()
