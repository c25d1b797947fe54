"""What must never be formatted, and what must never be taken for the volume's disk.

Each test compares the disk byte for byte, before and after.
"""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from csi.errors import CsiError, InUse, Unavailable
from csi.model import disk_identity
from csi.node.blankness import Contents, Reader
from csi.node.commands import Commands
from csi.node.devices import Devices
from csi.node.machine import linux_machine
from tests.kernel.disks import MIB, run
from tests.kernel.signatures import DISK_SIZE, SIGNATURES, noise
from tests.kernel.steps import stepped_machine
from tests.kernel.volume import MOUNT, READER, VOLUME, Kubelet, context

if TYPE_CHECKING:
    from tests.kernel.disks import Drive, NodeRoot

pytestmark = pytest.mark.kernel

FRESH = context(fresh_until=(datetime.now(UTC) + timedelta(hours=1)).isoformat())
STALE = context(fresh_until=(datetime.now(UTC) - timedelta(seconds=1)).isoformat())
UPSTREAM: dict[str, str] = {}


@pytest.fixture
def kubelet(node_root: NodeRoot) -> Kubelet:
    """Return a kubelet whose node sees no disk yet."""
    return Kubelet(node_root)


def refuses_untouched(kubelet: Kubelet, drive: Drive, error: type[CsiError], words: str) -> None:
    """Stage twice; both must fail in the same words, mount nothing and change no byte."""
    before = drive.content()
    for _ in range(2):
        with pytest.raises(error, match=words):
            kubelet.stage(seconds=0.3)
    assert drive.content() == before
    assert kubelet.on.mounted() == []


@pytest.mark.parametrize("name", SIGNATURES)
@pytest.mark.parametrize("told", [context(), FRESH, UPSTREAM], ids=["ours", "fresh", "upstream"])
def test_a_foreign_signature_is_left_alone(kubelet: Kubelet, name: str, told: dict[str, str]) -> None:
    """Partition tables, LVM, RAID, LUKS, swap and other file systems are refused by name, fresh or not."""
    kubelet.context = told
    drive = kubelet.plug()
    drive.write(SIGNATURES[name])
    refuses_untouched(kubelet, drive, InUse, name)


@pytest.mark.parametrize("told", [context(), STALE, UPSTREAM], ids=["ours", "no-longer-fresh", "upstream"])
def test_bytes_without_a_signature_are_left_alone(kubelet: Kubelet, told: dict[str, str]) -> None:
    """Random data is not blank, though blkid finds nothing on it."""
    kubelet.context = told
    drive = kubelet.plug()
    drive.write(noise(1))
    refuses_untouched(kubelet, drive, InUse, "without a known signature")


@pytest.mark.parametrize("offset", [0, MIB - 1, DISK_SIZE - MIB, DISK_SIZE - 1])
def test_one_byte_is_enough(kubelet: Kubelet, offset: int) -> None:
    """A single byte within the first or last MiB means that the disk is not blank."""
    drive = kubelet.plug()
    drive.write(b"\1", offset)
    refuses_untouched(kubelet, drive, InUse, "without a known signature")


def test_old_bytes_on_a_fresh_volume(kubelet: Kubelet) -> None:
    """While a volume is fresh, old bytes of a thick pool are formatted over."""
    kubelet.context = FRESH
    kubelet.plug().write(noise(2))
    kubelet.make_earlier("new")


def test_a_fresh_volume_keeps_its_file_system(kubelet: Kubelet) -> None:
    """Fresh is no reason to format what has a file system already."""
    kubelet.plug()
    kubelet.make_earlier("kept")
    kubelet.context = FRESH
    kubelet.stage()
    assert kubelet.saved(kubelet.staging) == "kept"


