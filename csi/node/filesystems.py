"""The file systems we make: one row each, and the programs that make and check them.

mke2fs zeroes the old primary superblock first and writes the new one last, after it has synced all the rest
(traced, 1.47). So a killed mkfs.ext4 leaves bytes without a signature. How that is told from somebody's data
is said in `blankness`; the row gives what it needs: whether a file system was ever mounted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from csi.errors import InUse, InvalidArgument, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from csi.node.commands import Commands

log = structlog.get_logger()

_EXT_SUPERBLOCK: Final = 1024
_EXT_MOUNT_TIME: Final = slice(_EXT_SUPERBLOCK + 44, _EXT_SUPERBLOCK + 48)
_EXT_MOUNT_COUNT: Final = slice(_EXT_SUPERBLOCK + 52, _EXT_SUPERBLOCK + 54)
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
    never_mounted: Callable[[bytes], bool]
    """Reads the disk's first MiB: has the file system never been mounted writable since it was made?"""


def ext_never_mounted(first: bytes) -> bool:
    """Read s_mtime and s_mnt_count of an ext2/3/4 superblock: the kernel sets both at a writable mount."""
    return not any(first[_EXT_MOUNT_TIME]) and not any(first[_EXT_MOUNT_COUNT])


FILE_SYSTEMS: Final[Mapping[str, FileSystem]] = {
    "ext4": FileSystem(
        name="ext4",
        # -F because nobody answers its questions, and only after our own proof of blank; one -F still refuses
        # a mounted disk. -m 0: no blocks for root. nodiscard: a discard would wipe our mark.
        make=("mkfs.ext4", "-F", "-q", "-m", "0", "-E", "nodiscard", "--"),
        check=("fsck.ext4", "-a", "--"),
        never_mounted=ext_never_mounted,
    ),
}
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
    """Makes and checks. Both run to their end, whatever the caller's deadline: a half is worse than late.

    While one runs, csi.rpc holds the volume's lock, so that a repeated call is answered ABORTED; the program
    holds the disk exclusively, so that even another process of ours cannot begin.
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
