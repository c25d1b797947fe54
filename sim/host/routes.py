"""Which controllers look at what when an object has changed. Only the cache is asked.

The trap: an object may be seen before those that it refers to. Each route is therefore there from both ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harvester.kinds import INSTANCES, MACHINES
from kube.objects import mapping, name_of, namespace_of, text
from kube.resources import CLAIMS, PODS, STORAGE_CLASSES, VOLUME_ATTACHMENTS, VOLUMES
from kube.store import Key
from sim.host import pods, shapes, words
from sim.host.attachments import volume_of
from sim.host.calls import key_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube.objects import Object
    from kube.resources import Resource
    from sim.host.cache import Cache


class Routes:
    """From a changed object to the keys that controllers look at, by the controllers' names."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._by_kind = {
            MACHINES: self._machine,
            INSTANCES: self._instance,
            words.MIGRATIONS: self._migration,
            PODS: self._pod,
            CLAIMS: self._claim,
            VOLUMES: self._volume,
            VOLUME_ATTACHMENTS: self._attachment,
            STORAGE_CLASSES: self._storage_class,
        }

    def of(self, kind: Resource, obj: Object) -> Iterator[tuple[str, Key]]:
        """Yield (controller, key) for an object of the kind that came, changed or went."""
        return self._by_kind[kind](obj)

    def _machine(self, machine: Object) -> Iterator[tuple[str, Key]]:
        yield "machines", key_of(machine)

    def _instance(self, instance: Object) -> Iterator[tuple[str, Key]]:
        for controller in ("machines", "instances", "handler"):
            yield controller, key_of(instance)
        yield from self._migrations(namespace_of(instance), name_of(instance))

    def _migration(self, migration: Object) -> Iterator[tuple[str, Key]]:
        yield "migrations", key_of(migration)

    def _migrations(self, namespace: str, machine: str) -> Iterator[tuple[str, Key]]:
        for migration in self._cache.migrations_of(namespace, machine):
            yield "migrations", key_of(migration)

    def _pod(self, pod: Object) -> Iterator[tuple[str, Key]]:
        namespace, machine = namespace_of(pod), pods.machine_of(pod)
        yield "pods", key_of(pod)
        yield "instances", Key(namespace, machine)
        yield from self._migrations(namespace, machine)
        for name in shapes.claims_of(pod):
            yield "claims", Key(namespace, name)
            if volume := text(self._cache.claim(namespace, name), "spec", "volumeName"):
                yield "attachments", Key("", volume)

    def _claim(self, claim: Object) -> Iterator[tuple[str, Key]]:
        namespace, name = key = key_of(claim)
        yield "claims", key
        for instance in self._cache.instances_of_claim(namespace, name):
            yield "instances", key_of(instance)
        for pod in self._cache.pods_of_claim(namespace, name):
            yield "pods", key_of(pod)
        if volume := text(claim, "spec", "volumeName"):
            yield "attachments", Key("", volume)
            yield "volumes", Key("", volume)

    def _volume(self, volume: Object) -> Iterator[tuple[str, Key]]:
        yield "volumes", key_of(volume)
        yield "attachments", key_of(volume)
        yield from self._pods_of(volume)

    def _attachment(self, attachment: Object) -> Iterator[tuple[str, Key]]:
        volume = volume_of(attachment)
        yield "attachments", Key("", volume)
        yield "volumes", Key("", volume)
        yield from self._pods_of(self._cache.volume(volume))

    def _pods_of(self, volume: Object | None) -> Iterator[tuple[str, Key]]:
        reference = mapping(volume, "spec", "claimRef")
        for pod in self._cache.pods_of_claim(text(reference, "namespace"), text(reference, "name")):
            yield "pods", key_of(pod)

    def _storage_class(self, storage_class: Object) -> Iterator[tuple[str, Key]]:
        for claim in self._cache.unbound_claims():
            yield "claims", key_of(claim)
