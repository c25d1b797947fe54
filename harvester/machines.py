"""Machines: the VM and its running instance, as far as disks and identity go. Parsing only.

The trap: `hotpluggable` sits on the volume's source, not on the disk, and a volume may carry any name: what
counts is the claim it names. A data volume stands for the claim of the same name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NewType

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
    uid_of,
    version_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kube.objects import Object

MachineName = NewType("MachineName", str)
MachineUid = NewType("MachineUid", str)

PENDING: Final = "Pending"
BOUND: Final = "Bound"
ATTACHED_TO_NODE: Final = "AttachedToNode"
"""The attachment pod exists; the volume need not be attached to anything yet."""
MOUNTED_TO_POD: Final = "MountedToPod"
READY: Final = "Ready"
DETACHING: Final = "Detaching"
UNMOUNTED_FROM_POD: Final = "UnMountedFromPod"

RUNNING: Final = "Running"
"""The one instance phase in which KubeVirt plugs and unplugs."""
FINAL_PHASES: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class MachineVolume:
    """One volume of a VM's template or of an instance's spec. `claim` is "" where it is backed by none."""

    name: str
    claim: str
    hotpluggable: bool


@dataclass(frozen=True, slots=True)
class Condition:
    """One status condition."""

    type: str
    status: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Machine:
    """A VM: what shall be."""

    name: MachineName
    namespace: str
    uid: MachineUid
    resource_version: str
    volumes: tuple[MachineVolume, ...]
    disks: tuple[str, ...]
    """Names of the template's disks; each belongs to the volume of that name."""
    run_strategy: str
    printable_status: str
    """What `kubectl get vm` shows: Stopped, Starting, Running, Paused, Migrating ..."""
    terminating: bool
    snapshot_in_progress: str
    """Name of the snapshot during which KubeVirt refuses changes of disks; "" outside of one."""
    conditions: tuple[Condition, ...]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    raw_volumes: tuple[Object, ...] | None = field(repr=False)
    """The template's volumes as they stand, for the `test` of a patch; None where there is no such array."""
    raw_disks: tuple[Object, ...] | None = field(repr=False)

    def volume_of(self, claim: str) -> MachineVolume | None:
        """Return the template's volume that is backed by the claim."""
        return _of_claim(self.volumes, claim)


@dataclass(frozen=True, slots=True)
class VolumeStatus:
    """One entry of an instance's volumeStatus. Boot disks have neither phase nor attachment pod."""

    name: str
    claim: str
    """Empty where KubeVirt has not looked the claim up; a hot-plugged volume of ours has its claim's name."""
    phase: str
    reason: str
    message: str
    target: str
    """libvirt's letter (sda), "" while no device is in the machine; not the kernel's name."""
    hotplugged: bool
    pod_name: str
    pod_uid: str
    """Empty while the attachment pod is not ready; both change for all volumes at each swap of the pod."""


@dataclass(frozen=True, slots=True)
class Migration:
    """The last live migration; KubeVirt keeps it after the end."""

    source_node: str
    target_node: str
    running: bool


@dataclass(frozen=True, slots=True)
class Instance:
    """A VMI: what is. It is gone while the machine is stopped."""

    name: MachineName
    namespace: str
    uid: str
    resource_version: str
    owner_uid: MachineUid
    """UID of the VM that made it, "" for an instance without a VM."""
    phase: str
    node: str
    """Host node, "" before it is scheduled."""
    firmware_uuid: str
    """What the guest sees as its system UUID."""
    volumes: tuple[MachineVolume, ...]
    statuses: tuple[VolumeStatus, ...]
    migration: Migration | None
    conditions: tuple[Condition, ...]
    terminating: bool

    def volume_of(self, claim: str) -> MachineVolume | None:
        """Return the spec's volume that is backed by the claim."""
        return _of_claim(self.volumes, claim)

    def status_of(self, volume: str) -> VolumeStatus | None:
        """Return the status entry of the volume of that name."""
        return next((status for status in self.statuses if status.name == volume), None)

    @property
    def migrating(self) -> bool:
        """Whether the instance is on the move to another host node now."""
        return self.migration is not None and self.migration.running

    @property
    def paused(self) -> bool:
        """Whether its processors stand still."""
        return any(c.type == "Paused" and c.status == "True" for c in self.conditions)


