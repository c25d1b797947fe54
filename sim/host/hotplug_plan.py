"""What virt-controller does about hot-plugged volumes. Pure.

Three decisions, each from what is seen now: the instance's spec from the machine's template, the attachment
pods from the instance's spec, and the instance's volumeStatus from spec, pods and claims.

The trap, and the reason why a driver must not patch at will: there is ONE attachment pod for all volumes of
an instance. A changed set of volumes throws away a pod that is not Running yet, and the next one starts
from the beginning.

Sources: KubeVirt 1.8, pkg/storage/hotplug/hotplug.go and
pkg/virt-controller/watch/vmi/{volume-hotplug,storage}.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from kube.objects import is_terminating, items, mapping, name_of, text
from sim.host import shapes, words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kube.objects import Object
    from sim.host.shapes import AttachmentPod


# --- the instance's spec, from the machine's template ---------------------------------------------


def plan_spec(machine: Object, instance: Object) -> list[Object]:
    """Return the JSON patch of the instance that its machine's template asks for; empty when there is none.

    Only a Running instance is changed. A volume whose name still stands in the instance's volumeStatus is not
    added: re-adding a volume waits until its old attachment is gone from every pod.
    """
    if shapes.phase_of(instance) != words.RUNNING or is_terminating(instance):
        return []
    if text(machine, "spec", "updateVolumesStrategy") == "Migration":
        return []
    wish, spec = shapes.template_of(machine), mapping(instance, "spec")
    volumes = _volumes(wish, instance)
    if volumes == shapes.volumes_of(spec):
        return []
    return [
        *_replace("/spec/volumes", shapes.volumes_of(spec), volumes),
        *_replace("/spec/domain/devices/disks", shapes.disks_of(spec), _disks(wish, spec, volumes)),
    ]


def _volumes(wish: Object, instance: Object) -> list[Object]:
    """Keep what shall stay, in its order, then add what is new, in the template's order."""
    wished = [volume for volume in shapes.volumes_of(wish) if shapes.is_hotpluggable(volume)]
    present = shapes.volumes_of(mapping(instance, "spec"))
    kept = [volume for volume in present if not shapes.is_hotpluggable(volume) or volume in wished]
    taken = {text(volume, "name") for volume in kept}
    taken |= {text(entry, "name") for entry in items(instance, "status", "volumeStatus")}
    return kept + [volume for volume in wished if text(volume, "name") not in taken]


def _disks(wish: Object, spec: Object, volumes: Sequence[Object]) -> list[Object]:
    names = {text(volume, "name") for volume in volumes}
    kept = [disk for disk in shapes.disks_of(spec) if text(disk, "name") in names]
    missing = names - {text(disk, "name") for disk in kept}
    return kept + [disk for disk in shapes.disks_of(wish) if text(disk, "name") in missing]


def _replace(path: str, old: Sequence[Object], new: Sequence[Object]) -> list[Object]:
    return [
        {"op": "test", "path": path, "value": list(old)},
        {"op": "replace", "path": path, "value": list(new)},
    ]


