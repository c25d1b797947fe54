"""How to read the machines, instances and pods of a host. Pure.

The trap: `hotpluggable` sits on the volume's source, not on the disk; and an attachment pod names volumes
that are no claims (its own empty directory).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kube.objects import dig, is_terminating, items, labels_of, mapping, name_of, strings, text, uid_of
from sim.host import words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kube.objects import Object


@dataclass(frozen=True, slots=True)
class AttachmentPod:
    """One hp-volume pod of a machine, as far as the hot-plug logic looks at it."""

    name: str
    uid: str
    volumes: frozenset[str]
    """Names of the hot-plugged volumes that it mounts."""
    running: bool = False
    ready: bool = False
    terminating: bool = False

    @property
    def pending(self) -> bool:
        """Whether it has not started yet."""
        return not self.running


def attachment_pod(pod: Object) -> AttachmentPod:
    """Read one hp-volume pod."""
    return AttachmentPod(
        name=name_of(pod),
        uid=uid_of(pod),
        volumes=frozenset(text(v, "name") for v in items(pod, "spec", "volumes") if claim_of(v)),
        running=text(pod, "status", "phase") == words.RUNNING,
        ready=is_ready(pod),
        terminating=is_terminating(pod),
    )


def is_ready(pod: Object) -> bool:
    """Tell whether every container of the pod is ready."""
    states = items(pod, "status", "containerStatuses")
    return bool(states) and all(state.get("ready") is True for state in states)


def has_ended(pod: Object) -> bool:
    """Tell whether the pod's containers have ended for good, so that it holds no volume."""
    return text(pod, "status", "phase") in words.FINAL


def is_scheduled(pod: Object) -> bool:
    """Tell whether a node has taken the pod; only then its volumes are attached."""
    conditions = items(pod, "status", "conditions")
    return any(text(c, "type") == "PodScheduled" and text(c, "status") == "True" for c in conditions)


def claim_of(volume: Object) -> str:
    """Return the claim that backs a volume of a pod, machine or instance, or ""."""
    return text(volume, "persistentVolumeClaim", "claimName") or text(volume, "dataVolume", "name")


def claims_of(pod: Object) -> frozenset[str]:
    """Return the claims that a pod mounts."""
    return frozenset(claim for volume in items(pod, "spec", "volumes") if (claim := claim_of(volume)))


def is_hotpluggable(volume: Object) -> bool:
    """Tell whether a volume of a machine or an instance may come and go while it runs."""
    return bool(
        dig(volume, "persistentVolumeClaim", "hotpluggable") or dig(volume, "dataVolume", "hotpluggable")
    )


def volumes_of(spec: Object) -> list[Object]:
    """Return the volumes of a machine's template spec or of an instance's spec."""
    return items(spec, "volumes")


def disks_of(spec: Object) -> list[Object]:
    """Return the disks of a machine's template spec or of an instance's spec."""
    return items(spec, "domain", "devices", "disks")


def hotplug_volumes(instance: Object) -> list[Object]:
    """Return the hot-pluggable volumes of an instance."""
    return [volume for volume in volumes_of(mapping(instance, "spec")) if is_hotpluggable(volume)]


def template_of(machine: Object) -> Object:
    """Return the spec that a machine's instances are made from."""
    return mapping(machine, "spec", "template", "spec")


def phase_of(instance: Object | None) -> str:
    """Return the instance's phase; "" where there is none."""
    return text(instance, "status", "phase")


def is_migrating(instance: Object) -> bool:
    """Tell whether a live migration of the instance is under way; the state is kept after its end."""
    state = mapping(instance, "status", "migrationState")
    return bool(text(state, "startTimestamp")) and not text(state, "endTimestamp")


def run_strategy(machine: Object) -> str:
    """Return spec.runStrategy, or what the older spec.running stands for."""
    running = dig(machine, "spec", "running")
    if isinstance(running, bool):
        return "Always" if running else "Halted"
    return text(machine, "spec", "runStrategy") or "Halted"


def owned_by(obj: Object, uid: str) -> bool:
    """Tell whether the object's controller is the one of this UID."""
    return owner_uid(obj) == uid


def owner_uid(obj: Object) -> str:
    """Return the UID of the object's controller, or ""."""
    owners = items(obj, "metadata", "ownerReferences")
    return next((text(owner, "uid") for owner in owners if owner.get("controller") is True), "")


def owner_reference(owner: Object) -> Object:
    """Return the reference that makes `owner` the controller of an object."""
    return {
        "apiVersion": text(owner, "apiVersion"),
        "kind": text(owner, "kind"),
        "name": name_of(owner),
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def machine_name(pod: Object) -> str:
    """Return the machine that a launcher pod runs, or ""."""
    return labels_of(pod).get(words.MACHINE_NAME, "")


def with_condition(conditions: Iterable[Object], condition: Object) -> list[Object]:
    """Return the conditions with this one set; its place is kept when it was there."""
    kept = list(conditions)
    for position, each in enumerate(kept):
        if text(each, "type") == condition["type"]:
            kept[position] = condition
            return kept
    return [*kept, condition]


def without_condition(conditions: Iterable[Object], kind: str) -> list[Object]:
    """Return the conditions without the one of this type."""
    return [each for each in conditions if text(each, "type") != kind]


def has_access_mode(claim: Object, mode: str) -> bool:
    """Tell whether the claim asks for the access mode."""
    return mode in strings(claim, "spec", "accessModes")
