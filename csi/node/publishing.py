"""Publish and unpublish: the volume at a pod's path. Level-based, as staging is."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

import structlog

from csi.errors import InUse, Unavailable
from csi.model import StageRequest
from csi.node.devices import find_disk, wait_for_disk
from csi.node.machine import death_of, is_gone, raw_targets
from csi.node.mount_flags import bind_flags
from csi.node.mountinfo import mounts_at
from csi.node.mounts import PathKind, resolve, unmount_all
from csi.node.publish_context import read_context
from csi.node.publish_plan import (
    Bind,
    Published,
    Restage,
    Restrict,
    SeenMounts,
    SeenNode,
    Target,
    plan_publish,
    plan_publish_node,
)
from csi.node.stage_plan import ClearDead, Death, refuse_mounted
from csi.node.staging import ROUNDS

if TYPE_CHECKING:
    from csi.deadline import Deadline
    from csi.model import NodePublishRequest, VolumeId
    from csi.node.disk import Disk
    from csi.node.machine import Machine
    from csi.node.mountinfo import Mount
    from csi.node.staging import Staging

log = structlog.get_logger()


class Publishing:
    """The targets of this node. One call per volume at a time (csi.rpc's lock)."""

    def __init__(self, machine: Machine, staging: Staging) -> None:
        self._machine = machine
        self._staging = staging

    def publish(self, request: NodePublishRequest, deadline: Deadline) -> None:
        """Make the volume appear at the target. Errors: see the plan.

        A read-only file system really is. A read-only bind of a device node does not stop writes to the
        device: there the container runtime does, by the rights that kubelet gives it (`r` without `w`).
        """
        if not request.staging_path:
            raise InUse("NodePublishVolume needs the staging_target_path of a volume that is staged")
        target = _target(request)
        if request.capability.block:
            self._publish_node(request, target, deadline)
        else:
            self._publish_mount(request, target, resolve(request.staging_path), deadline)

    def unpublish(self, volume: VolumeId, target: str, deadline: Deadline) -> None:
        """Unmount the target and remove it; a missing one is done. InUse when there is more than a mount."""
        path = resolve(target)
        here = mounts_at(self._machine.mounts.table(), path)
        if here:
            gone = is_gone(here[-1], self._machine.devices.disks())
            unmount_all(self._machine.mounts, path, gone, deadline)
        self._machine.mounts.remove(path)
        log.info("unpublished", volume=volume, path=path)

    def _publish_mount(
        self, request: NodePublishRequest, target: Target, staging_path: str, deadline: Deadline
    ) -> None:
        expected = read_context(request.volume, request.publish_context)
        mounts = self._machine.mounts
        for _ in range(ROUNDS):
            match plan_publish(target, staging_path, self._observe(target, staging_path, expected.identity)):
                case Published():
                    return
                case ClearDead(death):
                    self._clear(target, death, deadline)
                case Restage():
                    self._staging.stage(_stage_request(request), deadline)
                case Bind():
                    mounts.make_directory(target.path)
                    mounts.bind(staging_path, target.path, deadline)
                case Restrict(flags):
                    mounts.remount(target.path, flags, deadline)
                case plan:
                    assert_never(plan)
        raise _restless(target)

    def _publish_node(self, request: NodePublishRequest, target: Target, deadline: Deadline) -> None:
        expected = read_context(request.volume, request.publish_context)
        machine = self._machine
        disk = wait_for_disk(machine.devices, expected.identity, expected.size, deadline)
        for _ in range(ROUNDS):
            match plan_publish_node(target, self._observe_node(target, disk)):
                case Published():
                    return
                case ClearDead(death):
                    self._clear(target, death, deadline)
                case Bind():
                    machine.mounts.make_file(target.path)
                    with machine.devices.opened(disk):
                        machine.mounts.bind(machine.devices.path(disk), target.path, deadline)
                case Restrict(flags):
                    machine.mounts.remount(target.path, flags, deadline)
                case plan:
                    assert_never(plan)
        raise _restless(target)

    def _observe(self, target: Target, staging_path: str, identity: str) -> SeenMounts:
        machine = self._machine
        table = machine.mounts.table()
        disk = find_disk(machine.devices, identity)
        here, staged = mounts_at(table, target.path), mounts_at(table, staging_path)
        return SeenMounts(
            disk=disk,
            here=here,
            staged=staged,
            staging_path_exists=bool(staged) or machine.mounts.kind(staging_path) is not PathKind.MISSING,
            others=_others(table, disk, {target.path, staging_path}),
            death=death_of(machine, here),
            staging_death=death_of(machine, staged),
        )

    def _observe_node(self, target: Target, disk: Disk) -> SeenNode:
        machine = self._machine
        table = machine.mounts.table()
        refuse_mounted(disk, tuple(mount for mount in table if mount.number == disk.number))
        here = mounts_at(table, target.path)
        return SeenNode(
            disk=disk,
            here=here,
            device_here=machine.mounts.root_of(target.path).device if here else None,
            others=tuple(path for path in raw_targets(machine, table, disk) if path != target.path),
            death=Death("its disk was unplugged", gone=True) if here and here[-1].deleted else None,
        )

    def _clear(self, target: Target, death: Death, deadline: Deadline) -> None:
        log.warning("dead mount", path=target.path, why=death.why)
        unmount_all(self._machine.mounts, target.path, death.gone, deadline)


def _target(request: NodePublishRequest) -> Target:
    return Target(
        path=resolve(request.target_path),
        flags=bind_flags(request.capability, request.readonly),
        mode=request.capability.mode,
    )


def _others(table: tuple[Mount, ...], disk: Disk | None, known: set[str]) -> tuple[str, ...]:
    if disk is None:
        return ()
    return tuple(mount.path for mount in table if mount.number == disk.number and mount.path not in known)


def _stage_request(request: NodePublishRequest) -> StageRequest:
    return StageRequest(
        volume=request.volume,
        path=request.staging_path,
        capability=request.capability,
        publish_context=request.publish_context,
        volume_context=request.volume_context,
    )


def _restless(target: Target) -> Unavailable:
    return Unavailable(f"{target.path} does not come to rest; somebody else mounts there")
