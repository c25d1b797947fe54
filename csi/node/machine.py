"""All by which this half touches the machine: four rooms, one value. A test wraps it to stop at any step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from csi.node.blankness import Contents
from csi.node.commands import Commands
from csi.node.devices import Devices
from csi.node.filesystems import FileSystems
from csi.node.mounts import Mounts
from csi.node.stage_plan import Death

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from csi.node.disk import Disk
    from csi.node.mountinfo import Mount


@dataclass(frozen=True, slots=True)
class Machine:
    """The kernel of this node."""

    devices: Devices
    contents: Contents
    filesystems: FileSystems
    mounts: Mounts


def linux_machine(root: Path) -> Machine:
    """Return this machine. `root` moves /dev and /sys only; mounts are the process's own."""
    commands = Commands()
    devices = Devices(root)
    return Machine(devices, Contents(devices, commands), FileSystems(commands), Mounts(commands))


def raw_targets(machine: Machine, table: Iterable[Mount], disk: Disk) -> tuple[str, ...]:
    """Return the paths to which the disk's node is bound.

    In mountinfo such a bind is a mount of devtmpfs; only the node behind it says which device it is.
    """
    candidates = [mount.path for mount in table if mount.root_name == disk.name]
    return tuple(path for path in candidates if machine.mounts.root_of(path).device == disk.number)


def death_of(machine: Machine, here: tuple[Mount, ...]) -> Death | None:
    """Say why the top mount at a path is dead; None when it is not, or nothing is mounted."""
    if not here:
        return None
    top = here[-1]
    if is_gone(top, machine.devices.disks()):
        return Death(f"its device {top.number} is gone", gone=True)
    if top.shut_down:
        return Death("its file system has shut down after errors")
    why = machine.mounts.root_of(top.path).dead
    return Death(why) if why else None


def is_gone(mount: Mount, disks: Iterable[Disk]) -> bool:
    """Tell whether the block device under a mount of a whole file system is not there any more."""
    if mount.number.anonymous:
        return mount.lost
    there = {number for disk in disks for number in (disk.number, *disk.partitions)}
    return mount.root == "/" and mount.number not in there