# --- the attachment pods, from the instance's spec ------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pods:
    """What to do about the attachment pods of one instance."""

    create: frozenset[str] = frozenset()
    """Volumes of the pod to create; empty for none."""
    delete: tuple[str, ...] = ()
    """Names of the pods to delete."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """The whole hot-plug of the instance stands still; `why` becomes the message of its condition."""

    why: str


PodPlan: TypeAlias = Pods | Blocked


def plan_pods(instance: Object, pods: Sequence[AttachmentPod], claims: Mapping[str, Object]) -> PodPlan:
    """Decide which attachment pods to create and delete.

    `pods` are all attachment pods of the instance's launcher, `claims` the existing claims by name. A claim
    that is Pending counts as ready: the pod is its first consumer.
    """
    wanted = {text(volume, "name"): shapes.claim_of(volume) for volume in shapes.hotplug_volumes(instance)}
    names = frozenset(wanted)
    if len(pods) == 1 and pods[0].volumes == names:
        return Pods()
    for claim in wanted.values():
        if claim not in claims:
            return Blocked(f"Error determining volume status didn't find PVC {claim}")
    current = [pod for pod in pods if pod.volumes == names]
    old = [pod for pod in pods if pod.volumes != names]
    create = bool(names) and not current and not any(pod.pending for pod in pods)
    return Pods(names if create else frozenset(), _deletable(instance, names, current, old))


def _deletable(
    instance: Object, wanted: frozenset[str], current: Sequence[AttachmentPod], old: Sequence[AttachmentPod]
) -> tuple[str, ...]:
    """Name the old pods that may go: not the one Running pod while its successor does not run yet, and none
    that still names a removed volume which is in the machine."""
    in_machine = _removed_but_in_machine(instance, wanted)
    keep_one = bool(wanted) and not any(pod.running for pod in current)
    names: list[str] = []
    for pod in old:
        if keep_one and pod.running and not pod.terminating:
            keep_one = False
        elif not pod.terminating and not pod.volumes & in_machine:
            names.append(pod.name)
    return tuple(names)


def _removed_but_in_machine(instance: Object, wanted: frozenset[str]) -> frozenset[str]:
    return frozenset(
        text(entry, "name")
        for entry in items(instance, "status", "volumeStatus")
        if text(entry, "phase") in {words.READY, words.MOUNTED_TO_POD} and text(entry, "name") not in wanted
    )


# --- the instance's volumeStatus ------------------------------------------------------------------


def volume_status(
    instance: Object, pods: Sequence[AttachmentPod], claims: Mapping[str, Object]
) -> list[Object]:
    """Return status.volumeStatus as virt-controller writes it, sorted by name.

    Entries of removed volumes stay while an attachment pod names them.
    """
    wanted = frozenset(text(volume, "name") for volume in shapes.hotplug_volumes(instance))
    active = next((pod for pod in pods if pod.volumes == wanted), None)
    before = {text(entry, "name"): entry for entry in items(instance, "status", "volumeStatus")}
    entries: list[Object] = []
    for volume in shapes.volumes_of(mapping(instance, "spec")):
        name = text(volume, "name")
        entry = {"target": "", **before.pop(name, {}), "name": name}
        if shapes.is_hotpluggable(volume):
            entry = _wanted_entry(entry, volume, active, claims)
        claim = claims.get(shapes.claim_of(volume))
        entries.append(entry if claim is None else {**entry, "persistentVolumeClaimInfo": claim_info(claim)})
    entries += [kept for entry in before.values() if (kept := _removed_entry(entry, pods)) is not None]
    return sorted(entries, key=lambda entry: text(entry, "name"))


def _wanted_entry(
    entry: Object, volume: Object, active: AttachmentPod | None, claims: Mapping[str, Object]
) -> Object:
    plugged = mapping(entry, "hotplugVolume")
    if active is None:
        if text(entry, "phase") == words.READY:
            return entry
        return {**entry, "hotplugVolume": {**plugged, "attachPodUID": ""}, **_claim_phase(volume, claims)}
    plugged = {"attachPodName": active.name, "attachPodUID": active.uid if active.ready else ""}
    entry = {**entry, "hotplugVolume": plugged}
    if text(entry, "phase") in {"", words.BOUND, words.PENDING}:
        name = text(entry, "name")
        message = f"Created hotplug attachment pod {active.name}, for volume {name}"
        entry |= _phase(words.ATTACHED_TO_NODE, words.CREATED_POD, message)
    return entry


def _claim_phase(volume: Object, claims: Mapping[str, Object]) -> Object:
    """Return the phase of a volume without an attachment pod: its claim's."""
    name = shapes.claim_of(volume)
    if name not in claims:
        return _phase(words.PENDING, words.PVC_NOT_FOUND, f"PVC {name} not found")
    phase = text(claims[name], "status", "phase")
    if phase == words.BOUND:
        return _phase(words.BOUND, words.PVC_NOT_READY, "PVC is in phase Bound")
    shown = "Lost" if phase == "Lost" else "ClaimPending"
    return _phase(words.PENDING, words.PVC_NOT_READY, f"PVC is in phase {shown}")


def _removed_entry(entry: Object, pods: Sequence[AttachmentPod]) -> Object | None:
    """Return the entry of a volume that left the spec, or None once no pod names it."""
    name = text(entry, "name")
    pod = next((pod for pod in pods if name in pod.volumes), None)
    if pod is None:
        return None
    entry = {**entry, "hotplugVolume": {"attachPodName": pod.name, "attachPodUID": pod.uid}}
    if text(entry, "phase") not in {words.READY, words.MOUNTED_TO_POD}:
        entry["phase"] = words.DETACHING
        if pod.terminating:
            message = f"Deleted hotplug attachment pod {pod.name}, for volume {name}"
            entry |= _phase(words.DETACHING, words.DELETED_POD, message)
    return entry


def _phase(phase: str, reason: str, message: str) -> Object:
    return {"phase": phase, "reason": reason, "message": message}


def claim_info(claim: Object) -> Object:
    """Return what volumeStatus shows of a claim."""
    info: Object = {
        "claimName": name_of(claim),
        "accessModes": mapping(claim, "spec").get("accessModes", []),
        "volumeMode": text(claim, "spec", "volumeMode") or "Filesystem",
        "requests": mapping(claim, "spec", "resources", "requests"),
        "filesystemOverhead": "0",
    }
    capacity = mapping(claim, "status", "capacity")
    return {**info, "capacity": capacity} if capacity else info
