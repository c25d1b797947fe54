"""Look at what is on a disk, and mark a format that has begun.

How an unfinished format is told from somebody's data: before mkfs starts, one block near the disk's end is
written and synced: it names the volume and the disk's size (`mark_block`). It lies where mkfs puts nothing,
and is erased and synced after mkfs has ended and before the first mount. So as long as the mark stands no
mount of ours has happened, whatever mkfs left behind may be formatted again, and a file system that looks
whole is not trusted before it was made to the end. A disk's user could write the same bytes into a file that
happens to lie there; so the mark counts only together with no file system at all, or one never mounted.
A mark of another volume (a snapshot of a half-made disk) or of another size is no mark.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from csi.errors import Unavailable
from csi.node.blank_plan import Content

if TYPE_CHECKING:
    from csi.node.commands import Commands
    from csi.node.devices import Devices
    from csi.node.disk import Disk
    from csi.node.filesystems import FileSystem

END: Final = 1024 * 1024
"""Bytes looked at from each end of a disk."""
MARK: Final = 4096
BLKID_LIMIT: Final = 60.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Ends:
    """The disk's size in bytes and its first and last MiB (all of it, twice, when it is smaller)."""

    size: int
    first: bytes
    last: bytes
    at_mark: bytes
    """What is where the mark of an unfinished format would be; nothing when the disk is too small for it."""

    @property
    def zero(self) -> bool:
        """Whether there is nothing but zeros."""
        return not (any(self.first) or any(self.last))


class Reader(Protocol):
    """Reads as os.pread does; OSError when a byte cannot be read."""

    def __call__(self, fd: int, length: int, offset: int, /) -> bytes:
        """Return up to `length` bytes from `offset` on; none at the end."""
        ...


class Contents:
    """What is on the disks."""

    def __init__(self, devices: Devices, commands: Commands, read: Reader = os.pread) -> None:
        self._devices = devices
        self._commands = commands
        self._read = read

    def look(self, disk: Disk, identity: str, kind: FileSystem) -> Content:
        """Look at both ends and probe for signatures, without any cache. Raises Unavailable when in doubt."""
        with self._devices.opened(disk, os.O_RDONLY | os.O_EXCL) as fd:
            ends = self._ends(fd, disk, kind)
            signatures, ambivalent = self._probe(self._devices.path(disk))
        if ends.size != disk.size:
            raise Unavailable(f"disk {disk} changes its size: {ends.size} bytes now")
        return Content(
            signatures=signatures,
            ambivalent=ambivalent,
            zero=ends.zero,
            marked=ends.at_mark == mark_block(identity, ends.size),
            never_mounted=kind.never_mounted(ends.first),
            fingerprint=fingerprint(ends),
        )

    def mark(self, disk: Disk, identity: str, kind: FileSystem, seen: Content) -> None:
        """Say on the disk that its format has begun; Unavailable when it is not what was `seen` any more.

        Another process of ours may have formatted, used and released it since.
        """
        with self._devices.opened(disk, os.O_RDWR | os.O_EXCL) as fd:
            if fingerprint(self._ends(fd, disk, kind)) != seen.fingerprint:
                raise Unavailable(f"disk {disk} has been written to meanwhile; call again")
            _write_mark(fd, mark_block(identity, disk.size), disk, kind)
        log.info("format begun", disk=disk.name, identity=identity)

    def unmark(self, disk: Disk, identity: str, kind: FileSystem) -> None:
        """Erase the mark: the format is complete. Bytes that are not the mark are left alone."""
        with self._devices.opened(disk, os.O_RDWR | os.O_EXCL) as fd:
            if self._ends(fd, disk, kind).at_mark == mark_block(identity, disk.size):
                _write_mark(fd, bytes(MARK), disk, kind)

    def covered(self, disk: Disk, kind: FileSystem) -> int:
        """Return how many bytes of the disk the file system on it uses, as its superblock on the disk says.

        That of a mounted one may be an older one.
        """
        with self._devices.opened(disk) as fd:
            return kind.covers(self._ends(fd, disk, kind).first)

    def _ends(self, fd: int, disk: Disk, kind: FileSystem) -> Ends:
        try:
            size = os.lseek(fd, 0, os.SEEK_END)
            length = min(END, size)
            first, last = self._read_all(fd, length, 0), self._read_all(fd, length, size - length)
            at = size - kind.mark_from_end
            return Ends(size, first, last, self._read_all(fd, MARK, at) if at >= 0 else b"")
        except OSError as error:
            why = "cannot be read at both ends and is therefore never formatted"
            raise Unavailable(f"disk {disk} {why}: {error}") from error

    def _read_all(self, fd: int, length: int, offset: int) -> bytes:
        """Read all of `length` bytes; a short read is an error, never fewer bytes to judge by."""
        read = b""
        while len(read) < length:
            chunk = self._read(fd, length - len(read), offset + len(read))
            if not chunk:
                raise OSError(errno.EIO, "the disk ends before its size")
            read += chunk
        return read

    def _probe(self, path: str) -> tuple[tuple[str, ...], bool]:
        done = self._commands.run("blkid", "-p", "-o", "export", "--", path, seconds=BLKID_LIMIT)
        match done.code:
            case 0:
                return _signatures(done.output), False
            case 2:
                return (), False
            case 8:
                return (), True
            case _:
                raise Unavailable(f"blkid failed on {path}: {done.complaint}")


def fingerprint(ends: Ends) -> str:
    """Return a digest of all that was looked at."""
    return sha256(ends.first + ends.last + ends.at_mark).hexdigest()


def mark_block(identity: str, size: int) -> bytes:
    """Return the block that says: a format of this volume, on a disk of this size, has begun."""
    words = f"harvester-companion: mkfs has begun and not ended\n{identity}\n{size}\n"
    return words.encode().ljust(MARK, b"\0")


def _write_mark(fd: int, block: bytes, disk: Disk, kind: FileSystem) -> None:
    try:
        os.pwrite(fd, block, disk.size - kind.mark_from_end)
        os.fsync(fd)
    except OSError as error:
        raise Unavailable(f"disk {disk} cannot be written: {error}") from error


def _signatures(export: str) -> tuple[str, ...]:
    """Read TYPE and PTTYPE from `blkid -o export`; something else that was found is still something."""
    found = dict(line.split("=", 1) for line in export.splitlines() if "=" in line)
    names = [found["TYPE"]] if "TYPE" in found else []
    if "PTTYPE" in found:
        names.append(f"a {found['PTTYPE']} partition table")
    return tuple(names) or ("something that blkid cannot name",)
