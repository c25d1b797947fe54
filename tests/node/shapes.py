"""Short ways to write disks and mounts in tables."""

from __future__ import annotations

from csi.node.disk import DeviceNumber, Disk
from csi.node.mountinfo import Mount

DISK = Disk("sdb", DeviceNumber(8, 16), 100, device_ids=("drive-ua-pvc-1",))
OTHER = DeviceNumber(8, 32)
TMPFS = DeviceNumber(0, 40)


def mount(
    path: str,
    number: DeviceNumber = DISK.number,
    *,
    options: str = "rw",
    fs_type: str = "ext4",
    root: str = "/",
) -> Mount:
    """Return a mount of the whole file system, by default of DISK."""
    return Mount(1, 0, number, root, path, frozenset(options.split(",")), fs_type, "/dev/x")
