"""The disks that a machine's kernel shows, as links (anybody) and as loop devices (root)."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from sim.host import loops
from sim.host.disks import Disk, GuestDisks, Images, LoopDevices, PlainFiles

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SIZE = 16 << 20
VM = "guest-a-node-1"


@pytest.fixture(
    params=[
        pytest.param(PlainFiles, id="files"),
        pytest.param(
            LoopDevices,
            id="loops",
            marks=[pytest.mark.kernel, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")],
        ),
    ]
)
def disks(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[GuestDisks]:
    """Return the disks of a host with one booted machine; afterwards no loop device may be left."""
    disks = GuestDisks(tmp_path / "nodes", request.param())
    disks.boot(VM, 40 << 30)
    yield disks
    disks.close()
    if os.geteuid() == 0:
        assert loops.drained(tmp_path)


@pytest.fixture
def images(tmp_path: Path) -> Images:
    """Return an empty store of images."""
    return Images(tmp_path / "volumes")


def disk(images: Images, name: str = "pvc-1", *, serial: str = "", readonly: bool = False) -> Disk:
    """Return a disk over a fresh image of the same name."""
    images.create(name, SIZE, dirty=False)
    return Disk(name, images.path(name), serial, readonly)


def test_a_disk_shows_its_identity_and_size(disks: GuestDisks, images: Images) -> None:
    """The disk without serial is known by its alias in page 0x83 and has no page 0x80."""
    letter = disks.plug(VM, disk(images))
    entry = disks.root(VM) / "sys/block" / letter
    assert letter == "sda"
    page = b"\x00\x83\x00\x12" + b"\x02\x00\x00\x0e" + b"drive-ua-pvc-1"
    assert (entry / "device/vpd_pg83").read_bytes() == page
    assert not (entry / "device/vpd_pg80").exists()
    assert int((entry / "size").read_text()) * 512 == SIZE
    assert (entry / "ro").read_text() == "0\n"


def test_a_disk_with_a_serial_shows_it(disks: GuestDisks, images: Images) -> None:
    """A serial stands in both pages."""
    letter = disks.plug(VM, disk(images, serial="s-1", readonly=True))
    device = disks.root(VM) / "sys/block" / letter / "device"
    assert (device / "vpd_pg80").read_bytes() == b"\x00\x80\x00\x03s-1"
    assert (device / "vpd_pg83").read_bytes().endswith(b"s-1")
    assert (device.parent / "ro").read_text() == "1\n"


def test_the_device_holds_the_image(disks: GuestDisks, images: Images) -> None:
    """What is written to the device of one machine is in the volume, wherever it is plugged next."""
    one = disk(images)
    node = disks.root(VM) / "dev" / disks.plug(VM, one)
    with node.open("r+b") as device:
        device.write(b"data")
        device.flush()
        os.fsync(device.fileno())
    disks.unplug(VM, one.name)
    assert images.path("pvc-1").read_bytes()[:4] == b"data"


def test_sysfs_and_device_node_agree(disks: GuestDisks, images: Images) -> None:
    """The number in sysfs leads to the entry, and is the device node's own where that is a block device."""
    root = disks.root(VM)
    letter = disks.plug(VM, disk(images))
    number = (root / "sys/block" / letter / "dev").read_text().strip()
    assert (root / "sys/dev/block" / number).resolve() == (root / "sys/block" / letter).resolve()
    status = (root / "dev" / letter).stat()
    if stat.S_ISBLK(status.st_mode):
        assert number == f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"


def test_letters_are_the_lowest_free(disks: GuestDisks, images: Images) -> None:
    """A letter that became free is given to the next disk."""
    first = [disks.plug(VM, disk(images, f"pvc-{number}")) for number in range(3)]
    disks.unplug(VM, "pvc-1")
    assert first == ["sda", "sdb", "sdc"]
    assert disks.plug(VM, disk(images, "pvc-9")) == "sdb"
    assert disks.plug(VM, disk(images, "pvc-9")) == "sdb"


def test_an_unplugged_disk_leaves_nothing(disks: GuestDisks, images: Images) -> None:
    """After unplug only the boot disk is there, with its size and without an identity."""
    disks.plug(VM, disk(images))
    disks.unplug(VM, "pvc-1")
    disks.unplug(VM, "pvc-1")
    root = disks.root(VM)
    assert [entry.name for entry in (root / "sys/block").iterdir()] == ["vda"]
    assert [entry.name for entry in (root / "sys/dev/block").iterdir()] == ["252:0"]
    assert list((root / "dev").iterdir()) == []
    assert not (root / "sys/block/vda/device").exists()


def test_a_machine_without_power_shows_no_disk(disks: GuestDisks, images: Images) -> None:
    """Power off takes every disk."""
    disks.plug(VM, disk(images))
    disks.power_off(VM)
    assert list((disks.root(VM) / "sys/block").iterdir()) == []
    assert disks.targets(VM) == {}


def test_thick_volumes_hold_old_bytes(images: Images) -> None:
    """A dirty image is not zero at its ends, and as large as asked; a clean one is all zero."""
    images.create("thick", SIZE, dirty=True)
    images.create("thin", SIZE, dirty=False)
    thick, thin = images.path("thick").read_bytes(), images.path("thin").read_bytes()
    assert len(thick) == len(thin) == SIZE
    assert any(thick[:4096])
    assert any(thick[-4096:])
    assert not any(thin)


@pytest.mark.kernel
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_what_a_crash_left_is_released(images: Images, tmp_path: Path) -> None:
    """Loop devices over images below a directory are found and detached."""
    images.create("pvc-1", SIZE, dirty=False)
    loops.attach(images.path("pvc-1"))
    loops.release(tmp_path)
    assert loops.drained(tmp_path)
