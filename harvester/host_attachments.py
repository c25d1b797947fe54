"""VolumeAttachments of the host: whether a volume is attached to a host node. Parsing only.

The trap: the name can be computed only where the volume's handle is known; guests may not read host PVs, and
only of Longhorn it is known that the handle is the PV's name.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from kube.objects import dig, name_of, text, version_of

if TYPE_CHECKING:
    from kube.objects import Object


@dataclass(frozen=True, slots=True)
class HostAttachment:
    """A storage.k8s.io/v1 VolumeAttachment of the host."""

    name: str
    resource_version: str
    volume_name: str
    """Name of the host PV."""
    node: str
    """Host node."""
    attached: bool
    trouble: str
    """What the host's driver says about an attach or a detach that failed, else ""."""

    def __str__(self) -> str:
        """Describe the attachment in an error's sentence."""
        state = "attached" if self.attached else "not attached"
        return (
            f"host attachment {self.name} on {self.node} ({state}{f': {self.trouble}' * bool(self.trouble)})"
        )


def attachment_name(handle: str, driver: str, node: str) -> str:
    """Return the name that Kubernetes gives an attachment (pkg/volume/csi, getAttachmentName)."""
    return "csi-" + sha256(f"{handle}{driver}{node}".encode()).hexdigest()


def parse_host_attachment(obj: Object) -> HostAttachment:
    """Read a VolumeAttachment; missing fields read as empty."""
    return HostAttachment(
        name=name_of(obj),
        resource_version=version_of(obj),
        volume_name=text(obj, "spec", "source", "persistentVolumeName"),
        node=text(obj, "spec", "nodeName"),
        attached=dig(obj, "status", "attached") is True,
        trouble=text(obj, "status", "attachError", "message")
        or text(obj, "status", "detachError", "message"),
    )
