"""The Identity service. Nothing here waits, asks the host or takes a lock: a busy plugin still answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf.wrappers_pb2 import BoolValue

from csi._pb import csi_pb2
from csi.model import DRIVER_NAME

if TYPE_CHECKING:
    from csi.deadline import Deadline


class Identity:
    """Who the plugin is. `version` is the distribution's."""

    def __init__(self, version: str) -> None:
        self._version = version

    def GetPluginInfo(
        self, _request: csi_pb2.GetPluginInfoRequest, _deadline: Deadline
    ) -> csi_pb2.GetPluginInfoResponse:
        """Say name and version."""
        return csi_pb2.GetPluginInfoResponse(name=DRIVER_NAME, vendor_version=self._version)

    def GetPluginCapabilities(
        self, _request: csi_pb2.GetPluginCapabilitiesRequest, _deadline: Deadline
    ) -> csi_pb2.GetPluginCapabilitiesResponse:
        """Declare the controller service in every mode.

        An attacher that finds none would mark volumes attached without attaching them; where the controller
        half does not run, its service answers UNIMPLEMENTED instead.
        """
        service = csi_pb2.PluginCapability.Service(type=csi_pb2.PluginCapability.Service.CONTROLLER_SERVICE)
        return csi_pb2.GetPluginCapabilitiesResponse(capabilities=[csi_pb2.PluginCapability(service=service)])

    def Probe(self, _request: csi_pb2.ProbeRequest, _deadline: Deadline) -> csi_pb2.ProbeResponse:
        """Be ready once serving; a host that does not answer must not get the plugin killed."""
        return csi_pb2.ProbeResponse(ready=BoolValue(value=True))
