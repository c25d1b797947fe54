"""What stands on a host before anybody comes: namespaces, nodes, classes, settings, roles, and the guest's
machines.

Everything is created through the API, so that it goes the same way on any server. Boot disks become real
claims, which the host's controllers bind.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harvester.kinds import DEFAULT_CLASS, GUEST_CLUSTER_LABEL, LONGHORN, LVM, MACHINES, MIGRATABLE, SETTINGS
from kube.resources import CLAIMS, NAMESPACES, NODES, STORAGE_CLASSES
from sim.host import roles, words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kube.objects import Object
    from kube.resources import Resource
    from sim.host.releases import Release

DEFAULT_STORAGE: Final = "harvester-longhorn"
NODE_DRIVER: Final = "docker-machine-driver-harvester"
BOOT_DISK: Final = "40Gi"
CSI_DRIVER_CONFIG: Final = {
    LONGHORN: {"volumeSnapshotClassName": "longhorn-snapshot", "backupVolumeSnapshotClassName": "longhorn"}
}
GUEST_VERSIONS: Final = {
    "harvester-cloud-provider": ">=0.0.1 <0.3.0",
    "harvester-csi-provider": ">=0.0.1 <0.3.0",
}


@dataclass(frozen=True, slots=True)
class World:
    """What to put on a host. A guest cluster has the name of its namespace."""

    namespace: str = "guest-a"
    account: str = "guest-a"
    hosts: tuple[str, ...] = ("host-1", "host-2", "host-3")
    machines: int = 3

    @property
    def machine_names(self) -> tuple[str, ...]:
        """The names of the guest's machines."""
        return tuple(f"{self.namespace}-node-{number}" for number in range(1, self.machines + 1))


def objects(world: World, release: Release) -> list[tuple[Resource, Object]]:
    """Return all objects of the world, in an order in which they can be created."""
    namespaces = ("harvester-public", words.HARVESTER_SYSTEM, words.LONGHORN_SYSTEM, world.namespace)
    return [
        *((NAMESPACES, _plain("v1", "Namespace", name)) for name in namespaces),
        *((NODES, host_node(name)) for name in world.hosts),
        *((STORAGE_CLASSES, each) for each in storage_classes()),
        *((SETTINGS, each) for each in settings(release)),
        *roles.cluster_roles(release.csi_driver_rules),
        *roles.guest(world.namespace, world.account),
        *(each for name in world.machine_names for each in machine(name, world)),
    ]


def _plain(api_version: str, kind: str, name: str) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}


def host_node(name: str) -> Object:
    """Return a host's node, as far as topology goes."""
    node = _plain("v1", "Node", name)
    node["metadata"]["labels"] = {"kubernetes.io/hostname": name, "harvesterhci.io/managed": "true"}
    return node


def storage_classes() -> list[Object]:
    """Return the classes of a fresh host, an LVM class, and one for shares (which is not migratable)."""
    reserved = {"harvesterhci.io/is-reserved-storageclass": "true"}
    replicas = {"numberOfReplicas": "3", "staleReplicaTimeout": "30"}
    migratable = {**replicas, "fromBackup": "", "baseImage": "", MIGRATABLE: "true"}
    lvm = {"vgName": "vg01", "type": "thick"}
    return [
        _storage_class(DEFAULT_STORAGE, LONGHORN, migratable, {DEFAULT_CLASS: "true", **reserved}),
        _storage_class("longhorn-static", LONGHORN, {"staleReplicaTimeout": "30"}),
        _storage_class("vmstate-persistence", LONGHORN, {**replicas, MIGRATABLE: "true"}),
        _storage_class("longhorn-rwx", LONGHORN, {**replicas, MIGRATABLE: "false"}),
        _storage_class("lvm", LVM, lvm, binding="WaitForFirstConsumer"),
    ]


def _storage_class(
    name: str,
    provisioner: str,
    parameters: Object,
    annotations: Object | None = None,
    binding: str = "Immediate",
) -> Object:
    return {
        "apiVersion": STORAGE_CLASSES.api_version,
        "kind": STORAGE_CLASSES.kind,
        "metadata": {"name": name, "annotations": annotations or {}},
        "provisioner": provisioner,
        "parameters": parameters,
        "allowVolumeExpansion": True,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": binding,
    }


