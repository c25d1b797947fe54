"""What the controllers have seen of the cluster: the stores of their informers, and how they look into them.

The trap: it may be behind. It finds work and proves presence, and "nothing to do" may be said on it, since
any change comes as another look; before something is created or let go because another thing is absent,
that is read live.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harvester.kinds import INSTANCES, MACHINES
from kube.objects import mapping, namespace_of, text
from kube.resources import CLAIMS, PODS, STORAGE_CLASSES, VOLUME_ATTACHMENTS, VOLUMES
from sim.host import refusals, shapes, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kube.objects import Object
    from kube.resources import Resource
    from kube.store import Indexer, Store

BY_CLAIM: Final = "claim"
BY_OWNER: Final = "owner"
BY_VOLUME: Final = "volume"
BY_MACHINE: Final = "machine"
BY_PHASE: Final = "phase"
BY_NAMESPACE: Final = "namespace"


def _namespace(obj: Object) -> Iterable[str]:
    return [namespace_of(obj)]


def _claims_of_pod(pod: Object) -> Iterable[str]:
    return (f"{namespace_of(pod)}/{claim}" for claim in shapes.claims_of(pod))


def _claims_of_instance(instance: Object) -> Iterable[str]:
    volumes = shapes.volumes_of(mapping(instance, "spec"))
    return (f"{namespace_of(instance)}/{claim}" for volume in volumes if (claim := shapes.claim_of(volume)))


def _claims_of_machine(machine: Object) -> Iterable[str]:
    return (f"{namespace_of(machine)}/{claim}" for claim in refusals.template_claims(machine))


INDEXERS: Final[Mapping[Resource, Mapping[str, Indexer]]] = {
    PODS: {BY_CLAIM: _claims_of_pod, BY_OWNER: lambda pod: [shapes.owner_uid(pod)]},
    MACHINES: {BY_CLAIM: _claims_of_machine},
    INSTANCES: {BY_CLAIM: _claims_of_instance},
    CLAIMS: {BY_PHASE: lambda claim: [text(claim, "status", "phase")], BY_NAMESPACE: _namespace},
    words.MIGRATIONS: {BY_MACHINE: lambda m: [f"{namespace_of(m)}/{text(m, 'spec', 'vmiName')}"]},
    VOLUME_ATTACHMENTS: {BY_VOLUME: lambda a: [text(a, "spec", "source", "persistentVolumeName")]},
}
"""What the informers' stores are indexed by."""


class Cache:
    """The shared view. Objects are shared too and must not be changed."""

    def __init__(self, stores: Mapping[Resource, Store]) -> None:
        self._stores = stores

    def machine(self, namespace: str, name: str) -> Object | None:
        """Return the machine, if it has been seen."""
        return self._stores[MACHINES].get(name, namespace)

    def machines_of_claim(self, namespace: str, claim: str) -> Sequence[Object]:
        """Return the machines whose template or annotation names the claim."""
        return self._stores[MACHINES].by_index(BY_CLAIM, f"{namespace}/{claim}")

    def instance(self, namespace: str, name: str) -> Object | None:
        """Return the instance, if it has been seen."""
        return self._stores[INSTANCES].get(name, namespace)

    def claim(self, namespace: str, name: str) -> Object | None:
        """Return the claim, if it has been seen."""
        return self._stores[CLAIMS].get(name, namespace)

    def claims(self, namespace: str, volumes: Iterable[Object]) -> dict[str, Object]:
        """Return the claims that stand behind volumes, by name; those that are not there are left out."""
        names = {claim for volume in volumes if (claim := shapes.claim_of(volume))}
        found = ((name, self.claim(namespace, name)) for name in names)
        return {name: claim for name, claim in found if claim is not None}

    def claims_in(self, namespace: str) -> Sequence[Object]:
        """Return all claims of the namespace."""
        return self._stores[CLAIMS].by_index(BY_NAMESPACE, namespace)

    def unbound_claims(self) -> Sequence[Object]:
        """Return the claims that are Pending."""
        return self._stores[CLAIMS].by_index(BY_PHASE, "Pending")

    def volume(self, name: str) -> Object | None:
        """Return the volume, if it has been seen."""
        return self._stores[VOLUMES].get(name)

    def storage_class(self, name: str) -> Object | None:
        """Return the storage class, if it has been seen."""
        return self._stores[STORAGE_CLASSES].get(name)

    def storage_classes(self) -> Sequence[Object]:
        """Return all storage classes."""
        return self._stores[STORAGE_CLASSES].list()

    def pod(self, namespace: str, name: str) -> Object | None:
        """Return the pod, if it has been seen."""
        return self._stores[PODS].get(name, namespace)

    def pods_of(self, owner: str) -> Sequence[Object]:
        """Return the pods whose controller has this UID."""
        return self._stores[PODS].by_index(BY_OWNER, owner)

    def pods_of_claim(self, namespace: str, claim: str) -> Sequence[Object]:
        """Return the pods that mount the claim."""
        return self._stores[PODS].by_index(BY_CLAIM, f"{namespace}/{claim}")

    def instances_of_claim(self, namespace: str, claim: str) -> Sequence[Object]:
        """Return the instances whose spec names the claim."""
        return self._stores[INSTANCES].by_index(BY_CLAIM, f"{namespace}/{claim}")

    def migrations_of(self, namespace: str, machine: str) -> Sequence[Object]:
        """Return the live migrations of the machine, past ones too."""
        return self._stores[words.MIGRATIONS].by_index(BY_MACHINE, f"{namespace}/{machine}")

    def attachments_of(self, volume: str) -> Sequence[Object]:
        """Return the VolumeAttachments of the volume."""
        return self._stores[VOLUME_ATTACHMENTS].by_index(BY_VOLUME, volume)
