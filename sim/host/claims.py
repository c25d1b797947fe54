"""Claims and volumes: provisioning and binding, protection while in use, and removal.

The parts of kube-controller-manager and external-provisioner that a bare API server lacks. The trap: the
server puts pvc-protection on a claim, and nobody but this module takes it off.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from harvester.kinds import DEFAULT_CLASS, LONGHORN, LONGHORN_VOLUMES, LVM
from kube.errors import AlreadyExists, NotFound
from kube.objects import annotations_of, is_terminating, mapping, name_of, namespace_of, strings, text, uid_of
from kube.quantity import format_bytes, parse_bytes
from kube.resources import CLAIMS, PODS, VOLUMES
from kube.store import Key
from sim.host import shapes, words
from sim.host.calls import amend, find, release, remove
from sim.host.timers import Timers

if TYPE_CHECKING:
    from collections.abc import Callable

    from kube.client import Client
    from kube.objects import Object
    from sim.host.cache import Cache
    from sim.host.disks import Images
    from sim.host.profile import Profile

MIB: Final = 1 << 20
LONGHORN_STEP: Final = 2 * MIB
LONGHORN_LEAST: Final = 10 * MIB
LVM_STEP: Final = 4 * MIB
"""An extent of a volume group."""
LVM_TOPOLOGY: Final = "topology.lvm.csi/node"
WAITS_FOR_CONSUMER: Final = "WaitForFirstConsumer"
PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"


def capacity(requested: int, provisioner: str) -> int:
    """Return the bytes that a provisioner gives for a request."""
    least, step = (LONGHORN_LEAST, LONGHORN_STEP) if provisioner == LONGHORN else (LVM_STEP, LVM_STEP)
    return -(-max(requested, least) // step) * step


def persistent_volume(claim: Object, storage_class: Object, node: str) -> Object:
    """Return the volume for a claim, named after the claim's UID; an LVM volume stays on its `node`."""
    name = f"pvc-{uid_of(claim)}"
    driver = text(storage_class, "provisioner")
    size = capacity(parse_bytes(text(claim, "spec", "resources", "requests", "storage")) or 0, driver)
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "uid": uid_of(claim)}
    spec: Object = {
        "accessModes": list(strings(claim, "spec", "accessModes")),
        "capacity": {"storage": format_bytes(size)},
        "claimRef": {**reference, "namespace": namespace_of(claim), "name": name_of(claim)},
        "csi": {"driver": driver, "volumeHandle": name},
        "persistentVolumeReclaimPolicy": text(storage_class, "reclaimPolicy") or "Delete",
        "storageClassName": name_of(storage_class),
        "volumeMode": text(claim, "spec", "volumeMode") or "Filesystem",
    }
    if driver == LVM:
        term = {"matchExpressions": [{"key": LVM_TOPOLOGY, "operator": "In", "values": [node]}]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def longhorn_volume(name: str, size: int) -> Object:
    """Return Longhorn's own record of a volume."""
    return {
        "apiVersion": LONGHORN_VOLUMES.api_version,
        "kind": LONGHORN_VOLUMES.kind,
        "metadata": {"name": name, "namespace": words.LONGHORN_SYSTEM},
        "spec": {"size": str(size), "numberOfReplicas": 3, "frontend": "blockdev"},
    }


class ClaimController:
    """Works on claims by name: binds the new ones, frees the deleted ones."""

    def __init__(self, api: Client, cache: Cache, images: Images, profile: Callable[[], Profile]) -> None:
        self._api = api
        self._cache = cache
        self._images = images
        self._profile = profile
        self._binding = Timers()

    def reconcile(self, key: Key) -> float | None:
        """Bring the claim one step on; return the seconds after which to look again."""
        seen = self._cache.claim(key.namespace, key.name)
        if seen is None or _is_settled(seen):
            return None
        claim = find(self._api, CLAIMS, key)
        if claim is None or _is_settled(claim):
            return None
        if is_terminating(claim):
            self._free(claim)
            return None
        if words.PVC_PROTECTION not in strings(claim, "metadata", "finalizers"):
            claim = self._protect(claim)
        return None if text(claim, "status", "phase") == words.BOUND else self._bind(claim)

    def _bind(self, claim: Object) -> float | None:
        storage_class = self._class(claim)
        if storage_class is None:
            return None
        node = self._consumer_node(claim)
        if text(storage_class, "volumeBindingMode") == WAITS_FOR_CONSUMER and not node:
            return None
        if left := self._binding.left(uid_of(claim), self._profile().bind):
            return left
        self._provision(claim, storage_class, node)
        self._binding.forget(uid_of(claim))
        return None

    def _class(self, claim: Object) -> Object | None:
        """Return the claim's storage class; one that names none gets the default."""
        name = text(claim, "spec", "storageClassName")
        if name:
            return self._cache.storage_class(name)
        default = (c for c in self._cache.storage_classes() if annotations_of(c).get(DEFAULT_CLASS) == "true")
        found = next(default, None)
        if found is not None:
            amend(self._api, CLAIMS, claim, {"spec": {"storageClassName": name_of(found)}})
        return None  # the write wakes us again

    def _consumer_node(self, claim: Object) -> str:
        consumers = self._cache.pods_of_claim(namespace_of(claim), name_of(claim))
        return next((text(pod, "spec", "nodeName") for pod in consumers if not shapes.has_ended(pod)), "")

    def _provision(self, claim: Object, storage_class: Object, node: str) -> None:
        """Make the volume and bind both, in the order in which the real ones do."""
        volume = persistent_volume(claim, storage_class, node)
        name = name_of(volume)
        size = parse_bytes(volume["spec"]["capacity"]["storage"]) or 0
        provisioner = text(storage_class, "provisioner")
        self._images.create(name, size, dirty=provisioner == LVM)
        with contextlib.suppress(AlreadyExists):
            self._api.create(VOLUMES, volume)
        if provisioner == LONGHORN:
            with contextlib.suppress(AlreadyExists):
                self._api.create(LONGHORN_VOLUMES, longhorn_volume(name, size), words.LONGHORN_SYSTEM)
        if text(claim, "spec", "volumeName") != name:
            annotations = {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes", PROVISIONER: provisioner}
            body = {"metadata": {"annotations": annotations}, "spec": {"volumeName": name}}
            claim = amend(self._api, CLAIMS, claim, body)
        bound = self._api.get(VOLUMES, name)
        amend(self._api, VOLUMES, bound, {"status": {"phase": words.BOUND}}, "status")
        status = {
            "phase": words.BOUND,
            "accessModes": volume["spec"]["accessModes"],
            "capacity": volume["spec"]["capacity"],
        }
        amend(self._api, CLAIMS, claim, {"status": status}, "status")

    def _protect(self, claim: Object) -> Object:
        held = [*strings(claim, "metadata", "finalizers"), words.PVC_PROTECTION]
        return amend(self._api, CLAIMS, claim, {"metadata": {"finalizers": held}})

    def _free(self, claim: Object) -> None:
        """Take the protection off once no pod that still runs mounts the claim: looked up live at last."""
        namespace, name = namespace_of(claim), name_of(claim)
        if all(map(shapes.has_ended, self._cache.pods_of_claim(namespace, name))):
            live = self._api.list(PODS, namespace).items
            if all(shapes.has_ended(pod) for pod in live if name in shapes.claims_of(pod)):
                release(self._api, CLAIMS, claim, words.PVC_PROTECTION)
                self._binding.forget(uid_of(claim))


def _is_settled(claim: Object) -> bool:
    """Tell whether the claim is bound, protected and not going: nothing is to be done about it."""
    protected = words.PVC_PROTECTION in strings(claim, "metadata", "finalizers")
    return protected and text(claim, "status", "phase") == words.BOUND and not is_terminating(claim)


class VolumeController:
    """Works on volumes by name: removes those whose claim is gone, with their data."""

    def __init__(self, api: Client, cache: Cache, images: Images) -> None:
        self._api = api
        self._cache = cache
        self._images = images

    def reconcile(self, key: Key) -> None:
        """Remove the volume when its claim is gone and no VolumeAttachment names it any more."""
        volume = self._cache.volume(key.name)
        if volume is None or self._is_claimed(volume):
            return
        if text(volume, "status", "phase") != "Released":
            volume = amend(self._api, VOLUMES, volume, {"status": {"phase": "Released"}}, "status")
        retained = text(volume, "spec", "persistentVolumeReclaimPolicy") != "Delete"
        if retained or self._cache.attachments_of(key.name):
            return
        with contextlib.suppress(NotFound):
            self._api.delete(LONGHORN_VOLUMES, key.name, words.LONGHORN_SYSTEM)
        self._images.remove(key.name)
        remove(self._api, VOLUMES, volume)
        left = find(self._api, VOLUMES, key)
        if left is not None:
            release(self._api, VOLUMES, left, words.PV_PROTECTION)

    def _is_claimed(self, volume: Object) -> bool:
        """Tell whether the volume's claim is there; that it is not is looked up live."""
        reference = mapping(volume, "spec", "claimRef")
        key = Key(text(reference, "namespace"), text(reference, "name"))
        seen = self._cache.claim(*key)
        if seen is None or uid_of(seen) != text(reference, "uid"):
            seen = find(self._api, CLAIMS, key)
        return seen is not None and uid_of(seen) == text(reference, "uid")
