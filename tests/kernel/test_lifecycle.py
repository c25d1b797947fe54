"""The life of a volume on a node: stage, publish, unpublish, unstage, each as often as it may come."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from csi.errors import AlreadyExists, InUse, NotFound, Unavailable
from csi.model import AccessMode, Capability
from tests.kernel.disks import run
from tests.kernel.volume import BLOCK, MOUNT, READER, Kubelet, is_device

if TYPE_CHECKING:
    from tests.kernel.disks import NodeRoot

pytestmark = pytest.mark.kernel


@pytest.fixture
def kubelet(node_root: NodeRoot) -> Kubelet:
    """Return a kubelet whose node sees the disk of a new volume."""
    kubelet = Kubelet(node_root)
    kubelet.plug()
    return kubelet


def test_every_call_may_come_twice(kubelet: Kubelet) -> None:
    """A repeated call finds everything done, and leaves one mount where one is wanted."""
    kubelet.stage()
    kubelet.stage()
    kubelet.publish()
    kubelet.publish()
    assert kubelet.on.mounted() == [kubelet.staging, kubelet.target]
    kubelet.unpublish()
    kubelet.unpublish()
    assert not os.path.exists(kubelet.target)
    kubelet.unstage()
    kubelet.unstage()
    assert kubelet.on.mounted() == []
    assert os.path.isdir(kubelet.staging)


def test_data_moves_with_its_disk(kubelet: Kubelet, tmp_path: Path) -> None:
    """A file written on one node is there on the next, after the disk has moved."""
    kubelet.make_earlier("moved")
    drive = kubelet.on.unplug("sda")
    kubelet.plug("sdq", drive.image)
    kubelet.stage()
    kubelet.publish()
    assert kubelet.saved() == "moved"


def test_a_disk_that_comes_late_is_awaited(node_root: NodeRoot) -> None:
    """Without its disk stage gives up at its deadline and says what is there; with it, it goes on."""
    kubelet = Kubelet(node_root)
    node_root.plug("sdb", "drive-ua-other")
    with pytest.raises(Unavailable, match=r"drive-ua-pvc-1; there are: sdb \(drive-ua-other"):
        kubelet.stage(seconds=0.2)
    kubelet.plug()
    kubelet.stage()


def test_publish_restages_after_a_reboot(kubelet: Kubelet) -> None:
    """After a reboot kubelet publishes what it believes to be staged; the staging mount is made again."""
    kubelet.make_earlier()
    kubelet.publish()
    assert kubelet.saved() == "kept"
    assert kubelet.on.mounted() == [kubelet.staging, kubelet.target]


def test_publish_needs_a_staged_volume(kubelet: Kubelet) -> None:
    """A staging path that does not exist was never staged."""
    with pytest.raises(InUse, match="not staged"):
        kubelet.publish()


def test_two_pods_of_one_node(kubelet: Kubelet) -> None:
    """Two pods may use a volume of a node, one of them read-only, unless it is for a single writer."""
    kubelet.stage()
    kubelet.publish()
    kubelet.publish(kubelet.second_target, readonly=True)
    kubelet.save("shared")
    assert kubelet.saved(kubelet.second_target) == "shared"
    with pytest.raises(OSError, match="Read-only"):
        kubelet.save("no", kubelet.second_target)
    with pytest.raises(AlreadyExists):
        kubelet.publish(kubelet.second_target, readonly=False)
    kubelet.unpublish(kubelet.second_target)
    kubelet.capability = replace(MOUNT, mode=AccessMode.SINGLE_NODE_SINGLE_WRITER)
    with pytest.raises(InUse, match="single writer"):
        kubelet.publish(kubelet.second_target)
    assert not os.path.exists(kubelet.second_target)


def test_a_published_volume_is_not_unstaged(kubelet: Kubelet) -> None:
    """Unstage refuses while a target is left, names it, and disturbs nothing."""
    kubelet.stage()
    kubelet.publish()
    with pytest.raises(InUse, match=kubelet.target):
        kubelet.unstage()
    assert kubelet.on.mounted() == [kubelet.staging, kubelet.target]


def test_a_busy_mount_is_not_torn_off(kubelet: Kubelet) -> None:
    """While a file is open the volume stays mounted, and the call may come again."""
    kubelet.stage()
    with (Path(kubelet.staging) / "open").open("w"), pytest.raises(Unavailable, match="busy"):
        kubelet.unstage()
    assert kubelet.on.mounted() == [kubelet.staging]
    kubelet.unstage()


def test_mount_flags(kubelet: Kubelet) -> None:
    """Flags of the class are in force at the staging mount and at the target; `ro` does not undo them."""
    kubelet.capability = Capability(AccessMode.SINGLE_NODE_WRITER, mount_flags=("noexec", "data=ordered"))
    kubelet.stage()
    assert "noexec" in kubelet.on.options(kubelet.staging)
    kubelet.publish(readonly=True)
    assert {"noexec", "ro"} <= kubelet.on.options(kubelet.target)


def test_a_reader_only_volume(kubelet: Kubelet) -> None:
    """A read-only mode mounts what is there and cannot write, not even at the staging path."""
    kubelet.make_earlier()
    kubelet.capability = READER
    kubelet.stage()
    kubelet.publish()
    assert kubelet.saved() == "kept"
    with pytest.raises(OSError, match="Read-only"):
        kubelet.save("no", kubelet.staging)
    kubelet.capability = MOUNT
    with pytest.raises(AlreadyExists, match="read-only"):
        kubelet.stage()


def test_stacked_mounts_all_go(kubelet: Kubelet) -> None:
    """Another driver stacked a second bind on target and staging path; both go, and the target is removed."""
    kubelet.stage()
    kubelet.publish()
    run("mount", "--bind", kubelet.staging, kubelet.target)
    kubelet.unpublish()
    assert kubelet.on.mounted() == [kubelet.staging]
    run("mount", "--bind", kubelet.staging, kubelet.staging)
    kubelet.unstage()
    assert kubelet.on.mounted() == []


def test_a_volume_published_without_stage(kubelet: Kubelet) -> None:
    """Upstream mounts a disk at its target only: publish accepts that, stage joins it, unpublish ends it."""
    kubelet.make_earlier()
    Path(kubelet.target).mkdir()
    run("mount", str(kubelet.on.root / "dev" / "sda"), kubelet.target)
    kubelet.publish()
    assert kubelet.on.mounted() == [kubelet.target]
    kubelet.stage()
    assert kubelet.on.mounted() == [kubelet.target, kubelet.staging]
    kubelet.unpublish()
    kubelet.unstage()


def test_something_else_at_the_paths(kubelet: Kubelet) -> None:
    """A foreign mount at the staging path or the target is neither taken for ours nor covered."""
    for path in (kubelet.staging, kubelet.target):
        Path(path).mkdir()
        run("mount", "-t", "tmpfs", "none", path)
    with pytest.raises(AlreadyExists, match="another file system"):
        kubelet.stage()
    with pytest.raises(AlreadyExists, match="another file system"):
        kubelet.publish()
    run("umount", kubelet.target)
    with pytest.raises(InUse, match="not the volume"):
        kubelet.publish()


def test_only_what_is_ours_is_removed(kubelet: Kubelet) -> None:
    """Unpublish never deletes files: a directory with something in it, or a file with content, stays."""
    Path(kubelet.target).mkdir()
    (Path(kubelet.target) / "data").write_text("x")
    with pytest.raises(InUse, match="not empty"):
        kubelet.unpublish()
    Path(kubelet.second_target).write_text("x")
    with pytest.raises(InUse, match="left alone"):
        kubelet.unpublish(kubelet.second_target)
    assert (Path(kubelet.target) / "data").read_text() == "x"


def test_a_link_at_the_target_is_not_followed(kubelet: Kubelet) -> None:
    """A symbolic link where the target should be made is refused: the mount would land elsewhere."""
    kubelet.stage()
    Path(kubelet.second_target).mkdir()
    Path(kubelet.target).symlink_to(kubelet.second_target)
    with pytest.raises(InUse, match="no directory"):
        kubelet.publish()
    assert kubelet.on.mounted() == [kubelet.staging]


def test_a_directory_at_a_block_target(node_root: NodeRoot) -> None:
    """A block target is a file; a directory there is refused."""
    kubelet = Kubelet(node_root, BLOCK)
    kubelet.plug()
    kubelet.stage()
    Path(kubelet.target).mkdir()
    with pytest.raises(InUse, match="no file"):
        kubelet.publish()


def test_a_mount_in_another_namespace_holds_the_disk(kubelet: Kubelet) -> None:
    """Unstage is not done while a container that copied our mounts still has the file system mounted."""
    kubelet.stage()
    container = subprocess.Popen(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", "echo ready; exec sleep 60"],
        stdout=subprocess.PIPE,
    )
    try:
        assert container.stdout is not None
        assert container.stdout.readline() == b"ready\n"
        for _ in range(2):
            with pytest.raises(Unavailable, match="another mount namespace"):
                kubelet.unstage()
        assert kubelet.on.mounted() == []
    finally:
        container.kill()
        container.communicate()
    kubelet.unstage()


def test_a_target_without_parent(kubelet: Kubelet) -> None:
    """The caller makes the target's parent."""
    kubelet.stage()
    with pytest.raises(NotFound, match="parent"):
        kubelet.publish(f"{kubelet.on.kubelet}/missing/target")


