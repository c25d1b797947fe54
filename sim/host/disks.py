"""Volumes as image files, and the disks that a machine's kernel shows of them.

A machine's view is a directory: `dev/sdX` and the part of `sys/` that tells disks apart. As root the disk
is a loop device over the volume's image; without root it is a link to the image, with the same sysfs
entries.

The trap: a loop device that is still mounted cannot be taken away. It is detached lazily: the machine's view
loses the disk at once, the kernel lets go of the image when its last user closes it.
"""

from __future__ import annotations

import os
import shutil
import stat
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from sim.host import loops, vpd

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

log = structlog.get_logger()

SECTOR: Final = 512
"""Bytes in a unit of sysfs's `size`, whatever the disk's own sector size is."""
MIB: Final = 1 << 20
BOOT_DISK: Final = "vda"
BOOT_DEVICE: Final = (252, 0)
SCSI_MAJOR: Final = 8
SCSI_MINORS: Final = 16


class Images:
    """The volumes' data, one sparse file each."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def path(self, volume: str) -> Path:
        """Return the file of a volume, which need not exist."""
        return self._directory / f"{volume}.img"

    def create(self, volume: str, size: int, *, dirty: bool) -> None:
        """Make the volume's image of `size` bytes unless it is there.

        `dirty` fills both ends with random bytes: thick LVM hands out what its blocks held before.
        """
        path = self.path(volume)
        if path.exists():
            return
        new = path.with_suffix(".new")
        with new.open("wb") as image:
            image.truncate(size)
            if dirty:
                length = min(MIB, size)
                image.write(os.urandom(length))
                image.seek(size - length)
                image.write(os.urandom(length))
        new.rename(path)

    def remove(self, volume: str) -> None:
        """Delete the volume's image; a missing one is done."""
        self.path(volume).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Disk:
    """What is plugged into a machine: `name` is the disk's name in its spec."""

    name: str
    image: Path
    serial: str = ""
    readonly: bool = False


@dataclass(frozen=True, slots=True)
class Device:
    """What stands behind a machine's `dev/sdX`. `loop` is "" without root."""

    number: tuple[int, int]
    loop: str = ""


class Backend(Protocol):
    """How an image becomes a device."""

    def open(self, disk: Disk, letter: str) -> Device:
        """Make a device over the disk's image."""
        ...

    def node(self, path: Path, disk: Disk, device: Device) -> None:
        """Make the device appear at `path`."""
        ...

    def close(self, device: Device) -> None:
        """Let go of the device, now or as soon as nobody has it open."""
        ...


class LoopDevices:
    """Real block devices; needs root."""

    def open(self, disk: Disk, letter: str) -> Device:
        """Attach a loop device."""
        loop = loops.attach(disk.image, readonly=disk.readonly)
        number = os.stat(loop).st_rdev
        return Device((os.major(number), os.minor(number)), loop)

    def node(self, path: Path, disk: Disk, device: Device) -> None:
        """Make a device node of the loop device's number."""
        os.mknod(path, stat.S_IFBLK | 0o660, os.makedev(*device.number))

    def close(self, device: Device) -> None:
        """Detach the loop device."""
        loops.detach(device.loop)


class PlainFiles:
    """Links to the images, for those who are not root."""

    def open(self, disk: Disk, letter: str) -> Device:
        """Pretend the number that the kernel gives a scsi disk of this letter."""
        return Device((SCSI_MAJOR, SCSI_MINORS * _index(letter)))

    def node(self, path: Path, disk: Disk, device: Device) -> None:
        """Link to the image."""
        path.symlink_to(disk.image)

    def close(self, device: Device) -> None:
        """Do nothing: nothing was opened."""


