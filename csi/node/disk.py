"""What the kernel says of a whole disk. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SECTOR: Final = 512
"""Bytes; sysfs counts sizes in this unit whatever the disk's own sector is."""


@dataclass(frozen=True, slots=True, order=True)
class DeviceNumber:
    """A block device's number; unique while the device exists, given again afterwards."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}:{self.minor}"

    @property
    def anonymous(self) -> bool:
        """Whether no block device stands behind it (tmpfs, devtmpfs, NFS: major 0)."""
        return self.major == 0


def parse_device_number(text: str) -> DeviceNumber:
    """Read `8:16`, as sysfs and mountinfo write it; ValueError when it is something else."""
    major, _, minor = text.strip().partition(":")
    return DeviceNumber(int(major), int(minor))


@dataclass(frozen=True, slots=True)
class Disk:
    """One whole disk (never a partition) as one look at sysfs shows it."""

    name: str
    """The kernel's name, such as `sdb`: a place, not an identity; the next disk there has the same."""
    number: DeviceNumber
    size: int
    """Bytes; 0 while the kernel has not read the capacity yet."""
    readonly: bool = False
    device_ids: tuple[str, ...] = ()
    """The ASCII designators of its VPD page 0x83."""
    serial: str = ""
    holders: tuple[str, ...] = ()
    """Devices stacked on it: multipath, device-mapper, md."""
    partitions: tuple[DeviceNumber, ...] = ()

    def __str__(self) -> str:
        ids = ", ".join(self.device_ids) or (f"serial {self.serial}" if self.serial else "no id")
        return f"{self.name} ({ids}, {self.size} bytes)"
