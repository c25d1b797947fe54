"""What csi.rpc needs of the two halves. The composition root hands in what keeps these promises.

Every call may come twice, at once, and in two processes. Every call raises only csi.errors.CsiError;
anything else is a fault that csi.rpc logs and answers INTERNAL. Locks per volume are the caller's (csi.rpc),
so that a busy volume is answered ABORTED at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from csi.deadline import Deadline
    from csi.model import (
        Capability,
        CreateRequest,
        NodeId,
        NodeInfo,
        NodePublishRequest,
        PublishRequest,
        StageRequest,
        Volume,
        VolumeId,
        VolumeStats,
    )


class VolumeService(Protocol):
    """Volumes as host claims."""

    def create(self, request: CreateRequest, deadline: Deadline) -> Volume:
        """Make the claim, or return the one that this request made before."""
        ...

    def delete(self, volume: VolumeId, deadline: Deadline) -> None:
        """Delete the claim; a missing one is done."""
        ...

    def validate(self, volume: VolumeId, capabilities: tuple[Capability, ...], deadline: Deadline) -> str:
        """Return "" when the volume can serve all capabilities, else the sentence that says why not."""
        ...


class AttachmentService(Protocol):
    """Hot-plug of claims into machines."""

    def publish(self, request: PublishRequest, deadline: Deadline) -> Mapping[str, str]:
        """Attach and wait until the disk is in the machine; return the publish context."""
        ...

    def unpublish(self, volume: VolumeId, node: NodeId | None, deadline: Deadline) -> None:
        """Detach and wait until no layer holds the disk; `node` None means from all machines."""
        ...


class NodeService(Protocol):
    """Devices, file systems and mounts of this node."""

    def info(self) -> NodeInfo:
        """Say who this node is."""
        ...

    def stage(self, request: StageRequest, deadline: Deadline) -> None:
        """Find the disk, format it after proof of blank, mount it at the staging path."""
        ...

    def unstage(self, volume: VolumeId, path: str, deadline: Deadline) -> None:
        """Unmount the staging path; a path that is not mounted is done."""
        ...

    def publish(self, request: NodePublishRequest, deadline: Deadline) -> None:
        """Make the volume appear at the target path."""
        ...

    def unpublish(self, volume: VolumeId, target: str, deadline: Deadline) -> None:
        """Unmount and remove the target path; a missing one is done."""
        ...

    def stats(self, volume: VolumeId, path: str, deadline: Deadline) -> VolumeStats:
        """Return figures and condition; NotFound when the volume is not mounted at the path.

        May come beside any other call for the volume: it changes nothing, and must not keep others waiting.
        """
        ...
