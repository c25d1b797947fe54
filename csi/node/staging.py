"""Stage and unstage: from a disk to a mounted file system, and back.

Level-based: observe, plan, take one step, and observe again until nothing is left to do. So a call that was
cut off between any two steps, or by a reboot, is simply continued by the next one.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, assert_never

import structlog

from csi.errors import Unavailable
from csi.model import disk_identity
from csi.node.blank_plan import Make, Permission, Use, plan_content
from csi.node.devices import find_disk, wait_for_disk
from csi.node.filesystems import file_system
from csi.node.machine import death_of, is_gone, raw_targets
from csi.node.mount_flags import is_readonly, staging_flags
from csi.node.mountinfo import mounts_at
from csi.node.mounts import resolve, unmount_all
from csi.node.publish_context import read_context
from csi.node.stage_plan import ClearDead, Join, Prepare, Seen, Staged, Wish, plan_stage, refuse_published

if TYPE_CHECKING:
    from collections.abc import Callable

    from csi.deadline import Deadline
    from csi.model import StageRequest, VolumeId
    from csi.node.disk import Disk
    from csi.node.machine import Machine
    from csi.node.mountinfo import Mount
    from csi.node.publish_context import Expected

ROUNDS: Final = 10
"""Steps that one call may take; a sound one needs four."""

log = structlog.get_logger()


def utc_now() -> datetime:
    """Return the time, aware, in UTC."""
    return datetime.now(UTC)


class Staging:
    """The staging paths of this node. One call per volume at a time (csi.rpc's lock)."""

    def __init__(self, machine: Machine, now: Callable[[], datetime] = utc_now) -> None:
        self._machine = machine
        self._now = now

    def stage(self, request: StageRequest, deadline: Deadline) -> None:
        """Find the disk, make its file system after proof of blank, and mount it at the staging path.

        A raw block volume is only found. Errors: see the plans.
        """
        wish = _wish(request)
        expected = read_context(request.volume, request.publish_context)
        disk = wait_for_disk(self._machine.devices, expected.identity, expected.size, deadline)
        for _ in range(ROUNDS):
            match plan_stage(wish, self._observe(wish.path, disk)):
                case Staged():
                    return
                case ClearDead(death):
                    log.warning("dead mount", path=wish.path, why=death.why)
                    unmount_all(self._machine.mounts, wish.path, death.gone, deadline)
                case Join():
                    self._mount(wish, disk, deadline)
                case Prepare():
                    self._prepare(wish, disk, expected, deadline)
                case plan:
                    assert_never(plan)
        raise Unavailable(f"{wish.path} does not come to rest; somebody else mounts there")

    def unstage(self, volume: VolumeId, path: str, deadline: Deadline) -> None:
        """Flush and unmount the staging path, and prove that nothing holds the disk any more.

        The directory stays: it is the caller's. Done when nothing is mounted there and the disk is free.
        """
        path = resolve(path)
        mounts = self._machine.mounts
        disk = find_disk(self._machine.devices, disk_identity(volume))
        here = mounts_at(mounts.table(), path)
        refuse_published(path, self._targets(path, here, disk))
        if here:
            gone = is_gone(here[-1], self._machine.devices.disks())
            if not gone:
                mounts.flush(path, deadline)
            unmount_all(mounts, path, gone, deadline)
        if disk is not None:
            with self._machine.devices.opened(disk, os.O_RDONLY | os.O_EXCL):
                log.info("unstaged", volume=volume, disk=disk.name)

    def _observe(self, path: str, disk: Disk) -> Seen:
        table = self._machine.mounts.table()
        here = mounts_at(table, path)
        return Seen(
            disk=disk,
            here=here,
            elsewhere=tuple(mount for mount in table if mount.number == disk.number and mount.path != path),
            raw_targets=raw_targets(self._machine, table, disk),
            death=death_of(self._machine, here),
        )

    def _targets(self, path: str, here: tuple[Mount, ...], disk: Disk | None) -> tuple[str, ...]:
        """Return where else the volume is mounted: by what is staged, and by the disk if it is there."""
        table = self._machine.mounts.table()
        numbers = {
            mount.number for mount in here if mount.root == "/" and (mount.lost or not mount.number.anonymous)
        }
        raw: tuple[str, ...] = ()
        if disk is not None:
            numbers.add(disk.number)
            raw = raw_targets(self._machine, table, disk)
        return tuple(mount.path for mount in table if mount.number in numbers and mount.path != path) + raw

    def _prepare(self, wish: Wish, disk: Disk, expected: Expected, deadline: Deadline) -> None:
        """Make the file system, or mount the one that is there."""
        machine, kind = self._machine, file_system(wish.fs_type)
        seen = machine.contents.look(disk, expected.identity, kind)
        match plan_content(seen, self._permission(wish, disk, expected)):
            case Make(proof):
                log.info("formatting", disk=disk.name, identity=expected.identity, proof=proof)
                machine.contents.mark(disk, expected.identity, kind, seen)
                with machine.devices.opened(disk):
                    machine.filesystems.make(machine.devices.path(disk), kind)
                machine.contents.unmark(disk, expected.identity, kind)
            case Use():
                if not wish.readonly:
                    with machine.devices.opened(disk):
                        machine.filesystems.check(machine.devices.path(disk), kind)
                self._mount(wish, disk, deadline)
            case plan:
                assert_never(plan)

    def _permission(self, wish: Wish, disk: Disk, expected: Expected) -> Permission:
        fresh_until = expected.fresh_until
        return Permission(
            wanted=wish.fs_type,
            may_format=expected.may_format,
            fresh=fresh_until is not None and self._now() < fresh_until,
            readonly=wish.readonly or disk.readonly,
        )

    def _mount(self, wish: Wish, disk: Disk, deadline: Deadline) -> None:
        machine = self._machine
        flags = wish.flags | file_system(wish.fs_type).mount_flags
        machine.mounts.make_directory(wish.path)
        with machine.devices.opened(disk):
            machine.mounts.mount(machine.devices.path(disk), wish.path, wish.fs_type, flags, deadline)


def _wish(request: StageRequest) -> Wish:
    capability = request.capability
    return Wish(
        path=resolve(request.path),
        fs_type="" if capability.block else file_system(capability.fs_type).name,
        readonly=is_readonly(capability),
        flags=staging_flags(capability),
    )
