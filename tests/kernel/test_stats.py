"""What the node says of a mounted volume: how full it is, and what is wrong with it."""

from __future__ import annotations

import fcntl
import os
import struct
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from csi.deadline import Deadline
from csi.errors import NotFound
from csi.model import AccessMode, Capability, NodeId, Usage, VolumeId
from csi.node.commands import Commands, Finished, Hung
from csi.node.machine import linux_machine
from csi.node.mounts import Mounts
from csi.node.service import Node
from tests.kernel.test_vanished import NO_LOG_FLUSH, SHUT_DOWN
from tests.kernel.volume import BLOCK, MOUNT, READER, VOLUME, Kubelet

if TYPE_CHECKING:
    from tests.kernel.disks import NodeRoot

pytestmark = pytest.mark.kernel


@pytest.fixture
def kubelet(node_root: NodeRoot) -> Kubelet:
    """Return a kubelet with a staged and published volume."""
    return published(Kubelet(node_root))


def published(kubelet: Kubelet) -> Kubelet:
    """Plug the disk in, stage and publish."""
    kubelet.plug()
    kubelet.stage()
    kubelet.publish()
    return kubelet


def test_figures_of_a_file_system(kubelet: Kubelet) -> None:
    """Bytes and inodes are the file system's, at both paths; used is what is not free."""
    kubelet.save("x" * 1_000_000)
    os.sync()
    found = os.statvfs(kubelet.target)
    stats = kubelet.stats()
    block = found.f_frsize
    used = (found.f_blocks - found.f_bfree) * block
    assert stats.bytes == Usage(found.f_blocks * block, used, found.f_bavail * block)
    assert stats.inodes == Usage(found.f_files, found.f_files - found.f_ffree, found.f_ffree)
    assert stats.trouble == ""
    assert kubelet.stats(kubelet.staging) == stats


def test_figures_of_a_block_volume(node_root: NodeRoot) -> None:
    """A raw block volume has its device's size, and nobody knows what is used of it."""
    kubelet = published(Kubelet(node_root, BLOCK))
    stats = kubelet.stats()
    assert stats.bytes == Usage(node_root.drives["sda"].size)
    assert (stats.inodes, stats.trouble) == (None, "")


@pytest.mark.parametrize("path", ["some/path", "/nowhere/at/all", "/proc"])
def test_a_path_that_is_not_the_volumes(kubelet: Kubelet, path: str) -> None:
    """A path that is relative, missing or another mount is not found."""
    with pytest.raises(NotFound, match="not mounted at"):
        kubelet.stats(path)


@pytest.mark.parametrize("capability", [MOUNT, BLOCK])
def test_the_path_of_another_volume(node_root: NodeRoot, capability: Capability) -> None:
    """What is mounted at the path must be the volume that is asked for, whether that is there or not."""
    kubelet = published(Kubelet(node_root, capability))
    with pytest.raises(NotFound):
        kubelet.stats(volume=VolumeId("pvc-2"))
    node_root.plug("sdb", "drive-ua-pvc-2")
    with pytest.raises(NotFound):
        kubelet.stats(volume=VolumeId("pvc-2"))


def test_a_directory_in_the_volume_is_not_the_volume(kubelet: Kubelet) -> None:
    """A path below the mount is not where the volume is mounted."""
    below = Path(kubelet.target) / "below"
    below.mkdir()
    with pytest.raises(NotFound):
        kubelet.stats(str(below))


@pytest.mark.parametrize("block", [False, True])
def test_an_unplugged_disk(node_root: NodeRoot, block: bool) -> None:
    """A device that went behind us is a trouble of the volume, not an error of the call."""
    kubelet = Kubelet(node_root, BLOCK) if block else Kubelet(node_root)
    published(kubelet)
    node_root.unplug("sda")
    assert "its device is gone" in kubelet.stats().trouble
    assert kubelet.stats().bytes is None


def test_a_file_system_that_has_shut_down(kubelet: Kubelet) -> None:
    """A file system that has given up is told as a trouble."""
    directory = os.open(kubelet.staging, os.O_RDONLY)
    fcntl.ioctl(directory, SHUT_DOWN, struct.pack("I", NO_LOG_FLUSH))
    os.close(directory)
    assert "shut down after errors" in kubelet.stats().trouble


def test_read_only_after_an_error(node_root: NodeRoot) -> None:
    """A file system that became read-only by itself is told, with its figures; a read-only bind is not."""
    writer = Capability(AccessMode.SINGLE_NODE_WRITER, mount_flags=("errors=remount-ro",))
    kubelet = Kubelet(node_root, writer)
    drive = kubelet.plug()
    kubelet.stage()
    kubelet.publish(readonly=True)
    assert kubelet.stats().trouble == ""
    Path(f"/sys/fs/ext4/{drive.loop.name}/trigger_fs_error").write_text("told by a test\n")
    for path in (kubelet.staging, kubelet.target):
        assert "read-only after an error" in kubelet.stats(path).trouble
        assert kubelet.stats(path).bytes is not None


def test_a_volume_that_is_staged_read_only(kubelet: Kubelet) -> None:
    """Read-only as asked is no trouble."""
    kubelet.unpublish()
    kubelet.unstage()
    kubelet.capability = READER
    kubelet.stage()
    kubelet.publish()
    assert kubelet.stats().trouble == ""


class Silent(Commands):
    """`stat` hangs in the kernel until the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.ended = threading.Event()
        self.started = 0

    def run(self, *argv: str, seconds: float | None) -> Finished:
        """Hang if it is a look at a file system."""
        if argv[:2] != ("stat", "-f"):
            return super().run(*argv, seconds=seconds)
        self.started += 1
        raise Hung("`stat` hangs", self.ended)


def test_a_disk_that_does_not_answer(kubelet: Kubelet) -> None:
    """A hanging look is a trouble; no second one starts until it ends, and nobody else waits for it."""
    silent, machine = Silent(), linux_machine(kubelet.on.root)
    node = Node(NodeId("vm-a"), replace(machine, mounts=Mounts(silent)))
    for _ in range(3):
        assert "has not answered" in node.stats(VOLUME, kubelet.target, Deadline(10)).trouble
    assert silent.started == 1
    node.unpublish(VOLUME, kubelet.target, Deadline(10))
    silent.ended.set()
    node.stats(VOLUME, kubelet.staging, Deadline(10))
    assert silent.started == 2
