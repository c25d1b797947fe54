"""What publishing means for what is mounted at the staging path and at the targets now. Pure.

The trap: a call may have been cut off between the bind and its remount to read-only. A writable bind of the
right volume where a read-only one is asked for is therefore finished, never refused and never left writable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from csi.errors import AlreadyExists, InUse
from csi.model import AccessMode
from csi.node.mount_flags import PER_MOUNT
from csi.node.stage_plan import ClearDead

if TYPE_CHECKING:
    from csi.node.disk import DeviceNumber, Disk
    from csi.node.mountinfo import Mount
    from csi.node.stage_plan import Death


@dataclass(frozen=True, slots=True)
class Target:
    """What the target shall be."""

    path: str
    flags: frozenset[str]
    """The per-mount flags that it must have at least, `ro` among them for a read-only one."""
    mode: AccessMode

    @property
    def readonly(self) -> bool:
        """Whether nothing may be written through the target."""
        return "ro" in self.flags


@dataclass(frozen=True, slots=True)
class Published:
    """Nothing is left to do."""


@dataclass(frozen=True, slots=True)
class Restage:
    """The staging mount is not there (a reboot), or dead: stage first."""


@dataclass(frozen=True, slots=True)
class Bind:
    """Make the target and bind the volume to it."""


@dataclass(frozen=True, slots=True)
class Restrict:
    """Give the bind its flags."""

    flags: frozenset[str]


@dataclass(frozen=True, slots=True)
class SeenMounts:
    """What matters for publishing a file system."""

    disk: Disk | None
    """By one look; None when it is not there."""
    here: tuple[Mount, ...] = ()
    """At the target, the top one last."""
    staged: tuple[Mount, ...] = ()
    """At the staging path, the top one last."""
    staging_path_exists: bool = True
    others: tuple[str, ...] = ()
    """Further paths where the disk's file system is mounted."""
    death: Death | None = None
    """Of the top mount at the target."""
    staging_death: Death | None = None


@dataclass(frozen=True, slots=True)
class SeenNode:
    """What matters for publishing a raw block device."""

    disk: Disk
    here: tuple[Mount, ...] = ()
    device_here: DeviceNumber | None = None
    """The device whose node is bound to the target."""
    others: tuple[str, ...] = ()
    death: Death | None = None


PublishPlan: TypeAlias = Published | ClearDead | Restage | Bind | Restrict
NodePlan: TypeAlias = Published | ClearDead | Bind | Restrict


def plan_publish(target: Target, staging_path: str, seen: SeenMounts) -> PublishPlan:
    """Decide the next step for a file system (CSI spec, NodePublishVolume)."""
    if seen.death:
        return ClearDead(seen.death)
    if seen.here:
        return _plan_bound(target, seen.here[-1], seen.disk)
    if not seen.staging_path_exists:
        raise InUse(f"the volume is not staged: {staging_path} does not exist")
    if not seen.staged or seen.staging_death:
        return Restage()
    staged = seen.staged[-1]
    if seen.disk is None or (staged.number, staged.root) != (seen.disk.number, "/"):
        raise InUse(f"what is mounted at {staging_path} ({staged.source}, {staged.number}) is not the volume")
    if staged.readonly and not target.readonly:
        raise InUse(f"the volume is staged read-only at {staging_path} and cannot be published writable")
    refuse_second(target, seen.others)
    return Bind()


def plan_publish_node(target: Target, seen: SeenNode) -> NodePlan:
    """Decide the next step for a raw block device."""
    if seen.death:
        return ClearDead(seen.death)
    if not seen.here:
        refuse_second(target, seen.others)
        return Bind()
    if seen.device_here != seen.disk.number:
        raise AlreadyExists(f"{target.path} is something else than the disk {seen.disk}")
    return _plan_flags(target, seen.here[-1])


def refuse_second(target: Target, others: tuple[str, ...]) -> None:
    """Raise InUse for a second target of a volume that one pod may use (CSI spec: FAILED_PRECONDITION)."""
    if others and target.mode is AccessMode.SINGLE_NODE_SINGLE_WRITER:
        raise InUse(f"the volume is for a single writer and published at {', '.join(others)} already")


def _plan_bound(target: Target, top: Mount, disk: Disk | None) -> Published | Restrict:
    if disk is None or (top.number, top.root) != (disk.number, "/"):
        raise AlreadyExists(f"another file system ({top.source}, {top.number}) is mounted at {target.path}")
    return _plan_flags(target, top)


def _plan_flags(target: Target, top: Mount) -> Published | Restrict:
    if top.readonly and not target.readonly:
        raise AlreadyExists(f"{target.path} is published read-only, not writable")
    if target.flags <= top.options:
        return Published()
    return Restrict((top.options & PER_MOUNT) | target.flags)