def settings(release: Release) -> list[Object]:
    """Return the settings that a guest may read."""
    return [
        _setting("server-version", "dev", release.server_version),
        _setting("csi-online-expand-validation", json.dumps({LONGHORN: True})),
        _setting("csi-driver-config", json.dumps(CSI_DRIVER_CONFIG)),
        _setting("harvester-csi-ccm-versions", json.dumps(GUEST_VERSIONS)),
        _setting("default-storage-class", DEFAULT_STORAGE),
    ]


def _setting(name: str, default: str, value: str = "") -> Object:
    setting = _plain(SETTINGS.api_version, SETTINGS.kind, name)
    return {**setting, "default": default, "value": value, "customized": False, "source": ""}


def machine(name: str, world: World) -> Sequence[tuple[Resource, Object]]:
    """Return the boot claim and the VM of a guest node, as Rancher's node driver makes them."""
    claim = boot_claim(f"{name}-disk-0", world.namespace)
    cluster = {GUEST_CLUSTER_LABEL: world.namespace, "harvesterhci.io/creator": NODE_DRIVER}
    labels = {**cluster, "harvesterhci.io/vmName": name, "harvesterhci.io/machineSetName": f"{name}-pool"}
    metadata = {
        "name": name,
        "namespace": world.namespace,
        "labels": labels,
        "annotations": {"harvesterhci.io/volumeClaimTemplates": json.dumps([claim])},
    }
    spec: Object = {
        "runStrategy": "RerunOnFailure",
        "template": {"metadata": {"labels": labels}, "spec": template(name, claim["metadata"]["name"])},
    }
    vm = {"apiVersion": MACHINES.api_version, "kind": MACHINES.kind, "metadata": metadata, "spec": spec}
    return [(CLAIMS, claim), (MACHINES, vm)]


def boot_claim(name: str, namespace: str) -> Object:
    """Return the claim of a boot disk."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "volumeMode": "Block",
            "storageClassName": DEFAULT_STORAGE,
            "resources": {"requests": {"storage": BOOT_DISK}},
        },
    }


def template(name: str, boot: str) -> Object:
    """Return the spec that the machine's instances are made from."""
    disks = [
        {"name": "disk-0", "disk": {"bus": "virtio"}, "bootOrder": 1},
        {"name": "cloudinitdisk", "disk": {"bus": "virtio"}},
    ]
    network_card = {"name": "nic-1", "model": "virtio", "bridge": {}, "macAddress": mac_address(name)}
    resources = {"limits": {"cpu": "4", "memory": "8Gi"}, "requests": {"cpu": "250m", "memory": "5461Mi"}}
    return {
        "domain": {
            "cpu": {"cores": 4, "sockets": 1, "threads": 1},
            "devices": {"disks": disks, "inputs": [], "interfaces": [network_card]},
            "features": {"acpi": {"enabled": True}},
            "firmware": {"uuid": str(uuid.uuid5(uuid.NAMESPACE_DNS, name))},
            "machine": {"type": "q35"},
            "memory": {"guest": "8092Mi"},
            "resources": resources,
        },
        "evictionStrategy": "LiveMigrate",
        "hostname": name,
        "networks": [{"name": "nic-1", "multus": {"networkName": "default/vlan1"}}],
        "terminationGracePeriodSeconds": 120,
        "volumes": [
            {"name": "disk-0", "persistentVolumeClaim": {"claimName": boot}},
            {"name": "cloudinitdisk", "cloudInitNoCloud": {"secretRef": {"name": f"{name}-cloudinit"}}},
        ],
    }


def mac_address(name: str) -> str:
    """Return a locally administered address that is the same for the same machine."""
    tail = uuid.uuid5(uuid.NAMESPACE_DNS, name).bytes[:5]
    return ":".join(f"{byte:02x}" for byte in b"\x52" + tail)
