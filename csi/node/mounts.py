"""Mounts and mount points of this process's own mount namespace.

Whether something is mounted is read from mountinfo, never asked of the path: a stat of a dead mount can hang
or fail. What may hang runs as a program that can be killed.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from csi.errors import InUse, NotFound, Unavailable
from csi.model import Usage, VolumeStats
from csi.node.btrfs import name_devices
from csi.node.disk import DeviceNumber
from csi.node.mountinfo import Mount, mounts_at, parse_mountinfo

if TYPE_CHECKING:
    from collections.abc import Iterable

    from csi.deadline import Deadline
    from csi.node.commands import Commands

STAT_LIMIT: Final = 10.0
DEAD: Final = (
    "Transport endpoint is not connected",
    "Stale file handle",
    "Input/output error",
    "Permission denied",
    "Host is down",
    "Resource temporarily unavailable",
    "No such device",
)
"""Words of ENOTCONN, ESTALE, EIO, EACCES, EHOSTDOWN, EWOULDBLOCK, ENODEV: what the root of a mount answers to
root when the thing behind it is gone (k8s.io/mount-utils, IsCorruptedMnt)."""

log = structlog.get_logger()


class PathKind(Enum):
    """What is at a path on which nothing is mounted."""

    MISSING = "missing"
    DIRECTORY = "directory"
    FILE = "file"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class MountRoot:
    """What a stat of a mounted path says."""

    dead: str = ""
    """Why the mount is dead; "" when it answers."""
    device: DeviceNumber | None = None
    """The number of the block device node that is mounted there, if one is."""


class Mounts:
    """One method, one step in the kernel; each may be repeated. Errors are Unavailable unless said."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands

    def table(self) -> tuple[Mount, ...]:
        """Return all mounts there are now."""
        return name_devices(parse_mountinfo(Path("/proc/self/mountinfo").read_text(errors="surrogateescape")))

    def root_of(self, path: str) -> MountRoot:
        """Look at a mounted path."""
        done = self._commands.run("stat", "-c", "%t:%T:%F", "--", path, seconds=STAT_LIMIT)
        if done.code != 0:
            return MountRoot(dead=next((words for words in DEAD if words in done.errors), ""))
        major, minor, kind = done.output.strip().split(":", 2)
        if kind != "block special file":
            return MountRoot()
        return MountRoot(device=DeviceNumber(int(major, 16), int(minor, 16)))

    def usage(self, path: str, deadline: Deadline) -> VolumeStats:
        """Return the figures of the file system mounted there, as statvfs gives them.

        TookTooLong when it does not answer.
        """
        limit = min(STAT_LIMIT, deadline.remaining())
        done = self._commands.run("stat", "-f", "-c", "%S %b %f %a %c %d", "--", path, seconds=limit)
        if done.code != 0:
            raise Unavailable(f"the file system at {path} does not answer: {done.complaint}")
        block, blocks, free, available, inodes, inodes_free = map(int, done.output.split())
        return VolumeStats(
            bytes=Usage(blocks * block, (blocks - free) * block, available * block),
            inodes=Usage(inodes, inodes - inodes_free, inodes_free),
        )

    def kind(self, path: str) -> PathKind:
        """Look at a path on which nothing is mounted; a symbolic link is `OTHER`."""
        try:
            mode = os.lstat(path).st_mode
        except FileNotFoundError:
            return PathKind.MISSING
        except OSError as error:
            raise Unavailable(f"{path} cannot be looked at: {error}") from error
        if stat.S_ISDIR(mode):
            return PathKind.DIRECTORY
        return PathKind.FILE if stat.S_ISREG(mode) else PathKind.OTHER

    def make_directory(self, path: str) -> None:
        """Make a directory to mount on; NotFound when its parent is missing."""
        try:
            os.mkdir(path, 0o750)
        except FileExistsError:
            self._expect(path, PathKind.DIRECTORY)
        except OSError as error:
            raise _cannot_make(path, error) from error

    def make_file(self, path: str) -> None:
        """Make an empty file to bind a device node on; NotFound when its parent is missing."""
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o660))
        except FileExistsError:
            self._expect(path, PathKind.FILE)
        except OSError as error:
            raise _cannot_make(path, error) from error

    def remove(self, path: str) -> None:
        """Remove what was mounted on: an empty directory or an empty file. InUse when there is more in it.

        Never recursive: after an unmount that did not happen that would delete the volume's data.
        """
        try:
            match self.kind(path):
                case PathKind.MISSING:
                    return
                case PathKind.DIRECTORY:
                    os.rmdir(path)
                case PathKind.FILE if os.lstat(path).st_size == 0:
                    os.unlink(path)
                case _:
                    raise InUse(f"{path} is no empty file or directory of ours; it is left alone")
        except OSError as error:
            raise InUse(f"{path} cannot be removed: {error}") from error

    def mount(self, source: str, path: str, fs_type: str, flags: Iterable[str], deadline: Deadline) -> None:
        """Mount a device. Writable means writable: no silent change to read-only on a protected disk."""
        options = sorted(set(flags) - {"rw"})
        access = () if "ro" in options else ("-w",)
        chosen = ("-o", ",".join(options)) if options else ()
        self._run(deadline, "mount", *access, "-t", fs_type, *chosen, "--", source, path)
        log.info("mounted", source=source, path=path, fs_type=fs_type, options=options)

    def bind(self, source: str, target: str, deadline: Deadline) -> None:
        """Make `source` appear at `target` too, with the flags that its mount has."""
        self._run(deadline, "mount", "--bind", "--", source, target)
        log.info("bound", source=source, path=target)

    def remount(self, target: str, flags: Iterable[str], deadline: Deadline) -> None:
        """Give a bind mount these flags and no others (old kernels ignore `ro` in the bind itself)."""
        options = ",".join(["remount", "bind", *sorted(flags)])
        self._run(deadline, "mount", "-o", options, "--", target)

    def flush(self, path: str, deadline: Deadline) -> None:
        """Write the dirty data of the mounted file system to its disk, as far as the disk takes it.

        A disk that fails does not do better later, and must not keep its pod terminating for ever.
        """
        try:
            self._run(deadline, "sync", "-f", "--", path)
        except Unavailable as error:
            log.warning("data could not be written", path=path, error=error.message)

    def unmount(self, path: str, deadline: Deadline) -> None:
        """Take the top mount away."""
        self._run(deadline, "umount", "--", path)
        log.info("unmounted", path=path)

    def unmount_lazily(self, path: str, deadline: Deadline) -> None:
        """Take the top mount out of the tree; only for one whose device is gone."""
        self._run(deadline, "umount", "-l", "--", path)
        log.warning("unmounted lazily", path=path)

    def _expect(self, path: str, kind: PathKind) -> None:
        """Refuse to mount on anything else: mount(8) follows a link, and the mount would be lost to us."""
        if (found := self.kind(path)) is not kind:
            raise InUse(f"{path} is there already and is no {kind.value} ({found.value}); it is left alone")

    def _run(self, deadline: Deadline, *argv: str) -> None:
        deadline.check(argv[0])
        done = self._commands.run(*argv, seconds=deadline.remaining())
        if done.code != 0:
            raise Unavailable(f"`{' '.join(argv)}` failed: {done.complaint}")


def unmount_all(mounts: Mounts, path: str, gone: bool, deadline: Deadline) -> None:
    """Unmount until nothing is mounted at `path`; lazily where the device is `gone` or the mount is dead.

    Raises Unavailable while a mount is busy.
    """
    for _ in mounts_at(mounts.table(), path):
        try:
            (mounts.unmount_lazily if gone else mounts.unmount)(path, deadline)
        except Unavailable:
            if not mounts_at(mounts.table(), path):
                return
            if gone or not mounts.root_of(path).dead:
                raise
            mounts.unmount_lazily(path, deadline)
    if left := mounts_at(mounts.table(), path):
        raise Unavailable(
            f"{path} is still mounted ({left[-1].fs_type}); somebody mounts there at this moment"
        )


def resolve(path: str) -> str:
    """Return the path as mountinfo writes it: links in its parents followed, the last part left as it is."""
    parent, name = os.path.split(os.path.normpath(path))
    return os.path.join(os.path.realpath(parent), name)


def _cannot_make(path: str, error: OSError) -> NotFound | Unavailable:
    if isinstance(error, FileNotFoundError):
        return NotFound(f"the parent directory of {path} does not exist")
    return Unavailable(f"{path} cannot be made: {error}")
