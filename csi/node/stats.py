"""How full a mounted volume is, and whether something is wrong with it.

What is wrong is an answer, not an error: kubelet drops what an erring driver says, and the pod's owner would
never hear of it. The trap: a file system whose disk hangs makes its caller hang, so figures are read by a
program that can be killed; and one that survives even that is not joined by another at each poll.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from csi.errors import Unavailable
from csi.model import Usage, VolumeStats
from csi.node.commands import Hung, TookTooLong
from csi.node.machine import death_of
from csi.node.mounted import find_mounted

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterable

    from csi.deadline import Deadline
    from csi.model import VolumeId
    from csi.node.machine import Machine
    from csi.node.mounted import MountedVolume
    from csi.node.mountinfo import Mount


SILENT: Final = "its file system has not answered"


class Stats:
    """Figures of this node's volumes. Changes nothing, and needs no lock of the volume."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._hung: dict[VolumeId, threading.Event] = {}

    def of(self, volume: VolumeId, path: str, deadline: Deadline) -> VolumeStats:
        """Return the figures of the volume at its staging path or a target; NotFound when it is not there."""
        deadline.check("the figures of the volume")
        hung = self._hung.get(volume)
        if hung is not None and not hung.is_set():
            return VolumeStats(trouble=f"{SILENT} since an earlier call; its disk hangs")
        self._hung.pop(volume, None)
        try:
            return self._look(find_mounted(self._machine, volume, path), deadline)
        except Hung as error:
            self._hung[volume] = error.ended
            return VolumeStats(trouble=f"{SILENT}: {error.message}")
        except TookTooLong as error:
            return VolumeStats(trouble=f"{SILENT}: {error.message}")

    def _look(self, found: MountedVolume, deadline: Deadline) -> VolumeStats:
        mount, disk = found.mount, found.disk
        if disk is None:
            return VolumeStats(trouble=f"its device is gone: it was unplugged while mounted at {mount.path}")
        if found.block:
            return VolumeStats(bytes=Usage(disk.size))
        if death := death_of(self._machine, (mount,)):
            return VolumeStats(trouble=death.why)
        try:
            stats = self._machine.mounts.usage(mount.path, deadline)
        except Unavailable as error:
            return VolumeStats(trouble=error.message)
        return replace(stats, trouble=readonly_after_error(mount, found.table))


def readonly_after_error(mount: Mount, table: Iterable[Mount]) -> str:
    """Say that a file system has become read-only by itself; "" when it has not.

    One that was asked to be read-only is so in each of its mounts; one that changed is read-only beneath
    mounts that are still writable. Newer kernels call it by name.
    """
    changed = "ro" in mount.super_options and any(
        other.number == mount.number and not other.readonly for other in table
    )
    if not (changed or "emergency_ro" in mount.super_options):
        return ""
    return (
        f"its {mount.fs_type} has become read-only after an error; see the node's kernel log, and stop its "
        "pods, so that it is checked when they start again"
    )