def parse_machine(vm: Object) -> Machine:
    """Read a kubevirt.io/v1 VirtualMachine; missing fields read as empty."""
    spec = mapping(vm, "spec", "template", "spec")
    return Machine(
        name=MachineName(name_of(vm)),
        namespace=namespace_of(vm),
        uid=MachineUid(uid_of(vm)),
        resource_version=version_of(vm),
        volumes=_volumes(spec),
        disks=tuple(text(disk, "name") for disk in items(spec, "domain", "devices", "disks")),
        run_strategy=_run_strategy(vm),
        printable_status=text(vm, "status", "printableStatus"),
        terminating=is_terminating(vm),
        snapshot_in_progress=text(vm, "status", "snapshotInProgress"),
        conditions=_conditions(vm),
        labels=labels_of(vm),
        annotations=annotations_of(vm),
        raw_volumes=_raw(spec, "volumes"),
        raw_disks=_raw(spec, "domain", "devices", "disks"),
    )


def parse_instance(vmi: Object) -> Instance:
    """Read a kubevirt.io/v1 VirtualMachineInstance; missing fields read as empty."""
    return Instance(
        name=MachineName(name_of(vmi)),
        namespace=namespace_of(vmi),
        uid=uid_of(vmi),
        resource_version=version_of(vmi),
        owner_uid=_owner(vmi),
        phase=text(vmi, "status", "phase"),
        node=text(vmi, "status", "nodeName"),
        firmware_uuid=text(vmi, "spec", "domain", "firmware", "uuid"),
        volumes=_volumes(mapping(vmi, "spec")),
        statuses=tuple(_status(entry) for entry in items(vmi, "status", "volumeStatus")),
        migration=_migration(mapping(vmi, "status", "migrationState")),
        conditions=_conditions(vmi),
        terminating=is_terminating(vmi),
    )


def _volumes(spec: Object) -> tuple[MachineVolume, ...]:
    return tuple(_volume(volume) for volume in items(spec, "volumes"))


def _volume(volume: Object) -> MachineVolume:
    by_claim, by_data = mapping(volume, "persistentVolumeClaim"), mapping(volume, "dataVolume")
    return MachineVolume(
        name=text(volume, "name"),
        claim=text(by_claim, "claimName") or text(by_data, "name"),
        hotpluggable=bool(dig(by_claim, "hotpluggable") or dig(by_data, "hotpluggable")),
    )


def _of_claim(volumes: tuple[MachineVolume, ...], claim: str) -> MachineVolume | None:
    return next((volume for volume in volumes if volume.claim == claim), None)


def _raw(spec: Object, *path: str) -> tuple[Object, ...] | None:
    return tuple(items(spec, *path)) if isinstance(dig(spec, *path), list) else None


def _run_strategy(vm: Object) -> str:
    """Read spec.runStrategy, or the older spec.running which may stand instead of it."""
    running = dig(vm, "spec", "running")
    if running is None:
        return text(vm, "spec", "runStrategy")
    return "Always" if running else "Halted"


def _status(entry: Object) -> VolumeStatus:
    return VolumeStatus(
        name=text(entry, "name"),
        claim=text(entry, "persistentVolumeClaimInfo", "claimName"),
        phase=text(entry, "phase"),
        reason=text(entry, "reason"),
        message=text(entry, "message"),
        target=text(entry, "target"),
        hotplugged=isinstance(dig(entry, "hotplugVolume"), dict),
        pod_name=text(entry, "hotplugVolume", "attachPodName"),
        pod_uid=text(entry, "hotplugVolume", "attachPodUID"),
    )


def _migration(state: Object) -> Migration | None:
    if not state:
        return None
    return Migration(
        source_node=text(state, "sourceNode"),
        target_node=text(state, "targetNode"),
        running=bool(text(state, "startTimestamp")) and not text(state, "endTimestamp"),
    )


def _owner(vmi: Object) -> MachineUid:
    owners = items(vmi, "metadata", "ownerReferences")
    return MachineUid(next((text(o, "uid") for o in owners if text(o, "kind") == "VirtualMachine"), ""))


def _conditions(obj: Object) -> tuple[Condition, ...]:
    return tuple(
        Condition(
            type=text(each, "type"),
            status=text(each, "status"),
            reason=text(each, "reason"),
            message=text(each, "message"),
        )
        for each in items(obj, "status", "conditions")
    )