def test_a_kubelet_directory_behind_a_link(kubelet: Kubelet) -> None:
    """Mounts are recognised though the kernel names them by the paths that links lead to."""
    (kubelet.on.top / "elsewhere").mkdir()
    kubelet.on.kubelet.symlink_to("elsewhere")
    for _ in range(2):
        kubelet.stage()
        kubelet.publish()
    assert len(kubelet.on.mounted()) == 2
    kubelet.unpublish()
    kubelet.unstage()
    assert kubelet.on.mounted() == []


def test_raw_block(node_root: NodeRoot) -> None:
    """A block target is the disk itself, bound once however often; the disk's bytes are not touched."""
    kubelet = Kubelet(node_root, BLOCK)
    drive = kubelet.plug()
    drive.write(b"raw", offset=7)
    before = drive.content()
    for _ in range(2):
        kubelet.stage()
        kubelet.publish()
    assert kubelet.on.mounted() == [kubelet.target]
    assert is_device(kubelet.target, drive)
    with pytest.raises(InUse, match=kubelet.target):
        kubelet.unstage()
    kubelet.capability = MOUNT
    with pytest.raises(InUse, match="raw block"):
        kubelet.stage()
    kubelet.unpublish()
    kubelet.unpublish()
    kubelet.unstage()
    assert not os.path.exists(kubelet.target)
    assert drive.content() == before


def test_a_mounted_disk_is_no_block_volume(kubelet: Kubelet) -> None:
    """A disk whose file system is mounted is not handed out raw."""
    kubelet.stage()
    kubelet.capability = BLOCK
    with pytest.raises(AlreadyExists, match="not as a block volume"):
        kubelet.stage()
    with pytest.raises(InUse, match="mounted"):
        kubelet.publish()


def test_another_file_at_a_block_target(node_root: NodeRoot) -> None:
    """A block target that is another disk is refused."""
    kubelet = Kubelet(node_root, BLOCK)
    kubelet.plug()
    node_root.plug("sdb", "drive-ua-other")
    Path(kubelet.target).touch()
    run("mount", "--bind", str(node_root.root / "dev" / "sdb"), kubelet.target)
    with pytest.raises(AlreadyExists, match="something else"):
        kubelet.publish()
