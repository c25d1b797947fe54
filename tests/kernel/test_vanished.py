"""Disks that go away while they are in use, and mounts that are dead."""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from csi.errors import Unavailable
from tests.kernel.volume import BLOCK, Kubelet, is_device

if TYPE_CHECKING:
    from tests.kernel.disks import NodeRoot

pytestmark = pytest.mark.kernel

SHUT_DOWN = 0x8004587D
"""EXT4_IOC_SHUTDOWN: what the kernel does to a file system whose disk fails."""
NO_LOG_FLUSH = 2


@pytest.fixture
def kubelet(node_root: NodeRoot) -> Kubelet:
    """Return a kubelet with a staged and published volume."""
    kubelet = Kubelet(node_root)
    kubelet.plug()
    kubelet.make_earlier("kept")
    kubelet.stage()
    kubelet.publish()
    return kubelet


def test_unstage_after_the_disk_went(kubelet: Kubelet) -> None:
    """A volume whose disk was unplugged is unpublished and unstaged without it, though a file is open."""
    with (Path(kubelet.target) / "open").open("w"):
        kubelet.on.unplug("sda")
        kubelet.unpublish()
        kubelet.unstage()
    assert kubelet.on.mounted() == []
    assert not os.path.exists(kubelet.target)


def test_a_disk_plugged_anew(kubelet: Kubelet) -> None:
    """After an unplug and a plug under another number the dead mounts go and the live disk is mounted."""
    drive = kubelet.on.unplug("sda")
    copy = drive.image.with_name("copy.img")
    copy.write_bytes(drive.content())
    kubelet.plug("sdb", copy)
    kubelet.publish()
    assert kubelet.on.mounted() == [kubelet.staging, kubelet.target]
    assert os.stat(kubelet.target).st_dev == kubelet.on.drives["sdb"].loop.stat().st_rdev
    assert kubelet.saved() == "kept"


def test_stage_without_the_disk_waits(kubelet: Kubelet) -> None:
    """A mount whose disk is gone is no staged volume."""
    kubelet.on.unplug("sda")
    with pytest.raises(Unavailable, match="no disk on this node"):
        kubelet.stage(seconds=0.1)


def test_a_file_system_that_has_shut_down(kubelet: Kubelet) -> None:
    """A file system that gave up after errors is unmounted, checked and mounted again by the next stage."""
    kubelet.unpublish()
    directory = os.open(kubelet.staging, os.O_RDONLY)
    fcntl.ioctl(directory, SHUT_DOWN, struct.pack("I", NO_LOG_FLUSH))
    os.close(directory)
    kubelet.stage()
    kubelet.publish()
    kubelet.save("again")
    assert kubelet.saved() == "again"
    assert kubelet.on.mounted() == [kubelet.staging, kubelet.target]


def test_a_failing_disk_can_be_unstaged(kubelet: Kubelet) -> None:
    """Data that the disk does not take any more does not keep the volume mounted for ever."""
    kubelet.unpublish()
    directory = os.open(kubelet.staging, os.O_RDONLY)
    fcntl.ioctl(directory, SHUT_DOWN, struct.pack("I", NO_LOG_FLUSH))
    os.close(directory)
    kubelet.unstage()
    assert kubelet.on.mounted() == []


def test_a_number_given_to_another_disk(node_root: NodeRoot) -> None:
    """A block target whose disk went and whose number another disk now has is bound to the right disk."""
    kubelet = Kubelet(node_root, BLOCK)
    first = kubelet.plug("sda")
    kubelet.stage()
    kubelet.publish()
    drive = kubelet.plug("sdb")
    kubelet.on.unplug("sda")
    other = node_root.plug("sda", "drive-ua-other")
    assert is_device(kubelet.target, other), f"the other disk was to have the number of {first.loop}"
    kubelet.publish()
    assert kubelet.on.mounted() == [kubelet.target]
    assert is_device(kubelet.target, drive)


def test_a_block_disk_plugged_anew(node_root: NodeRoot) -> None:
    """A block target that leads to a number that is gone is bound to the live disk instead."""
    kubelet = Kubelet(node_root, BLOCK)
    kubelet.plug("sda")
    kubelet.stage()
    kubelet.publish()
    drive = kubelet.plug("sdb")
    kubelet.on.unplug("sda")
    assert not is_device(kubelet.target, drive)
    kubelet.publish()
    assert kubelet.on.mounted() == [kubelet.target]
    assert is_device(kubelet.target, drive)
