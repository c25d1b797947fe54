"""Which block device is behind a btrfs mount.

The trap: btrfs can span disks, so its mounts have numbers of their own (major 0) that no disk has. A mount's
source leads to a device node; that the kernel's btrfs really holds that device, and not one that had the name
before, is proved by its own list in sysfs. That list, as mounts are, is the running kernel's: `--root` does
not move it.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from csi.node.devices import block_number
from csi.node.disk import DeviceNumber, parse_device_number

if TYPE_CHECKING:
    from csi.node.mountinfo import Mount

NAME: Final = "btrfs"
HELD: Final = Path("/sys/fs/btrfs")


def name_devices(mounts: tuple[Mount, ...]) -> tuple[Mount, ...]:
    """Give btrfs mounts the number of their device; one whose device has gone keeps its own."""
    if all(mount.fs_type != NAME for mount in mounts):
        return mounts
    held = _held_devices()
    return tuple(_name_device(mount, held) if mount.fs_type == NAME else mount for mount in mounts)


def _name_device(mount: Mount, held: set[DeviceNumber]) -> Mount:
    try:
        number = block_number(os.stat(mount.source))
    except OSError:
        return mount
    return replace(mount, number=number) if number in held else mount


def _held_devices() -> set[DeviceNumber]:
    """Return the devices of all btrfs that are mounted now."""
    found = set()
    for device in HELD.glob("*/devices/*/dev"):
        try:
            found.add(parse_device_number(device.read_text()))
        except OSError:
            continue
    return found
