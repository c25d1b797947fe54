"""The file systems we make: one row each, and the programs that make, check and grow them.

What a killed mkfs leaves. mke2fs zeroes the old primary superblock first and writes the new one last, after
it has synced all the rest (traced, 1.47): bytes without a signature. mkfs.xfs writes a superblock early, with
a flag that only its end clears: a signature that cannot be mounted. mkfs.btrfs works under another magic
number until its end: bytes without a signature again. How all of them are told from somebody's data is said
in `blankness`; the row gives what it needs: where mkfs puts nothing, and whether it was ever mounted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import structlog

from csi.errors import InUse, InvalidArgument, Unavailable
from csi.node import superblocks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from csi.deadline import Deadline
    from csi.node.commands import Commands

log = structlog.get_logger()

MIB: Final = 1024 * 1024
_FSCK_CORRECTED: Final = 1
_FSCK_UNCORRECTED: Final = 4
_FSCK_CANCELLED: Final = 32
"""Bits of the exit code of fsck(8); 2 = should reboot, 8 = could not check, which the mount will show."""


@dataclass(frozen=True, slots=True)
class FileSystem:
    """A row of the table. The device's path is added to both commands."""

    name: str
    """As blkid, mount and mountinfo call it."""
    make: tuple[str, ...]
    check: tuple[str, ...]
    """Empty where mounting replays the log and there is nothing else to do (fsck.xfs(8), btrfs-check(8))."""
    never_mounted: Callable[[bytes], bool]
    """Reads the disk's first MiB: has the file system never been mounted writable since it was made?"""
    covers: Callable[[bytes], int]
    """Reads the disk's first MiB: how many bytes of the disk does the file system use?"""
    grow: Callable[[str, str], tuple[str, ...]]
    """The command that fills the disk, of its node's path and the path where it is mounted writable."""
    mount_flags: frozenset[str] = frozenset()
    """Added to those that are asked for."""
    mark_from_end: int = MIB // 2
    """Bytes before the disk's end at which mkfs puts nothing, whatever the disk's size; see `blankness`."""


_EXT4: Final = FileSystem(
    name="ext4",
    # -F because nobody answers its questions, and only after our own proof of blank; one -F still refuses
    # a mounted disk. -m 0: no blocks for root. nodiscard: a discard would wipe our mark.
    make=("mkfs.ext4", "-F", "-q", "-m", "0", "-E", "nodiscard", "--"),
    check=("fsck.ext4", "-a", "--"),
    never_mounted=superblocks.ext_never_mounted,
    covers=superblocks.ext_covers,
    # For a mounted one the kernel demands CAP_SYS_RESOURCE, which a privileged container has.
    grow=lambda device, _: ("resize2fs", "--", device),
)
_EXT3: Final = replace(
    _EXT4, name="ext3", make=("mkfs.ext3", *_EXT4.make[1:]), check=("fsck.ext3", *_EXT4.check[1:])
)
_XFS: Final = FileSystem(
    name="xfs",
    make=("mkfs.xfs", "-f", "-q", "-K", "--"),
    check=(),
    never_mounted=superblocks.xfs_never_mounted,
    covers=superblocks.xfs_covers,
    grow=lambda _, path: ("xfs_growfs", "-d", "--", path),
    # A volume and its clone have one UUID, and the kernel would mount only the first of them.
    mount_flags=frozenset({"nouuid"}),
)
_BTRFS: Final = FileSystem(
    name="btrfs",
    make=("mkfs.btrfs", "-f", "-q", "-K", "--"),
    check=(),
    never_mounted=superblocks.btrfs_never_mounted,
    covers=superblocks.btrfs_covers,
    grow=lambda _, path: ("btrfs", "filesystem", "resize", "max", path),
    # mkfs.btrfs wipes the last 2 MiB. Copies of the superblock lie at whole MiB.
    mark_from_end=5 * MIB // 2,
)
FILE_SYSTEMS: Final[Mapping[str, FileSystem]] = {row.name: row for row in (_EXT4, _EXT3, _XFS, _BTRFS)}
DEFAULT: Final = "ext4"


def file_system(fs_type: str) -> FileSystem:
    """Return the row for a capability's fs_type, "" meaning the default; InvalidArgument names the rows."""
    row = FILE_SYSTEMS.get(fs_type or DEFAULT)
    if row is None:
        raise InvalidArgument(
            f"fs_type {fs_type!r} is not served; this driver makes {', '.join(FILE_SYSTEMS)}"
        )
    return row


class FileSystems:
    """Makes, checks and grows.

    Making and checking run to their end, whatever the caller's deadline: a half is worse than late. While one
    runs, csi.rpc holds the volume's lock, so that a repeated call is answered ABORTED; the program holds the
    disk exclusively, so that even another process of ours cannot begin.
    """

    def __init__(self, commands: Commands) -> None:
        self._commands = commands

    def make(self, path: str, kind: FileSystem) -> None:
        """Make a file system on the device at `path`, over whatever is there."""
        done = self._commands.run(*kind.make, path, seconds=None)
        if done.code != 0:
            raise Unavailable(f"{kind.make[0]} failed on {path}: {done.complaint}")
        log.info("file system made", device=path, fs_type=kind.name)

    def check(self, path: str, kind: FileSystem) -> None:
        """Check an unmounted file system and repair what is safe; InUse when it needs a person."""
        if not kind.check:
            return
        done = self._commands.run(*kind.check, path, seconds=None)
        if done.code < 0 or done.code & _FSCK_CANCELLED:
            raise Unavailable(f"{kind.check[0]} did not end its check of {path}: {done.complaint}")
        if done.code & _FSCK_UNCORRECTED:
            raise InUse(
                f"the {kind.name} on {path} has errors that {kind.check[0]} cannot correct by itself; "
                f"it is not mounted. Repair it by hand: {done.output.strip()[-500:]}"
            )
        if done.code not in (0, _FSCK_CORRECTED):
            log.warning("file system check", device=path, code=done.code, said=done.complaint)

    def grow(self, device: str, path: str, kind: FileSystem, deadline: Deadline) -> None:
        """Make the file system that is mounted at `path` fill its device; done when it does.

        It may be cut off at the deadline: the kernel grows in steps that are each whole, and the next call
        goes on from there.
        """
        argv = kind.grow(device, path)
        deadline.check(argv[0])
        done = self._commands.run(*argv, seconds=deadline.remaining())
        if done.code != 0:
            raise Unavailable(f"`{' '.join(argv)}` failed: {done.complaint}")
        log.info("file system fills its disk", device=device, path=path, fs_type=kind.name)
