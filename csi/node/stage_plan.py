"""What staging and unstaging mean for what is mounted now. Pure.

The trap: "something is mounted there" is not "it is staged". What counts is the device, by its number, the
file system, and whether it can be written; and a mount of an unplugged device is not a mount any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from csi.errors import AlreadyExists, InUse

if TYPE_CHECKING:
    from csi.node.disk import Disk
    from csi.node.mountinfo import Mount


@dataclass(frozen=True, slots=True)
class Wish:
    """What the staging path shall be. `fs_type` "" means a raw block volume: nothing is mounted."""

    path: str
    fs_type: str
    readonly: bool = False
    flags: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Death:
    """Why a mount is of no use any more."""

    why: str
    gone: bool = False
    """Its device is not there: nothing can be written back, so nothing is lost by a lazy unmount."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The disk and everything mounted that matters for it."""

    disk: Disk
    here: tuple[Mount, ...] = ()
    """What is mounted at the path, the top one last."""
    elsewhere: tuple[Mount, ...] = ()
    """Mounts of the disk's file system at other paths."""
    raw_targets: tuple[str, ...] = ()
    """Paths to which the disk's node is bound."""
    death: Death | None = None
    """Of the top mount at the path."""


@dataclass(frozen=True, slots=True)
class Staged:
    """Nothing is left to do."""


@dataclass(frozen=True, slots=True)
class ClearDead:
    """Unmount what is dead at the path, and look again."""

    death: Death


@dataclass(frozen=True, slots=True)
class Join:
    """The file system is mounted elsewhere: mount it here too; it cannot be checked or formatted now."""


@dataclass(frozen=True, slots=True)
class Prepare:
    """Nobody uses the disk: look at what is on it."""


StagePlan: TypeAlias = Staged | ClearDead | Join | Prepare


def plan_stage(wish: Wish, seen: Seen) -> StagePlan:
    """Decide the next step; raises AlreadyExists and InUse (CSI spec, NodeStageVolume)."""
    if seen.disk.holders:
        raise InUse(f"disk {seen.disk} is held by {', '.join(seen.disk.holders)}: multipath or device-mapper")
    if seen.death:
        return ClearDead(seen.death)
    if wish.fs_type:
        return _plan_file_system(wish, seen)
    if seen.here:
        raise AlreadyExists(f"{wish.path} is staged as {seen.here[-1].fs_type}, not as a block volume")
    refuse_mounted(seen.disk, seen.elsewhere)
    return Staged()


def refuse_mounted(disk: Disk, elsewhere: tuple[Mount, ...]) -> None:
    """Raise InUse when the file system on a raw block volume is mounted."""
    if elsewhere:
        raise InUse(f"disk {disk} is mounted at {elsewhere[0].path}; it cannot be a block volume too")


def _plan_file_system(wish: Wish, seen: Seen) -> StagePlan:
    if seen.here:
        return _plan_mounted(wish, seen.here[-1], seen.disk)
    if seen.raw_targets:
        raise InUse(f"disk {seen.disk} is in use as a raw block device at {', '.join(seen.raw_targets)}")
    if not seen.elsewhere:
        return Prepare()
    other = seen.elsewhere[0]
    if other.fs_type != wish.fs_type:
        raise InUse(f"disk {seen.disk} is mounted as {other.fs_type} at {other.path}, not as {wish.fs_type}")
    return Join()


def _plan_mounted(wish: Wish, top: Mount, disk: Disk) -> Staged:
    if (top.number, top.root) != (disk.number, "/"):
        raise AlreadyExists(f"another file system ({top.source}, {top.number}) is mounted at {wish.path}")
    if top.fs_type != wish.fs_type:
        raise AlreadyExists(f"{wish.path} is staged as {top.fs_type}, and {wish.fs_type} is asked for")
    if top.readonly != wish.readonly:
        raise AlreadyExists(f"{wish.path} is staged {_access(top.readonly)}, not {_access(wish.readonly)}")
    return Staged()


def refuse_published(path: str, targets: tuple[str, ...]) -> None:
    """Raise InUse when a volume that is to be unstaged is still published."""
    if targets:
        raise InUse(f"{path} is not unstaged while the volume is still published at {', '.join(targets)}")


def _access(readonly: bool) -> str:
    return "read-only" if readonly else "writable"
