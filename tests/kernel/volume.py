"""One volume on one node, driven as kubelet would, with a node half made anew for each call."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from csi.deadline import Deadline
from csi.model import (
    CONTEXT_IDENTITY,
    CONTEXT_KIND,
    CONTEXT_KIND_DISK,
    CONTEXT_SIZE,
    AccessMode,
    Capability,
    NodeId,
    NodePublishRequest,
    StageRequest,
    VolumeId,
    VolumeStats,
    disk_identity,
)
from csi.node.machine import Machine, linux_machine
from csi.node.service import Node
from tests.kernel.disks import MIB

if TYPE_CHECKING:
    from tests.kernel.disks import Drive, NodeRoot

VOLUME = VolumeId("pvc-1")
MOUNT = Capability(AccessMode.SINGLE_NODE_WRITER)
BLOCK = Capability(AccessMode.SINGLE_NODE_WRITER, block=True)
READER = Capability(AccessMode.SINGLE_NODE_READER_ONLY)


def context(**more: str) -> dict[str, str]:
    """Return a publish context of ours for VOLUME; `fresh_until=...` is written `fresh-until`."""
    ours = {
        CONTEXT_KIND: CONTEXT_KIND_DISK,
        CONTEXT_IDENTITY: disk_identity(VOLUME),
        CONTEXT_SIZE: str(16 * MIB),
    }
    return ours | {key.replace("_", "-"): value for key, value in more.items()}


@dataclass(slots=True)
class Kubelet:
    """Calls the node half for VOLUME. `machine` is replaced to look on or to interfere."""

    on: NodeRoot
    capability: Capability = MOUNT
    context: dict[str, str] = field(default_factory=context)
    machine: Machine | None = None

    @property
    def staging(self) -> str:
        """The staging path."""
        return self.on.path("staging")

    @property
    def target(self) -> str:
        """A pod's path."""
        return self.on.path("target")

    @property
    def second_target(self) -> str:
        """Another pod's path."""
        return self.on.path("second")

    def plug(self, name: str = "sda", image: Path | None = None, size: int = 16 * MIB) -> Drive:
        """Plug VOLUME's disk in."""
        return self.on.plug(name, disk_identity(VOLUME), size, image)

    def stage(self, seconds: float = 10, deadline: Deadline | None = None) -> None:
        """NodeStageVolume. Kubelet makes the directory."""
        Path(self.staging).mkdir(exist_ok=True)
        request = StageRequest(VOLUME, self.staging, self.capability, self.context)
        self._node().stage(request, deadline or Deadline(seconds))

    def publish(self, target: str | None = None, *, readonly: bool = False, seconds: float = 10) -> None:
        """NodePublishVolume."""
        path = target or self.target
        request = NodePublishRequest(VOLUME, self.staging, path, self.capability, readonly, self.context)
        self._node().publish(request, Deadline(seconds))

    def unpublish(self, target: str | None = None, seconds: float = 10) -> None:
        """NodeUnpublishVolume."""
        self._node().unpublish(VOLUME, target or self.target, Deadline(seconds))

    def unstage(self, seconds: float = 10) -> None:
        """NodeUnstageVolume."""
        self._node().unstage(VOLUME, self.staging, Deadline(seconds))

    def stats(self, path: str | None = None, volume: VolumeId = VOLUME) -> VolumeStats:
        """NodeGetVolumeStats."""
        return self._node().stats(volume, path or self.target, Deadline(10))

    def save(self, text: str, target: str | None = None) -> None:
        """Write a file as the pod would."""
        (Path(target or self.target) / "file").write_text(text)

    def saved(self, target: str | None = None) -> str:
        """Read it."""
        return (Path(target or self.target) / "file").read_text()

    def make_earlier(self, text: str = "kept") -> None:
        """Give the volume a file system with a file, then unpublish and unstage it."""
        self.stage()
        self.publish()
        self.save(text)
        self.unpublish()
        self.unstage()

    def _node(self) -> Node:
        return Node(NodeId("vm-a"), self.machine or linux_machine(self.on.root))


SMALLEST = {"ext3": 16 * MIB, "ext4": 16 * MIB, "xfs": 320 * MIB, "btrfs": 128 * MIB}
"""File systems and the size of a disk that is large enough for each."""


def file_system(fs_type: str) -> Capability:
    """Return a writer's capability."""
    return replace(MOUNT, fs_type=fs_type)


def is_device(path: str, drive: Drive) -> bool:
    """Tell whether the path is the node of the drive's device."""
    return os.stat(path).st_rdev == drive.loop.stat().st_rdev
