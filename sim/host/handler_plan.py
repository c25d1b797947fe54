"""What virt-handler does about hot-plugged volumes on its node, and what it writes about them. Pure.

One pass does one kind of step, in the order in which a guest would notice: a removed disk leaves the machine
before its volume is unmounted from the launcher pod, a new volume is mounted there before its disk is
plugged.

The trap: a volume that left the instance's spec stays `Ready` until it is unmounted; only its `target` goes
first.

Source: KubeVirt 1.8, pkg/virt-handler/vm.go, updateVolumeStatusesFromDomain and updateHotplugVolumeStatus.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kube.objects import items, text
from sim.host import shapes, words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kube.objects import Object


@dataclass(frozen=True, slots=True)
class Domain:
    """What runs on the node for one instance."""

    mounted: frozenset[str] = frozenset()
    """Hot-plugged volumes that are mounted into the launcher pod."""
    plugged: frozenset[str] = frozenset()
    """Hot-plugged disks that are in the machine."""


@dataclass(frozen=True, slots=True)
class Steps:
    """What to do now; at most one of the four is not empty."""

    unplug: frozenset[str] = frozenset()
    unmount: frozenset[str] = frozenset()
    mount: frozenset[str] = frozenset()
    plug: frozenset[str] = frozenset()


def plan_steps(instance: Object, domain: Domain) -> Steps:
    """Decide the next step for an instance that does not migrate.

    Disks are plugged only into a Running instance; a Scheduled one has its volumes mounted before it boots.
    """
    wanted = {text(volume, "name") for volume in shapes.hotplug_volumes(instance)}
    if gone := domain.plugged - wanted:
        return Steps(unplug=gone)
    if gone := domain.mounted - wanted:
        return Steps(unmount=gone)
    with_pod = {
        text(entry, "name")
        for entry in items(instance, "status", "volumeStatus")
        if text(entry, "hotplugVolume", "attachPodUID")
    }
    if new := (with_pod & wanted) - domain.mounted:
        return Steps(mount=frozenset(new))
    if shapes.phase_of(instance) != words.RUNNING:
        return Steps()
    return Steps(plug=frozenset((domain.mounted & wanted) - domain.plugged))


def ready_to_boot(instance: Object, domain: Domain) -> bool:
    """Tell whether every hot-pluggable volume is mounted: the domain does not start before."""
    return {text(volume, "name") for volume in shapes.hotplug_volumes(instance)} <= domain.mounted


def volume_status(instance: Object, domain: Domain, targets: Mapping[str, str]) -> list[Object]:
    """Return status.volumeStatus as virt-handler writes it. `targets` are the letters of all disks by
    name."""
    wanted = {text(volume, "name") for volume in shapes.volumes_of(instance.get("spec", {}))}
    entries: list[Object] = []
    for entry in items(instance, "status", "volumeStatus"):
        name = text(entry, "name")
        shown = {**entry, "target": targets.get(name, "")}
        hotplugged = isinstance(entry.get("hotplugVolume"), dict)
        entries.append(_hotplugged(shown, name in wanted, name in domain.mounted) if hotplugged else shown)
    return entries


def _hotplugged(entry: Object, wanted: bool, mounted: bool) -> Object:
    name, phase = text(entry, "name"), text(entry, "phase")
    if entry["target"]:
        message = f"Successfully attach hotplugged volume {name} to VM"
        return {**entry, "phase": words.READY, "reason": words.VOLUME_READY, "message": message}
    if mounted and wanted and phase in {words.BOUND, words.PENDING, words.ATTACHED_TO_NODE}:
        message = f"Volume {name} has been mounted in virt-launcher pod"
        return {**entry, "phase": words.MOUNTED_TO_POD, "reason": words.MOUNTED, "message": message}
    unmountable = {words.READY, words.MOUNTED_TO_POD, words.ATTACHED_TO_NODE}
    if not mounted and not wanted and phase in unmountable:
        message = f"Volume {name} has been unmounted from virt-launcher pod"
        return {**entry, "phase": words.UNMOUNTED_FROM_POD, "reason": words.UNMOUNTED, "message": message}
    return entry
