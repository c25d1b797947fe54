"""The JSON patch that plugs claims into a machine and unplugs them. Pure.

The trap: disks and volumes are two arrays that others write too (people, Rancher, Harvester's own mutator).
The patch tests the machine's UID and both old arrays, so that it says exactly what it was decided on, and
nothing else: the resourceVersion would also change with every status.

Source: KubeVirt's own declarative hot-plug patches in this way (pkg/storage/hotplug, since 1.6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube.objects import text

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from harvester.machines import Machine, MachineVolume
    from kube.objects import Object

MOST_DISKS: Final = 256
"""Disks that a machine can have (maxItems of the CRD)."""

_VOLUMES: Final = "/spec/template/spec/volumes"
_DISKS: Final = "/spec/template/spec/domain/devices/disks"


def is_plugged_claim(volume: MachineVolume) -> bool:
    """Tell whether an entry is one that a CSI driver makes: hot-plugged, and named after its claim.

    Anything else in a machine is somebody else's and never touched.
    """
    return volume.hotpluggable and volume.name == volume.claim


def hotplug_patch(machine: Machine, add: Collection[str], remove: Collection[str]) -> list[Object]:
    """Return the JSON patch after which the machine has the claims `add` and not `remove`; empty if it is so.

    A claim that is there already is not added again, one that is not there (as ours) is not removed.
    """
    leaving = {v.name for v in machine.volumes if is_plugged_claim(v) and v.name in remove}
    coming = sorted(set(add) - {volume.name for volume in machine.volumes} - set(remove))
    if not leaving and not coming:
        return []
    return [
        {"op": "test", "path": "/metadata/uid", "value": machine.uid},
        *_array(machine, _VOLUMES, machine.raw_volumes, leaving, [_volume(name) for name in coming]),
        *_array(machine, _DISKS, machine.raw_disks, leaving, [_disk(name) for name in coming]),
    ]


def _array(
    machine: Machine, path: str, old: Sequence[Object] | None, leaving: set[str], coming: list[Object]
) -> list[Object]:
    """Replace one array; one that is missing cannot be tested, so nothing at all may have changed."""
    if old is None:
        return [
            {"op": "test", "path": "/metadata/resourceVersion", "value": machine.resource_version},
            {"op": "add", "path": path, "value": coming},
        ]
    return [
        {"op": "test", "path": path, "value": list(old)},
        {
            "op": "replace",
            "path": path,
            "value": [item for item in old if text(item, "name") not in leaving] + coming,
        },
    ]


def _volume(claim: str) -> Object:
    return {"name": claim, "persistentVolumeClaim": {"claimName": claim, "hotpluggable": True}}


def _disk(claim: str) -> Object:
    """Describe the disk:

    Scsi without a serial, so that the guest sees `drive-ua-<claim>` on VPD page 0x83.
    """
    return {"name": claim, "disk": {"bus": "scsi"}}
