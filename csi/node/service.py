"""The node half's port (csi.ports.NodeService): checks the arguments and hands the call to its room.

The trap: a program that hangs in the kernel outlives its call. Its volume stays busy until it has ended, else
the next call would work beside it.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from csi.errors import Busy, InvalidArgument
from csi.model import NodeInfo
from csi.node.commands import Hung
from csi.node.mount_flags import check_flags
from csi.node.publishing import Publishing
from csi.node.staging import Staging, utc_now
from csi.node.stats import Stats

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from csi.deadline import Deadline
    from csi.model import Capability, NodeId, NodePublishRequest, StageRequest, VolumeId, VolumeStats
    from csi.node.machine import Machine


class Node:
    """This node. Thread-safe for different volumes; calls for one volume come one at a time."""

    def __init__(self, node: NodeId, machine: Machine, now: Callable[[], datetime] = utc_now) -> None:
        self._node = node
        self._staging = Staging(machine, now)
        self._publishing = Publishing(machine, self._staging)
        self._stats = Stats(machine)
        self._hung: dict[VolumeId, threading.Event] = {}

    def info(self) -> NodeInfo:
        """Say who this node is; the id is the flag's, unchanged."""
        return NodeInfo(self._node)

    def stage(self, request: StageRequest, deadline: Deadline) -> None:
        """Find the disk, format it after proof of blank, mount it at the staging path."""
        _check_path("staging_target_path", request.path)
        _check_capability(request.capability, readonly=False)
        with self._call(request.volume):
            self._staging.stage(request, deadline)

    def unstage(self, volume: VolumeId, path: str, deadline: Deadline) -> None:
        """Unmount the staging path; a path that is not mounted is done."""
        _check_path("staging_target_path", path)
        with self._call(volume):
            self._staging.unstage(volume, path, deadline)

    def publish(self, request: NodePublishRequest, deadline: Deadline) -> None:
        """Make the volume appear at the target path."""
        _check_path("target_path", request.target_path)
        if request.staging_path:
            _check_path("staging_target_path", request.staging_path)
        _check_capability(request.capability, request.readonly)
        with self._call(request.volume):
            self._publishing.publish(request, deadline)

    def unpublish(self, volume: VolumeId, target: str, deadline: Deadline) -> None:
        """Unmount and remove the target path; a missing one is done."""
        _check_path("target_path", target)
        with self._call(volume):
            self._publishing.unpublish(volume, target, deadline)

    def stats(self, volume: VolumeId, path: str, deadline: Deadline) -> VolumeStats:
        """Return figures and condition of what is mounted at the path."""
        return self._stats.of(volume, path, deadline)

    @contextmanager
    def _call(self, volume: VolumeId) -> Iterator[None]:
        """Answer Busy while a program that an earlier call for the volume left behind has not ended."""
        hung = self._hung.get(volume)
        if hung is not None and not hung.is_set():
            raise Busy(
                f"a program of an earlier call for {volume} hangs in the kernel; its device does not answer"
            )
        self._hung.pop(volume, None)
        try:
            yield
        except Hung as error:
            self._hung[volume] = error.ended
            raise


def _check_path(name: str, path: str) -> None:
    if not path.startswith("/") or ".." in path.split("/"):
        raise InvalidArgument(f"{name} {path!r} is not an absolute path")


def _check_capability(capability: Capability, readonly: bool) -> None:
    if capability.mode.multi_node or capability.mode.name == "UNKNOWN":
        raise InvalidArgument(
            f"access mode {capability.mode.value} is not served: a disk is on one node at a time"
        )
    if not capability.block:
        check_flags(capability, readonly)
