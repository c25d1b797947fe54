"""A format that did not come to its end."""

from __future__ import annotations

import os
import random
import subprocess
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from csi.errors import InUse, Unavailable
from csi.model import disk_identity
from csi.node.blankness import mark_block
from csi.node.commands import Commands, Finished
from csi.node.filesystems import FILE_SYSTEMS, FileSystem, FileSystems
from csi.node.machine import linux_machine
from tests.kernel.disks import run
from tests.kernel.signatures import DISK_SIZE
from tests.kernel.volume import READER, SMALLEST, VOLUME, Kubelet, context, file_system

if TYPE_CHECKING:
    from tests.kernel.disks import Drive, NodeRoot

pytestmark = pytest.mark.kernel

MARK_AT = DISK_SIZE - FILE_SYSTEMS["ext4"].mark_from_end
OURS = mark_block(disk_identity(VOLUME), DISK_SIZE)
DURATIONS = {"ext3": 0.03, "ext4": 0.02, "xfs": 0.03, "btrfs": 0.05}
"""Seconds in which mkfs is usually through."""
CHECKS = {
    "ext3": ("fsck.ext3", "-fn"),
    "ext4": ("fsck.ext4", "-fn"),
    "xfs": ("xfs_repair", "-n"),
    "btrfs": ("btrfs", "check"),
}


@pytest.fixture
def kubelet(node_root: NodeRoot) -> Kubelet:
    """Return a kubelet whose node sees no disk yet."""
    return Kubelet(node_root)


class KilledFormats(Commands):
    """mkfs is killed after some milliseconds: nobody knows where it was."""

    def __init__(self, after: float) -> None:
        super().__init__()
        self._after = after

    def run(self, *argv: str, seconds: float | None) -> Finished:
        """Start mkfs and kill it; let the check run."""
        if not argv[0].startswith("mkfs"):
            return super().run(*argv, seconds=seconds)
        child = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            child.wait(self._after)
        except subprocess.TimeoutExpired:
            child.kill()
        return Finished(child.wait(), "", "killed")


def marked(drive: Drive, kind: FileSystem = FILE_SYSTEMS["ext4"]) -> bool:
    """Tell whether the mark is on the disk."""
    mark = mark_block(disk_identity(VOLUME), drive.size)
    return drive.read(drive.size - kind.mark_from_end, len(mark)) == mark


def half_made(drive: Drive) -> None:
    """Leave what a mkfs.ext4 leaves that was killed just before it wrote the superblock, and our mark."""
    run("mkfs.ext4", "-q", "-E", "nodiscard", str(drive.loop))
    drive.write(bytes(1024), offset=1024)
    drive.write(OURS, offset=MARK_AT)


@pytest.mark.parametrize("moment", range(20))
@pytest.mark.parametrize(("fs_type", "seconds"), DURATIONS.items())
def test_mkfs_killed_at_some_moment(kubelet: Kubelet, fs_type: str, seconds: float, moment: int) -> None:
    """Wherever mkfs was killed, the next stage makes a whole file system, long after the disk was fresh."""
    kind = FILE_SYSTEMS[fs_type]
    kubelet.capability = file_system(fs_type)
    drive = kubelet.plug(size=SMALLEST[fs_type])
    after = random.uniform(0.0, seconds) if moment else 0.0
    machine = linux_machine(kubelet.on.root)
    kubelet.machine = replace(machine, filesystems=FileSystems(KilledFormats(after)))
    try:
        kubelet.stage()
    except Unavailable:
        assert marked(drive, kind)
        assert kubelet.on.mounted() == []
    kubelet.machine = None
    kubelet.stage()
    kubelet.save("x", kubelet.staging)
    kubelet.unstage()
    assert not marked(drive, kind)
    run(*CHECKS[fs_type], str(drive.loop))


def test_half_made(kubelet: Kubelet) -> None:
    """Bytes without a superblock are formatted again when our mark says that they are a format's."""
    half_made(kubelet.plug())
    kubelet.make_earlier()


def test_whole_but_marked(kubelet: Kubelet) -> None:
    """A file system that looks whole is not trusted while the mark stands and nobody has mounted it."""
    drive = kubelet.plug()
    run("mkfs.ext4", "-q", "-L", "half", "-E", "nodiscard", str(drive.loop))
    drive.write(OURS, offset=MARK_AT)
    kubelet.make_earlier()
    assert run("e2label", str(drive.loop)).strip() == ""
    assert not marked(drive)


