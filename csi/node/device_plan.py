"""Which disk a volume is. Pure.

The trap: /dev/disk/by-id lags behind a quick unplug and plug, and `sdb` is whatever is there now. Only sysfs,
read now and compared for equality, says which disk it is; none and two are answers of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

    from csi.node.disk import Disk


@dataclass(frozen=True, slots=True)
class Found:
    """The one disk with the identity."""

    disk: Disk


@dataclass(frozen=True, slots=True)
class Missing:
    """No disk has the identity; it may still come."""


@dataclass(frozen=True, slots=True)
class TooSmall:
    """The disk is there, but smaller than promised: the kernel may not have read its size yet."""

    disk: Disk


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """Two disks or more have the identity: whichever is taken may be the wrong one."""

    disks: tuple[Disk, ...]


DevicePlan: TypeAlias = Found | Missing | TooSmall | Ambiguous


def plan_device(disks: Iterable[Disk], identity: str, size: int = 0) -> DevicePlan:
    """Choose the disk whose VPD page 0x83 holds exactly `identity` and that has at least `size` bytes.

    An empty identity matches nothing: many disks have an empty one.
    """
    matching = tuple(disk for disk in disks if identity and identity in disk.device_ids)
    match matching:
        case ():
            return Missing()
        case (disk,):
            return Found(disk) if disk.size >= max(size, 1) else TooSmall(disk)
        case _:
            return Ambiguous(matching)
