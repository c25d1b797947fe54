"""What the host's webhooks of Harvester 1.9 refuse, and in which words. Pure.

The trap: one and the same "still in use" is a 409 Conflict when a claim is deleted and a 422 when a second
machine lists it. Texts and codes: host-api chapters 1.5, 1.6, 2.1, 2.2 and 2.5.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kube.objects import annotations_of, is_terminating, items, mapping, name_of, namespace_of, text, uid_of
from sim.host import shapes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kube.objects import Object

LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
SERIAL: Final = re.compile(r"[A-Za-z0-9_.+-]{0,256}")
CAUSES_SHOWN: Final = 10
HOTPLUG_BUSES: Final = frozenset({"scsi", "virtio"})
RESERVED_CLASSES: Final = frozenset({"longhorn-static", "vmstate-persistence"})
LONGHORN: Final = "driver.longhorn.io"
GOLDEN_IMAGE: Final = "harvesterhci.io/goldenImage"
CLAIM_TEMPLATES: Final = "harvesterhci.io/volumeClaimTemplates"
TEMPLATE: Final = "spec.template.spec"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A webhook's no: the HTTP code, the Status reason, and the words behind the API server's frame."""

    code: int
    reason: str
    words: str


def invalid(words: str) -> Refusal:
    """Return a 422."""
    return Refusal(422, "Invalid", words)


# --- KubeVirt's webhooks --------------------------------------------------------------------------


def refuse_machine(machine: Object, old: Object | None) -> Refusal | None:
    """Judge a machine's template as virtualmachine-validator.kubevirt.io does."""
    spec = shapes.template_of(machine)
    causes = [*_names(spec), *_pairs(spec), *_sources(spec), *_disks(spec), *_during_snapshot(machine, old)]
    return invalid(", ".join(causes[:CAUSES_SHOWN])) if causes else None


def _names(spec: Object) -> Iterator[str]:
    places = {f"{TEMPLATE}.volumes": shapes.volumes_of(spec)}
    places[f"{TEMPLATE}.domain.devices.disks"] = shapes.disks_of(spec)
    for place, named in places.items():
        first: dict[str, int] = {}
        for index, each in enumerate(named):
            other = first.setdefault(text(each, "name"), index)
            if other != index:
                yield f"{place}[{index}].name and {place}[{other}].name must not have the same Name."


def _pairs(spec: Object) -> Iterator[str]:
    volumes, disks = shapes.volumes_of(spec), shapes.disks_of(spec)
    volume_names = {text(volume, "name") for volume in volumes}
    disk_names = {text(disk, "name") for disk in disks}
    for index, disk in enumerate(disks):
        if (name := text(disk, "name")) not in volume_names:
            yield f"{TEMPLATE}.domain.devices.disks[{index}].Name '{name}' not found."
    for index, volume in enumerate(volumes):
        if (name := text(volume, "name")) not in disk_names:
            yield f"{TEMPLATE}.domain.volumes[{index}].name '{name}' not found."


def _sources(spec: Object) -> Iterator[str]:
    for index, volume in enumerate(shapes.volumes_of(spec)):
        if len([key for key, value in volume.items() if key != "name" and value is not None]) != 1:
            yield f"{TEMPLATE}.volumes[{index}] must have exactly one source type set"


def _disks(spec: Object) -> Iterator[str]:
    for index, disk in enumerate(shapes.disks_of(spec)):
        place = f"{TEMPLATE}.domain.devices.disks[{index}]"
        if not LABEL.fullmatch(text(disk, "name")):
            yield (
                f"{place}.name does not conform to the kubernetes DNS_LABEL rules : a lowercase RFC 1123 "
                "label must consist of lower case alphanumeric characters or '-', and must start and end "
                "with an alphanumeric character"
            )
        if not SERIAL.fullmatch(text(disk, "serial")):
            yield f"{place}.serial must be made up of the following characters [A-Za-z0-9_.+-], if specified"


def _during_snapshot(machine: Object, old: Object | None) -> Iterator[str]:
    snapshot = text(old, "status", "snapshotInProgress")
    if old is None or not snapshot:
        return
    before, after = shapes.template_of(old), shapes.template_of(machine)
    changed = shapes.volumes_of(before) != shapes.volumes_of(after)
    if changed or shapes.disks_of(before) != shapes.disks_of(after):
        yield f'Cannot update vm disks or volumes until snapshot "{snapshot}" completes'