def test_a_mark_in_a_used_file_system_is_just_bytes(kubelet: Kubelet) -> None:
    """A file that holds the very bytes of our mark at its very place does not cost the volume its data."""
    drive = kubelet.plug()
    kubelet.make_earlier("kept")
    drive.write(OURS, offset=MARK_AT)
    kubelet.stage()
    assert kubelet.saved(kubelet.staging) == "kept"
    kubelet.unstage()
    assert marked(drive)


@pytest.mark.parametrize(
    "other",
    [mark_block("drive-ua-pvc-2", DISK_SIZE), mark_block(disk_identity(VOLUME), 2 * DISK_SIZE)],
    ids=["another-volume", "another-size"],
)
def test_a_mark_of_something_else(kubelet: Kubelet, other: bytes) -> None:
    """A mark of another volume, on a disk restored from its snapshot, permits nothing."""
    drive = kubelet.plug()
    half_made(drive)
    drive.write(other, offset=MARK_AT)
    before = drive.content()
    with pytest.raises(InUse, match="without a known signature"):
        kubelet.stage()
    assert drive.content() == before


def test_half_made_read_only_or_by_upstream(kubelet: Kubelet) -> None:
    """The mark does not widen what the request and the controller permit."""
    half_made(kubelet.plug())
    kubelet.context = {}
    with pytest.raises(InUse, match="attach it again"):
        kubelet.stage()
    kubelet.context, kubelet.capability = context(), READER
    with pytest.raises(InUse, match="never formatted"):
        kubelet.stage()


@pytest.mark.parametrize(
    ("fs_type", "mib"),
    [
        *(("ext3", mib) for mib in (2, 9, 129, 1024)),
        *(("ext4", mib) for mib in (2, 4, 9, 64, 127, 129, 512, 1024, 10 * 1024)),
        *(("xfs", mib) for mib in (300, 513, 2050)),
        *(("btrfs", mib) for mib in (110, 111, 257, 1026, 10 * 1024, 256 * 1024 + 3)),
    ],
)
def test_mkfs_leaves_the_mark_alone(kubelet: Kubelet, fs_type: str, mib: int) -> None:
    """The mark lies where mkfs puts nothing: it stands while mkfs runs, whatever the size of the disk."""
    size, kind = mib * 1024 * 1024, FILE_SYSTEMS[fs_type]
    image = kubelet.on.top / "sized.img"
    image.touch()
    os.truncate(image, size)
    mark = mark_block(disk_identity(VOLUME), size)
    with image.open("r+b") as disk:
        disk.seek(size - kind.mark_from_end)
        disk.write(mark)
    run(*kind.make, str(image))
    with image.open("rb") as disk:
        disk.seek(size - kind.mark_from_end)
        assert disk.read(len(mark)) == mark


class SlowFormats(Commands):
    """mkfs that takes until the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()
        self.may_end = threading.Event()

    def run(self, *argv: str, seconds: float | None) -> Finished:
        """Wait, then do what was asked."""
        assert seconds is None, "a format or a check has no deadline"
        self.begun.set()
        assert self.may_end.wait(20)
        return super().run(*argv, seconds=seconds)


def test_a_format_outlives_its_caller(kubelet: Kubelet) -> None:
    """mkfs runs to its end though the deadline is over; the call then fails, and the next one only mounts."""
    drive, slow, errors = kubelet.plug(), SlowFormats(), list[BaseException]()
    patient = Kubelet(kubelet.on)
    patient.machine = replace(linux_machine(kubelet.on.root), filesystems=FileSystems(slow))

    def stage() -> None:
        try:
            patient.stage(seconds=0.01)
        except BaseException as error:  # noqa: BLE001 - handed to the test's own thread
            errors.append(error)

    caller = threading.Thread(target=stage)
    caller.start()
    assert slow.begun.wait(20)
    assert marked(drive)
    slow.may_end.set()
    caller.join(20)
    assert "safe to call again" in str(errors[0])
    made = run("blkid", "-p", "-o", "value", "-s", "UUID", str(drive.loop))
    kubelet.stage()
    kubelet.unstage()
    assert run("blkid", "-p", "-o", "value", "-s", "UUID", str(drive.loop)) == made
