"""Values that the tests of the attach engine start from: raw host objects, read as the engine reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from csi.controller.claims import HostClaim, parse_claim
from csi.controller.layers import MachineView
from csi.controller.marks import ATTACHED_TO, CLUSTER, FRESH
from csi.model import VolumeId
from harvester.attachment_pods import AttachmentPod, parse_attachment_pod
from harvester.host_attachments import HostAttachment
from harvester.machines import Instance, Machine, MachineName, parse_instance, parse_machine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kube.objects import Object

VM = MachineName("vm-a")
UID = "uid-a"
NODE = "host-1"
VOLUME = VolumeId("pvc-1")
OURS = "cluster-1"

ROOT_VOLUME: Object = {"name": "disk-0", "persistentVolumeClaim": {"claimName": "root-a"}}
ROOT_DISK: Object = {"name": "disk-0", "disk": {"bus": "virtio"}, "bootOrder": 1}


def plugged(name: str, claim: str | None = None) -> Object:
    """Return a hot-plugged volume."""
    return {"name": name, "persistentVolumeClaim": {"claimName": claim or name, "hotpluggable": True}}


def spec(volumes: Sequence[Object]) -> Object:
    """Return the spec of a machine with its boot disk and these volumes."""
    disks = [{"name": volume["name"], "disk": {"bus": "scsi"}} for volume in volumes]
    return {
        "volumes": [ROOT_VOLUME, *volumes],
        "domain": {"devices": {"disks": [ROOT_DISK, *disks]}},
    }


def machine(*volumes: Object, **metadata: object) -> Machine:
    """Return a VM with these hot-plugged volumes in its template."""
    meta = {"name": VM, "namespace": "ns", "uid": UID, "resourceVersion": "7", **metadata}
    return parse_machine({"metadata": meta, "spec": {"template": {"spec": spec(volumes)}}})


def status(
    name: str, phase: str = "Ready", target: str = "sda", pod: str = "uid-pod", reason: str = ""
) -> Object:
    """Return the status of a hot-plugged volume."""
    return {
        "name": name,
        "phase": phase,
        "target": target,
        "reason": reason,
        "hotplugVolume": {"attachPodName": "hp-volume-1", "attachPodUID": pod},
    }


def instance(
    *volumes: Object, statuses: Sequence[Object] | None = None, phase: str = "Running", **fields: object
) -> Instance:
    """Return a VMI with these volumes; without `statuses` all of them are ready."""
    shown = [status(volume["name"]) for volume in volumes] if statuses is None else list(statuses)
    boot: Object = {"name": "disk-0", "target": "vda", "persistentVolumeClaimInfo": {"claimName": "root-a"}}
    state = {"phase": phase, "nodeName": NODE, "volumeStatus": [boot, *shown], **fields}
    return parse_instance(
        {"metadata": {"name": VM, "uid": "uid-vmi"}, "spec": spec(volumes), "status": state}
    )


def pod(*claims: str, phase: str = "Running", name: str = "hp-volume-1", why: str = "") -> AttachmentPod:
    """Return an attachment pod of the machine."""
    conditions = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}]
    return parse_attachment_pod(
        {
            "metadata": {
                "name": name,
                "uid": "uid-pod",
                "ownerReferences": [{"kind": "Pod", "name": f"virt-launcher-{VM}-x7k2p"}],
            },
            "spec": {
                "nodeName": NODE,
                "volumes": [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims],
            },
            "status": {
                "phase": phase,
                "containerStatuses": [{"ready": phase == "Running"}],
                "conditions": conditions if why else [],
            },
        }
    )


def view(
    template: Sequence[Object] = (),
    running: Sequence[Object] | None = None,
    statuses: Sequence[Object] | None = None,
    pods: Sequence[AttachmentPod] | None = None,
    **fields: object,
) -> MachineView:
    """Return one look at a running machine; what is not said is as it is at rest."""
    present = template if running is None else running
    names = [volume["name"] for volume in present]
    carried = ([pod(*names)] if names else []) if pods is None else pods
    vmi = instance(*present, statuses=statuses, **fields)  # type: ignore[arg-type]  # fields of the status
    return MachineView(VM, machine(*template), vmi, tuple(carried))


def off(*template: Object) -> MachineView:
    """Return one look at a stopped machine."""
    return MachineView(VM, machine(*template))


def claim(
    attached_to: str | None = "", fresh: str = "", *, bound: bool = True, cluster: str = OURS
) -> HostClaim:
    """Return a claim with this mark."""
    annotations = {CLUSTER: cluster, FRESH: fresh}
    written = {key: value for key, value in annotations.items() if value}
    if attached_to is not None:
        written[ATTACHED_TO] = attached_to
    return parse_claim(
        {
            "metadata": {"name": VOLUME, "uid": "uid-1", "resourceVersion": "7", "annotations": written},
            "spec": {"volumeName": "pv-1" if bound else ""},
            "status": {"phase": "Bound" if bound else "Pending", "capacity": {"storage": "1Gi"}},
        }
    )


def host_attachment(node: str = NODE, *, attached: bool = True, trouble: str = "") -> HostAttachment:
    """Return the host's attachment of the volume."""
    return HostAttachment("csi-1", "7", "pv-1", node, attached, trouble)