def refuse_instance_update(instance: Object, old: Object, *, by_kubevirt: bool) -> Refusal | None:
    """Judge an update of an instance: only KubeVirt's own accounts change its spec, and not to any bus."""
    spec, before = mapping(instance, "spec"), mapping(old, "spec")
    if spec == before:
        return None
    if not by_kubevirt:
        return invalid("update of VMI object is restricted")
    hotplugged = {text(volume, "name") for volume in shapes.hotplug_volumes(instance)}
    for disk in shapes.disks_of(spec):
        bus = text(disk, "disk", "bus")
        if text(disk, "name") in hotplugged and "disk" in disk and bus not in HOTPLUG_BUSES:
            name = text(disk, "name")
            return invalid(
                f"hotplugged Disk {name} requires bus to be 'scsi' or 'virtio'. [{bus}] is not permitted."
            )
    return None


# --- Harvester's webhook --------------------------------------------------------------------------


def refuse_claims_of_machine(
    machine: Object,
    others: Iterable[Object],
    claims: Mapping[str, Object],
    provisioner: Callable[[Object], str],
) -> Refusal | None:
    """Judge which claims a machine's template may list: one claim, one machine, and no golden image.

    `others` are machines of the namespace, `claims` the template's existing claims by name; `provisioner`
    tells the provisioner of a claim. A machine that is being deleted still counts until it is gone.
    """
    neighbours = [other for other in others if uid_of(other) != uid_of(machine)]
    for claim in claims.values():
        shown = f"{namespace_of(machine)}/{name_of(claim)}"
        if annotations_of(claim).get(GOLDEN_IMAGE) == "true":
            return invalid(f"PVC {shown} is a golden image, it can't be used as a volume in VM")
        shareable = shapes.has_access_mode(claim, "ReadWriteMany") and provisioner(claim) != LONGHORN
        if not shareable and any(_occupies(other, name_of(claim)) for other in neighbours):
            return invalid(f"PVC {shown} is already used by other VM, please use a shareable RWX volume.")
    return None


def template_volumes(machine: Object) -> list[Object]:
    """Return the volumes that a machine's template lists."""
    return shapes.volumes_of(shapes.template_of(machine))


def template_claims(machine: Object) -> frozenset[str]:
    """Return the claims by which Harvester says that a machine has them: its template's and its
    annotation's."""
    listed = {claim for volume in template_volumes(machine) if (claim := shapes.claim_of(volume))}
    return frozenset(listed | set(_annotated(machine)))


def _occupies(machine: Object, claim: str) -> bool:
    """Tell whether the machine's template lists the claim on a disk that it does not share."""
    spec = shapes.template_of(machine)
    shared = {text(disk, "name") for disk in shapes.disks_of(spec) if disk.get("shareable") is True}
    return any(
        shapes.claim_of(volume) == claim and text(volume, "name") not in shared
        for volume in shapes.volumes_of(spec)
    )


def refuse_claim_deletion(claim: Object, machines: Iterable[Object]) -> Refusal | None:
    """Judge the deletion of a claim by anyone but the garbage collector."""
    name, namespace = name_of(claim), namespace_of(claim)
    if annotations_of(claim).get(GOLDEN_IMAGE) == "true":
        return invalid("can not delete golden image PVC")
    living = [machine for machine in machines if not is_terminating(machine)]
    if users := [machine for machine in living if name in template_claims(machine)]:
        words = f"can not delete the volume {name} which is currently attached to VM: "
        return Refusal(409, "Conflict", words + f"{namespace}/{name_of(users[0])}")
    owners = {text(owner, "name") for owner in items(claim, "metadata", "ownerReferences")}
    if owners := owners & {name_of(machine) for machine in living}:
        words = f"can not delete the volume {name} which is currently owned by these VMs: "
        return Refusal(409, "Conflict", words + ", ".join(f"{namespace}/{owner}" for owner in sorted(owners)))
    return None


def _annotated(machine: Object) -> Sequence[str]:
    """Return the claims that Harvester's own annotation says the machine is to have."""
    try:
        templates = json.loads(annotations_of(machine).get(CLAIM_TEMPLATES, "[]"))
    except ValueError:
        return []
    return (
        [name_of(each) for each in templates if isinstance(each, dict)] if isinstance(templates, list) else []
    )


def refuse_claim_creation(claim: Object, *, class_exists: Callable[[str], bool]) -> Refusal | None:
    """Judge the storage class of a new claim; a claim that names none gets the default later."""
    storage_class = text(claim, "spec", "storageClassName")
    if storage_class in RESERVED_CLASSES:
        return invalid(f"can not create volume with the reserved storage class {storage_class}")
    if storage_class and not class_exists(storage_class):
        return Refusal(500, "InternalError", f'storageclasses.storage.k8s.io "{storage_class}" not found')
    return None
