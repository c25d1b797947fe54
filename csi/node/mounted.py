"""Find the volume by a path at which it is mounted, for the calls that get nothing but id and path.

The trap: "something is mounted there" is not "the volume is mounted there". What counts is the device; and
one that was unplugged behind us leaves a mount that can be told from others only by its missing device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from csi.errors import NotFound
from csi.model import disk_identity
from csi.node.devices import find_disk
from csi.node.machine import is_gone, raw_targets
from csi.node.mountinfo import mounts_at
from csi.node.mounts import resolve

if TYPE_CHECKING:
    from csi.model import VolumeId
    from csi.node.disk import Disk
    from csi.node.machine import Machine
    from csi.node.mountinfo import Mount


@dataclass(frozen=True, slots=True)
class MountedVolume:
    """A staging path or a target of a volume."""

    mount: Mount
    """The top one at the path."""
    table: tuple[Mount, ...]
    """All mounts, as of the same look."""
    disk: Disk | None
    """None when the device behind the mount is not there any more."""
    block: bool = False
    """The disk's node is bound there."""


def find_mounted(machine: Machine, volume: VolumeId, path: str) -> MountedVolume:
    """Look once; NotFound when the volume is not mounted at the path (CSI spec; a relative path is none)."""
    table = machine.mounts.table()
    here = mounts_at(table, resolve(path)) if path.startswith("/") else ()
    if not here:
        raise NotFound(f"volume {volume} is not mounted at {path}: nothing is mounted there")
    top = here[-1]
    disk = find_disk(machine.devices, disk_identity(volume))
    if disk is not None and (top.number, top.root) == (disk.number, "/"):
        return MountedVolume(top, table, disk)
    if top.deleted or is_gone(top, machine.devices.disks()):
        return MountedVolume(top, table, None, block=top.deleted)
    if disk is not None and raw_targets(machine, (top,), disk):
        return MountedVolume(top, table, disk, block=True)
    raise NotFound(
        f"volume {volume} is not mounted at {path}: what is mounted there is {top.source} ({top.number})"
    )