class GuestDisks:
    """The disks in all machines of a host. `root` holds one directory for each machine.

    Safe to use from several threads.
    """

    def __init__(self, root: Path, backend: Backend) -> None:
        self._root = root
        self._backend = backend
        self._lock = threading.Lock()
        self._plugged: dict[str, dict[str, tuple[str, Device]]] = {}

    def root(self, machine: str) -> Path:
        """Return the directory that holds the machine's `dev` and `sys`."""
        return self._root / machine

    def boot(self, machine: str, size: int) -> None:
        """Show the machine's boot disk of `size` bytes, in sysfs only."""
        with self._lock:
            self._plugged.setdefault(machine, {})
            for part in ("dev", "sys/block", "sys/dev/block"):
                (self.root(machine) / part).mkdir(parents=True, exist_ok=True)
            if not (self.root(machine) / "sys/block" / BOOT_DISK).exists():
                self._show(machine, BOOT_DISK, _sysfs(BOOT_DEVICE, size, readonly=False), BOOT_DEVICE)

    def plug(self, machine: str, disk: Disk) -> str:
        """Plug the disk into a booted machine; return its letter. Twice is done once."""
        with self._lock:
            plugged = self._plugged[machine]
            if disk.name in plugged:
                return plugged[disk.name][0]
            letter = _free_letter({letter for letter, _ in plugged.values()})
            device = self._backend.open(disk, letter)
            plugged[disk.name] = (letter, device)
            try:
                self._backend.node(self.root(machine) / "dev" / letter, disk, device)
                files = _sysfs(device.number, disk.image.stat().st_size, readonly=disk.readonly)
                self._show(machine, letter, {**files, **_identity(disk)}, device.number)
            except OSError:
                self._unplug(machine, disk.name)
                raise
            return letter

    def unplug(self, machine: str, name: str) -> None:
        """Take the disk out, whether or not it is in use in the machine; a missing one is done."""
        with self._lock:
            self._unplug(machine, name)

    def targets(self, machine: str) -> Mapping[str, str]:
        """Return the letters of the machine's plugged disks by name."""
        with self._lock:
            return {name: letter for name, (letter, _) in self._plugged.get(machine, {}).items()}

    def power_off(self, machine: str) -> None:
        """Take all disks out of the machine."""
        with self._lock:
            for name in list(self._plugged.get(machine, {})):
                self._unplug(machine, name)
            self._hide(machine, BOOT_DISK, BOOT_DEVICE)
            self._plugged.pop(machine, None)

    def close(self) -> None:
        """Take all disks out of all machines."""
        for machine in list(self._plugged):
            self.power_off(machine)

    def _unplug(self, machine: str, name: str) -> None:
        found = self._plugged.get(machine, {}).pop(name, None)
        if found is not None:
            letter, device = found
            self._hide(machine, letter, device.number)
            self._backend.close(device)

    def _show(self, machine: str, letter: str, files: Mapping[str, bytes], number: tuple[int, int]) -> None:
        """Let the sysfs entry appear whole: nobody may find a disk whose identity is not there yet."""
        root = self.root(machine)
        new = root / "sys" / f".{letter}"
        for name, content in files.items():
            (new / name).parent.mkdir(parents=True, exist_ok=True)
            (new / name).write_bytes(content)
        new.rename(root / "sys/block" / letter)
        link = root / "sys/dev/block" / _number(number)
        link.unlink(missing_ok=True)
        link.symlink_to(f"../../block/{letter}")

    def _hide(self, machine: str, letter: str, number: tuple[int, int]) -> None:
        root = self.root(machine)
        (root / "sys/dev/block" / _number(number)).unlink(missing_ok=True)
        entry, old = root / "sys/block" / letter, root / "sys" / f".{letter}"
        if entry.exists():
            entry.rename(old)
            shutil.rmtree(old)
        (root / "dev" / letter).unlink(missing_ok=True)


def _sysfs(number: tuple[int, int], size: int, *, readonly: bool) -> dict[str, bytes]:
    return {
        "dev": f"{_number(number)}\n".encode(),
        "size": f"{size // SECTOR}\n".encode(),
        "ro": b"1\n" if readonly else b"0\n",
        "removable": b"0\n",
    }


def _identity(disk: Disk) -> dict[str, bytes]:
    """Return what a virtio-scsi disk of QEMU says of itself; without a serial there is no page 0x80."""
    files = {
        "device/vpd_pg83": vpd.device_identification(disk.serial or vpd.alias(disk.name)),
        "device/type": b"0\n",
        "device/vendor": b"QEMU    \n",
        "device/model": b"QEMU HARDDISK   \n",
    }
    return {**files, "device/vpd_pg80": vpd.unit_serial(disk.serial)} if disk.serial else files


def _number(number: tuple[int, int]) -> str:
    return f"{number[0]}:{number[1]}"


def _letter(index: int) -> str:
    """Return the name of the scsi disk of this index: sda, ... sdz, sdaa ..."""
    letters = ""
    while index >= 0:
        letters = chr(ord("a") + index % 26) + letters
        index = index // 26 - 1
    return f"sd{letters}"


def _index(letter: str) -> int:
    index = 0
    for character in letter.removeprefix("sd"):
        index = index * 26 + ord(character) - ord("a") + 1
    return index - 1


def _free_letter(taken: set[str]) -> str:
    return next(letter for index in range(len(taken) + 1) if (letter := _letter(index)) not in taken)
