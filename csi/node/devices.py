"""The disks of this node: sysfs and device nodes under the root, read anew at each look.

The trap: a device node is only a number under a name. Between finding a disk and using it the disk may be
unplugged, and another one may get its name and number. So each use holds the disk open and compares number
and identity after opening: the kernel gives both away only after the last user has closed the disk.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from csi.errors import InUse, TimedOut, Unavailable
from csi.node.device_plan import Ambiguous, Found, Missing, TooSmall, plan_device
from csi.node.disk import SECTOR, DeviceNumber, Disk, parse_device_number
from csi.node.identity import designators, unit_serial

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from csi.deadline import Deadline

FIRST_POLL: Final = 0.05
LAST_POLL: Final = 0.5
"""Seconds between two looks for a disk that has not come yet; doubled from the first to the last."""


class Devices:
    """Whole disks below `<root>/sys` and their nodes below `<root>/dev`."""

    def __init__(self, root: Path) -> None:
        self._sys = root / "sys" / "block"
        self._dev = root / "dev"

    def disks(self) -> tuple[Disk, ...]:
        """Return all whole disks there are now; one that goes away meanwhile is left out."""
        try:
            names = sorted(os.listdir(self._sys))
        except OSError as error:
            raise Unavailable(f"the disks of this node cannot be listed: {error}") from error
        return tuple(disk for disk in map(self._read, names) if disk is not None)

    def path(self, disk: Disk) -> str:
        """Return the path of the disk's node."""
        return str(self._dev / disk.name)

    def trouble(self, disk: Disk) -> str:
        """Say why the node does not lead to this very disk now; "" when it does."""
        try:
            number = block_number(os.stat(self.path(disk)))
        except OSError as error:
            return f"its node cannot be looked at: {error}"
        return self._changed(disk, number)

    @contextmanager
    def opened(self, disk: Disk, flags: int = os.O_RDONLY) -> Iterator[int]:
        """Hold this very disk open; nothing else can get its path meanwhile. Yields the descriptor.

        With O_EXCL it is held against mounts, formats and stacked devices, in whatever mount namespace;
        without, it is not in their way. Raises Unavailable when the disk is gone, replaced or held.
        """
        try:
            fd = os.open(self.path(disk), flags | os.O_CLOEXEC)
        except OSError as error:
            raise Unavailable(_closed(disk, error)) from error
        try:
            if why := self._changed(disk, block_number(os.fstat(fd))):
                raise Unavailable(f"disk {disk} is not used: {why}")
            yield fd
        finally:
            os.close(fd)

    def _changed(self, disk: Disk, number: DeviceNumber | None) -> str:
        """Say why what is there now, with `number` behind its node, is not this very disk; "" when it is."""
        now = self._read(disk.name)
        if now is None or (now.number, now.device_ids) != (disk.number, disk.device_ids):
            return f"{disk.name} has been unplugged or replaced"
        return "" if number == disk.number else f"{self.path(disk)} is not the device {disk.number}"

    def _read(self, name: str) -> Disk | None:
        here = self._sys / name
        try:
            return Disk(
                name=name,
                number=parse_device_number((here / "dev").read_text()),
                size=int((here / "size").read_text()) * SECTOR,
                readonly=_read(here / "ro").strip() == b"1",
                device_ids=designators(_read(here / "device" / "vpd_pg83")),
                serial=unit_serial(_read(here / "device" / "vpd_pg80")) or _plain(_read(here / "serial")),
                holders=_names(here / "holders"),
                partitions=tuple(_partitions(here)),
            )
        except (OSError, ValueError):
            return None


def _closed(disk: Disk, error: OSError) -> str:
    if error.errno == errno.EBUSY:
        return (
            f"disk {disk} is held by another program: a format or check that still runs, "
            "or a mount in another mount namespace"
        )
    return f"disk {disk} cannot be opened: {error}"


def block_number(status: os.stat_result) -> DeviceNumber | None:
    """Return the number behind a block device node, None when the file is none."""
    if not stat.S_ISBLK(status.st_mode):
        return None
    return DeviceNumber(os.major(status.st_rdev), os.minor(status.st_rdev))


def find_disk(devices: Devices, identity: str) -> Disk | None:
    """Look once for the disk with the identity; None when there is none, or more than one."""
    plan = plan_device(devices.disks(), identity)
    return plan.disk if isinstance(plan, Found | TooSmall) else None


def wait_for_disk(devices: Devices, identity: str, size: int, deadline: Deadline) -> Disk:
    """Wait until the one disk with the identity is there, large enough, and its node leads to it.

    Raises InUse when several disks have the identity, Unavailable with what disks there are when the call's
    time is over, and what `deadline` says when the call is interrupted.
    """
    woken = threading.Event()
    stop_listening = deadline.listen(woken.set)
    pause = FIRST_POLL
    try:
        while True:
            disk, why = _look(devices, identity, size)
            if disk is not None:
                return disk
            if deadline.remaining() <= 0:
                _give_up(deadline, why)
            woken.wait(min(pause, deadline.remaining()))
            pause = min(2 * pause, LAST_POLL)
    finally:
        stop_listening()


def _look(devices: Devices, identity: str, size: int) -> tuple[Disk | None, str]:
    """Return the disk when it is ready for use, else the words for what is there instead."""
    disks = devices.disks()
    match plan_device(disks, identity, size):
        case Found(disk):
            why = devices.trouble(disk)
            return (None if why else disk), f"disk {disk} is not ready: {why}"
        case TooSmall(disk):
            return None, f"disk {disk} is smaller than the {size} bytes that were attached"
        case Missing():
            there = "; ".join(map(str, disks)) or "none"
            return None, f"no disk on this node has the device id {identity}; there are: {there}"
        case Ambiguous(several):
            named = ", ".join(disk.name for disk in several)
            raise InUse(f"{named} all have the device id {identity}: none of them is touched")


def _give_up(deadline: Deadline, why: str) -> None:
    try:
        deadline.check("the disk")
    except TimedOut as late:
        raise Unavailable(why) from late


def _partitions(disk: Path) -> list[DeviceNumber]:
    return [
        parse_device_number((part.parent / "dev").read_text())
        for part in disk.glob(f"{disk.name}*/partition")
    ]


def _read(path: Path) -> bytes:
    with contextlib.suppress(OSError):
        return path.read_bytes()
    return b""


def _plain(text: bytes) -> str:
    return text.decode("ascii", "replace").strip()


def _names(directory: Path) -> tuple[str, ...]:
    with contextlib.suppress(OSError):
        return tuple(sorted(os.listdir(directory)))
    return ()