def test_an_old_ext4_is_mounted(kubelet: Kubelet) -> None:
    """An ext4 on the volume's disk is the volume's data, whoever attached it."""
    kubelet.plug()
    kubelet.make_earlier("kept")
    kubelet.context = UPSTREAM
    kubelet.stage()
    assert kubelet.saved(kubelet.staging) == "kept"


def test_a_blank_disk_of_upstream(kubelet: Kubelet) -> None:
    """What upstream attached says nothing about its past: it is never formatted."""
    kubelet.context = UPSTREAM
    refuses_untouched(kubelet, kubelet.plug(), InUse, "attach it again")


def test_a_blank_disk_read_only(kubelet: Kubelet) -> None:
    """A read-only volume is never formatted."""
    kubelet.capability = READER
    refuses_untouched(kubelet, kubelet.plug(), InUse, "read-only")


def failing(first: int, last: int) -> Reader:
    """Return a reader whose disk has a bad sector somewhere in [first, last)."""

    def read(fd: int, length: int, offset: int) -> bytes:
        if offset < last and first < offset + length:
            raise OSError(errno.EIO, "Input/output error")
        return os.pread(fd, length, offset)

    return read


@pytest.mark.parametrize("sector", [0, MIB - 512, DISK_SIZE - MIB, DISK_SIZE - 512])
@pytest.mark.parametrize("told", [context(), FRESH], ids=["ours", "fresh"])
def test_an_unreadable_end_is_no_proof(kubelet: Kubelet, told: dict[str, str], sector: int) -> None:
    """A disk of which one end cannot be read is never formatted, fresh or not; the call may come again."""
    kubelet.context = told
    drive = kubelet.plug()
    machine = linux_machine(kubelet.on.root)
    contents = Contents(Devices(kubelet.on.root), Commands(), failing(sector, sector + 512))
    kubelet.machine = replace(machine, contents=contents)
    refuses_untouched(kubelet, drive, Unavailable, "cannot be read")
    kubelet.machine = None
    kubelet.stage()


def test_a_disk_that_ends_early(kubelet: Kubelet) -> None:
    """A disk whose end is not there is never formatted."""
    drive = kubelet.plug()
    os.truncate(drive.image, DISK_SIZE - MIB)
    refuses_untouched(kubelet, drive, Unavailable, "cannot be read")


def test_a_disk_that_somebody_holds(kubelet: Kubelet) -> None:
    """While another program holds the disk exclusively (a format of an earlier process), nothing is done."""
    drive = kubelet.plug()
    held = os.open(drive.loop, os.O_RDONLY | os.O_EXCL)
    try:
        refuses_untouched(kubelet, drive, Unavailable, "held by another program")
    finally:
        os.close(held)
    kubelet.stage()


def test_a_disk_smaller_than_attached(kubelet: Kubelet) -> None:
    """A disk smaller than the controller attached is not this volume's, or not ready."""
    kubelet.context = context(size=str(DISK_SIZE + 1))
    refuses_untouched(kubelet, kubelet.plug(), Unavailable, "smaller than")


def test_two_disks_with_one_identity(kubelet: Kubelet) -> None:
    """Of two disks with the identity neither is touched, though one of them has the file system."""
    kubelet.plug("sda")
    kubelet.make_earlier()
    second = kubelet.plug("sdb")
    refuses_untouched(kubelet, second, InUse, "sda, sdb all have the device id")


@pytest.mark.parametrize("name", ["pvc-12", "pvc-", "xpvc-1", "PVC-1"])
def test_a_similar_identity_is_another_disk(kubelet: Kubelet, name: str) -> None:
    """Identities are equal or different, never similar."""
    drive = kubelet.on.plug("sda", f"drive-ua-{name}")
    refuses_untouched(
        kubelet, drive, Unavailable, f"no disk on this node has the device id drive-ua-{VOLUME}"
    )


