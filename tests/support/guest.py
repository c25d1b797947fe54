"""What a driver does to a host, in the plainest way: claims, and patches of a machine's template.

Written here on its own, so that the host is not tested with our driver's reading of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harvester.kinds import INSTANCES, MACHINES
from kube.client import JsonPatch
from kube.objects import items, mapping, text
from kube.resources import CLAIMS

if TYPE_CHECKING:
    from kube.client import Client
    from kube.objects import Object

VOLUMES_PATH = "/spec/template/spec/volumes"
DISKS_PATH = "/spec/template/spec/domain/devices/disks"


class Guest:
    """One guest's writes to its namespace on the host."""

    def __init__(self, api: Client, namespace: str) -> None:
        self.api = api
        self.namespace = namespace

    def claim(
        self,
        name: str,
        *,
        size: str = "1Gi",
        storage_class: str = "harvester-longhorn",
        mode: str = "ReadWriteMany",
    ) -> Object:
        """Create a Block claim."""
        spec: Object = {
            "accessModes": [mode],
            "volumeMode": "Block",
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": size}},
        }
        metadata = {"name": name, "namespace": self.namespace}
        body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
        return self.api.create(CLAIMS, body, self.namespace)

    def drop(self, claim: str) -> None:
        """Delete a claim."""
        self.api.delete(CLAIMS, claim, self.namespace)

    def plug(self, machine: str, claim: str, *, bus: str = "scsi") -> None:
        """Add a volume and a disk of the claim's name to the machine's template."""
        volume = {"name": claim, "persistentVolumeClaim": {"claimName": claim, "hotpluggable": True}}
        disk = {"name": claim, "disk": {"bus": bus}}
        volumes, disks = self._template(machine)
        self._patch(machine, (volumes, [*volumes, volume]), (disks, [*disks, disk]))

    def unplug(self, machine: str, claim: str) -> None:
        """Remove the volume and the disk of the claim's name from the machine's template."""
        volumes, disks = self._template(machine)
        self._patch(
            machine,
            (volumes, [volume for volume in volumes if text(volume, "name") != claim]),
            (disks, [disk for disk in disks if text(disk, "name") != claim]),
        )

    def entry(self, machine: str, volume: str) -> Object | None:
        """Return the volumeStatus entry of the machine's instance, read live."""
        instance = self.api.get(INSTANCES, machine, self.namespace)
        entries = items(instance, "status", "volumeStatus")
        return next((entry for entry in entries if text(entry, "name") == volume), None)

    def _template(self, machine: str) -> tuple[list[Object], list[Object]]:
        spec = mapping(self.api.get(MACHINES, machine, self.namespace), "spec", "template", "spec")
        return items(spec, "volumes"), items(spec, "domain", "devices", "disks")

    def _patch(
        self,
        machine: str,
        volumes: tuple[list[Object], list[Object]],
        disks: tuple[list[Object], list[Object]],
    ) -> None:
        changes = ((VOLUMES_PATH, *volumes), (DISKS_PATH, *disks))
        tests = [{"op": "test", "path": path, "value": old} for path, old, _ in changes]
        replacements = [{"op": "replace", "path": path, "value": new} for path, _, new in changes]
        self.api.patch(MACHINES, machine, JsonPatch([*tests, *replacements]), self.namespace)
