"""What a machine's status says, and whether it shall have an instance. Pure.

Source: KubeVirt 1.8, pkg/virt-controller/watch/vm/vm.go; the order of the printable states is host-api
chapter 8's.
"""

from __future__ import annotations

import uuid
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from kube.objects import (
    annotations_of,
    dig,
    is_terminating,
    items,
    labels_of,
    mapping,
    name_of,
    namespace_of,
    text,
)
from sim.host import shapes, words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kube.objects import Object

FIRMWARE_IDS: Final = uuid.UUID("6a1a24a1-4061-4607-8bf4-a3963d0c5895")
"""Name space of the firmware UUIDs that KubeVirt derives from machine names."""


class Life(Enum):
    """What to do about a machine's instance."""

    LEAVE = auto()
    START = auto()
    STOP = auto()
    """Delete the instance; a new one may follow."""


def plan_life(machine: Object, instance: Object | None) -> Life:
    """Decide whether the machine's instance is to be made or ended."""
    strategy = shapes.run_strategy(machine)
    wanted = strategy in {"Always", "RerunOnFailure"} and not is_terminating(machine)
    if instance is None:
        return Life.START if wanted else Life.LEAVE
    if is_terminating(instance):
        return Life.LEAVE
    phase = shapes.phase_of(instance)
    rerun = phase in words.FINAL and (strategy == "Always" or phase == words.FAILED)
    return Life.STOP if rerun or not wanted else Life.LEAVE


def instance_of(machine: Object) -> Object:
    """Return the instance that the machine's template describes."""
    template = mapping(machine, "spec", "template")
    spec = dict(mapping(template, "spec"))
    domain = dict(mapping(spec, "domain"))
    domain["firmware"] = {"uuid": firmware_uuid(machine), **mapping(domain, "firmware")}
    name = name_of(machine)
    return {
        "apiVersion": text(machine, "apiVersion"),
        "kind": "VirtualMachineInstance",
        "metadata": {
            "name": name,
            "namespace": namespace_of(machine),
            "labels": {**labels_of(template), words.MACHINE_NAME: name},
            "annotations": annotations_of(template),
            "finalizers": [words.INSTANCE_FINALIZER],
            "ownerReferences": [shapes.owner_reference(machine)],
        },
        "spec": {**spec, "domain": domain},
        "status": {"phase": "Pending"},
    }


def firmware_uuid(machine: Object) -> str:
    """Return the system UUID that the machine's guest sees: stable over restarts."""
    return text(shapes.template_of(machine), "domain", "firmware", "uuid") or str(
        uuid.uuid5(FIRMWARE_IDS, name_of(machine))
    )


def machine_status(machine: Object, instance: Object | None) -> Object:
    """Return the machine's status; fields that others write are kept."""
    ready = _condition(instance, "Ready") == "True"
    conditions = items(machine, "status", "conditions")
    shown: Object = {"type": "Ready", "status": "True" if ready else "False"}
    if not ready:
        shown |= {"reason": "VMINotExists", "message": "VMI does not exist"} if instance is None else {}
    return {
        **mapping(machine, "status"),
        "created": instance is not None,
        "ready": ready,
        "printableStatus": printable_status(machine, instance),
        "runStrategy": shapes.run_strategy(machine),
        "observedGeneration": dig(machine, "metadata", "generation"),
        "conditions": shapes.with_condition(conditions, shown),
    }


def printable_status(machine: Object, instance: Object | None) -> str:
    """Return what `kubectl get vm` shows; the first match of KubeVirt's order wins."""
    if is_terminating(machine):
        return "Terminating"
    if instance is None:
        return "Starting" if plan_life(machine, None) is Life.START else "Stopped"
    if is_terminating(instance):
        return "Stopping"
    if shapes.is_migrating(instance):
        return "Migrating"
    return _running_status(instance)


def _running_status(instance: Object) -> str:
    phase = shapes.phase_of(instance)
    if phase == words.RUNNING:
        return "Paused" if _condition(instance, "Paused") == "True" else "Running"
    if phase in words.FINAL:
        return "Stopped"
    missing = any(
        text(each, "type") == "Synchronized" and text(each, "reason") == words.PVC_NOT_FOUND
        for each in items(instance, "status", "conditions")
    )
    return "ErrorPvcNotFound" if missing else "Starting"


def _condition(instance: Object | None, kind: str) -> str:
    found = (each for each in items(instance, "status", "conditions") if text(each, "type") == kind)
    return text(next(found, None), "status")


def running_conditions(instance: Object, claims: Mapping[str, Object]) -> list[Object]:
    """Return the conditions of an instance that runs, LiveMigratable by the access modes of its claims."""
    alone = [
        claim
        for volume in shapes.volumes_of(mapping(instance, "spec"))
        if (claim := shapes.claim_of(volume)) in claims
        and not shapes.has_access_mode(claims[claim], "ReadWriteMany")
    ]
    migratable: Object = {"type": "LiveMigratable", "status": "True"}
    if alone:
        why = "live migration requires that all PVCs must be shared (using ReadWriteMany access mode)"
        migratable = {
            "type": "LiveMigratable",
            "status": "False",
            "reason": "DisksNotLiveMigratable",
            "message": f"cannot migrate VMI: PVC {alone[0]} is not shared, {why}",
        }
    conditions = items(instance, "status", "conditions")
    for each in (
        {"type": "Ready", "status": "True"},
        {"type": "AgentConnected", "status": "True"},
        migratable,
    ):
        conditions = shapes.with_condition(conditions, each)
    return conditions