def test_a_node_that_leads_elsewhere(kubelet: Kubelet) -> None:
    """A device node with another number than sysfs says is not opened."""
    drive = kubelet.plug("sda")
    other = kubelet.on.plug("sdb", "drive-ua-other")
    node = kubelet.on.root / "dev" / "sda"
    node.unlink()
    os.link(kubelet.on.root / "dev" / "sdb", node)
    refuses_untouched(kubelet, other, Unavailable, "is not the device")
    refuses_untouched(kubelet, drive, Unavailable, "is not the device")


def test_a_disk_whose_size_is_not_known_yet(kubelet: Kubelet) -> None:
    """While sysfs and the device differ about the size, nobody knows where the disk's end is."""
    kubelet.context = context(size="0")
    drive = kubelet.plug()
    (kubelet.on.root / "sys" / "block" / "sda" / "size").write_text("4096\n")
    refuses_untouched(kubelet, drive, Unavailable, "changes its size")


def test_a_write_between_look_and_format(kubelet: Kubelet) -> None:
    """What was blank at the look and is not any more is not formatted."""
    drive = kubelet.plug()

    def intrude(step: str) -> None:
        if step == "mark":
            drive.write(b"\1")

    kubelet.machine = stepped_machine(kubelet.on.root, before=intrude)
    with pytest.raises(Unavailable, match="written to meanwhile"):
        kubelet.stage()
    assert drive.content() == b"\1".ljust(DISK_SIZE, b"\0")


def test_a_blank_write_protected_disk(kubelet: Kubelet) -> None:
    """A disk that the host attached read-only is never formatted."""
    drive = kubelet.plug()
    (kubelet.on.root / "sys" / "block" / "sda" / "ro").write_text("1\n")
    refuses_untouched(kubelet, drive, InUse, "never formatted")


def test_a_write_protected_disk_is_not_mounted_read_only_in_silence(kubelet: Kubelet) -> None:
    """Who asks for a writable volume gets one, or an error; a reader gets what is there."""
    kubelet.plug()
    kubelet.make_earlier("kept")
    image = kubelet.on.unplug("sda").image
    drive = kubelet.on.plug("sda", disk_identity(VOLUME), image=image, protected=True)
    refuses_untouched(kubelet, drive, Unavailable, "write-protected")
    kubelet.capability = READER
    kubelet.stage()
    assert kubelet.saved(kubelet.staging) == "kept"


def test_a_disk_below_multipath(kubelet: Kubelet) -> None:
    """A disk with a device stacked on it is one path of several and is not formatted."""
    drive = kubelet.plug()
    (kubelet.on.root / "sys" / "block" / "sda" / "holders" / "dm-3").mkdir()
    refuses_untouched(kubelet, drive, InUse, "dm-3")


def test_damage_that_fsck_cannot_repair(kubelet: Kubelet) -> None:
    """A file system that needs a person is neither mounted nor made anew."""
    drive = kubelet.plug()
    kubelet.make_earlier()
    for damage in ("clri <2>", "ssv state 2"):
        run("debugfs", "-w", "-R", damage, str(drive.loop))
    for _ in range(2):
        with pytest.raises(InUse, match="cannot correct by itself"):
            kubelet.stage()
    assert kubelet.on.mounted() == []


def test_another_file_system_is_not_served(kubelet: Kubelet) -> None:
    """A file system that we do not make is refused before the disk is looked at, with what there is."""
    kubelet.capability = replace(MOUNT, fs_type="ntfs")
    refuses_untouched(kubelet, kubelet.plug(), CsiError, "this driver makes ext4")


def test_the_identity_is_what_the_controller_said(kubelet: Kubelet) -> None:
    """The disk is looked for by the context's identity, not by the volume's name."""
    kubelet.context = context(identity="drive-ua-renamed")
    decoy = kubelet.plug("sda")
    kubelet.on.plug("sdb", "drive-ua-renamed")
    before = decoy.content()
    kubelet.stage()
    assert decoy.content() == before
    assert disk_identity(VOLUME) != "drive-ua-renamed"
