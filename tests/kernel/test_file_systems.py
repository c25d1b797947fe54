"""What holds for every file system that is served, and what is special about some."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from csi.errors import AlreadyExists, InUse, Unavailable
from csi.model import disk_identity
from csi.node.blankness import mark_block
from csi.node.filesystems import FILE_SYSTEMS
from tests.kernel.disks import run
from tests.kernel.volume import SMALLEST, VOLUME, Kubelet, file_system

if TYPE_CHECKING:
    from tests.kernel.disks import Drive, NodeRoot

pytestmark = pytest.mark.kernel

NAMES = list(FILE_SYSTEMS)


def attached(node_root: NodeRoot, fs_type: str) -> Kubelet:
    """Return a kubelet whose node sees the blank disk of a volume."""
    kubelet = Kubelet(node_root, file_system(fs_type))
    kubelet.plug(size=SMALLEST[fs_type])
    return kubelet


def uuid(drive: Drive) -> str:
    """Return the UUID of the file system on the disk; it changes with each format."""
    return run("blkid", "-p", "-o", "value", "-s", "UUID", str(drive.loop))


@pytest.mark.parametrize("fs_type", NAMES)
def test_the_whole_life(node_root: NodeRoot, fs_type: str) -> None:
    """Each call may come twice; the mount is of the type that was asked for; the file moves with its disk."""
    kubelet = attached(node_root, fs_type)
    for _ in range(2):
        kubelet.stage()
    for _ in range(2):
        kubelet.publish()
    kubelet.publish(kubelet.second_target, readonly=True)
    assert run("findmnt", "-n", "-o", "FSTYPE", kubelet.target).strip() == fs_type
    kubelet.save("moved")
    assert kubelet.saved(kubelet.second_target) == "moved"
    with pytest.raises(InUse, match=kubelet.target):
        kubelet.unstage()
    for _ in range(2):
        kubelet.unpublish()
        kubelet.unpublish(kubelet.second_target)
    for _ in range(2):
        kubelet.unstage()
    assert kubelet.on.mounted() == []
    kubelet.plug("sdq", node_root.unplug("sda").image)
    kubelet.stage()
    kubelet.publish()
    assert kubelet.saved() == "moved"


@pytest.mark.parametrize("fs_type", NAMES)
def test_figures(node_root: NodeRoot, fs_type: str) -> None:
    """The path is proved to be the volume's for each file system; without its disk it is in trouble."""
    kubelet = attached(node_root, fs_type)
    kubelet.stage()
    kubelet.publish()
    stats = kubelet.stats()
    assert stats.trouble == ""
    assert stats.bytes is not None
    assert SMALLEST[fs_type] // 4 < stats.bytes.total <= SMALLEST[fs_type]
    node_root.unplug("sda")
    assert "its device is gone" in kubelet.stats().trouble


@pytest.mark.parametrize("fs_type", NAMES)
def test_a_disk_that_went_and_came_back(node_root: NodeRoot, fs_type: str) -> None:
    """A dead mount is told from a live one, though the new disk has the name of the old one."""
    kubelet = attached(node_root, fs_type)
    kubelet.make_earlier("kept")
    kubelet.stage()
    kubelet.publish()
    drive = node_root.unplug("sda")
    copy = drive.image.with_name("copy.img")
    run("cp", "--sparse=always", str(drive.image), str(copy))
    kubelet.plug("sda", copy)
    kubelet.publish()
    assert kubelet.on.mounted() == [kubelet.staging, kubelet.target]
    assert kubelet.saved() == "kept"
    kubelet.unpublish()
    kubelet.unstage()
    assert kubelet.on.mounted() == []


@pytest.mark.parametrize("fs_type", NAMES)
def test_unstage_after_the_disk_went(node_root: NodeRoot, fs_type: str) -> None:
    """A published volume without its disk is not unstaged; unpublished it is."""
    kubelet = attached(node_root, fs_type)
    kubelet.stage()
    kubelet.publish()
    node_root.unplug("sda")
    with pytest.raises(InUse, match=kubelet.target):
        kubelet.unstage()
    kubelet.unpublish()
    kubelet.unstage()
    assert kubelet.on.mounted() == []


@pytest.mark.parametrize("fs_type", NAMES)
def test_another_file_system_is_asked_for(node_root: NodeRoot, fs_type: str) -> None:
    """What carries one file system is not formatted with another, nor mounted as one, mounted or not."""
    kubelet = attached(node_root, fs_type)
    kubelet.stage()
    made = uuid(node_root.drives["sda"])
    kubelet.capability = file_system(next(name for name in NAMES if name != fs_type))
    with pytest.raises(AlreadyExists):
        kubelet.stage()
    kubelet.unstage()
    with pytest.raises(InUse, match=f"carries {fs_type}"):
        kubelet.stage()
    assert uuid(node_root.drives["sda"]) == made


@pytest.mark.parametrize("fs_type", NAMES)
def test_whole_but_marked(node_root: NodeRoot, fs_type: str) -> None:
    """One that looks whole is made again while the mark stands and nobody mounted it; never after that."""
    kubelet = attached(node_root, fs_type)
    drive, kind = node_root.drives["sda"], FILE_SYSTEMS[fs_type]
    mark, place = mark_block(disk_identity(VOLUME), drive.size), drive.size - kind.mark_from_end
    run(*kind.make, str(drive.loop))
    half = uuid(drive)
    drive.write(mark, place)
    kubelet.make_earlier("kept")
    made = uuid(drive)
    assert made != half
    drive.write(mark, place)
    kubelet.stage()
    assert kubelet.saved(kubelet.staging) == "kept"
    assert uuid(drive) == made


def test_an_xfs_beside_its_copy(node_root: NodeRoot) -> None:
    """A volume is mounted beside another that was copied from it and has its UUID."""
    kubelet = attached(node_root, "xfs")
    kubelet.make_earlier("kept")
    copy = node_root.top / "copy.img"
    run("cp", "--sparse=always", str(node_root.drives["sda"].image), str(copy))
    other = node_root.plug("sdb", "drive-ua-other", image=copy)
    aside = node_root.path("aside")
    os.mkdir(aside)
    run("mount", "-o", "nouuid", str(other.loop), aside)
    kubelet.stage()
    assert kubelet.saved(kubelet.staging) == (Path(aside) / "file").read_text() == "kept"


def test_an_xfs_that_was_not_unmounted(node_root: NodeRoot) -> None:
    """The log of an xfs is replayed by the mount: no check refuses it after a crash."""
    kubelet = attached(node_root, "xfs")
    kubelet.make_earlier()
    kubelet.stage()
    kubelet.save("logged", kubelet.staging)
    run("sync", "-f", kubelet.staging)
    drive = node_root.drives["sda"]
    crashed = drive.image.with_name("crashed.img")
    run("cp", "--sparse=always", str(drive.image), str(crashed))
    kubelet.unstage()
    node_root.unplug("sda")
    kubelet.plug("sdb", crashed)
    kubelet.stage()
    assert kubelet.saved(kubelet.staging) == "logged"


def test_a_disk_too_small_for_its_file_system(node_root: NodeRoot) -> None:
    """What mkfs refuses is told in its words, and nothing is mounted."""
    kubelet = attached(node_root, "ext4")
    kubelet.capability = file_system("xfs")
    with pytest.raises(Unavailable, match=r"mkfs\.xfs failed .* larger than 300MB"):
        kubelet.stage()
    assert kubelet.on.mounted() == []
