"""Instances: a launcher pod for each, their phases up to Scheduled, and their end.

The part of virt-controller that looks at VMIs. What happens on the node is the handler's.
"""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING

from harvester.kinds import INSTANCES
from kube.objects import is_terminating, labels_of, mapping, name_of, namespace_of, text, uid_of
from kube.resources import PODS
from sim.host import pods, shapes, words
from sim.host.calls import amend, find, release, remove
from sim.host.hotplug import synchronized

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kube.client import Client
    from kube.objects import Object
    from kube.store import Key
    from sim.host.cache import Cache
    from sim.host.hotplug import Hotplug


class InstanceController:
    """Works on VMIs by name. `hosts` are the nodes that machines may run on."""

    def __init__(self, api: Client, cache: Cache, hotplug: Hotplug, hosts: Sequence[str]) -> None:
        self._api = api
        self._cache = cache
        self._hotplug = hotplug
        self._hosts = hosts

    def reconcile(self, key: Key) -> None:
        """Bring the instance's pods and its part of the status to what its spec asks for."""
        instance = find(self._api, INSTANCES, key)
        if instance is None:
            return
        launchers = self._cache.pods_of(uid_of(instance))
        if shapes.phase_of(instance) in words.FINAL:
            self._end(instance, launchers)
            return
        if is_terminating(instance):
            return
        launcher = current_launcher(instance, launchers)
        if launcher is None:
            self._launch(instance)
            return
        self._leave_old_node(instance, launchers)
        self._advance(instance, launcher)

    def _launch(self, instance: Object) -> None:
        """Create the launcher pod unless a claim that it must mount is missing."""
        missing = self._missing_claim(instance)
        conditions = synchronized(instance, missing and f"PVC {missing} not found", words.PVC_NOT_FOUND)
        if not missing and not pods.list_launchers(self._api, instance):
            node = preferred_host(name_of(instance), self._hosts)
            self._api.create(PODS, pods.launcher(instance, node), namespace_of(instance))
        phase = shapes.phase_of(instance) if missing else words.SCHEDULING
        self._write(instance, {"phase": phase, "conditions": conditions})

    def _missing_claim(self, instance: Object) -> str:
        volumes = shapes.volumes_of(mapping(instance, "spec"))
        needed = [shapes.claim_of(volume) for volume in volumes if not shapes.is_hotpluggable(volume)]
        found = self._cache.claims(namespace_of(instance), volumes)
        return next((claim for claim in needed if claim and claim not in found), "")

    def _advance(self, instance: Object, launcher: Object) -> None:
        """Hand the instance to its node once the launcher runs, and keep its volumes in step."""
        status: Object = {"volumeStatus": self._hotplug.status(instance, launcher)}
        scheduled = shapes.is_ready(launcher)
        if scheduled and not text(instance, "status", "nodeName"):
            node = text(launcher, "spec", "nodeName")
            status |= {"phase": words.SCHEDULED, "nodeName": node}
            status["activePods"] = {uid_of(launcher): node}
        instance = self._write(instance, status)
        if scheduled:
            why = self._hotplug.sync(instance, launcher)
            self._write(instance, {"conditions": synchronized(instance, why)})

    def _leave_old_node(self, instance: Object, launchers: Sequence[Object]) -> None:
        """After a live migration, end what still runs for the instance on the node that it left."""
        node = text(instance, "status", "nodeName")
        if not node or shapes.is_migrating(instance):
            return
        state = mapping(instance, "status", "migrationState")
        for launcher in launchers:
            if name_of(launcher) == state.get("sourcePod") and text(launcher, "spec", "nodeName") != node:
                self._hotplug.end(launcher)
                remove(self._api, PODS, launcher)

    def _end(self, instance: Object, launchers: Sequence[Object]) -> None:
        """Delete all pods of an instance that ended; when it is being deleted too, let it go after them."""
        for launcher in launchers:
            if self._hotplug.end(launcher):
                remove(self._api, PODS, launcher)
        if is_terminating(instance) and not launchers:
            release(self._api, INSTANCES, instance, words.INSTANCE_FINALIZER)

    def _write(self, instance: Object, status: Object) -> Object:
        """Merge into the status what differs. An instance has no status subresource."""
        before = mapping(instance, "status")
        changes = {key: value for key, value in status.items() if before.get(key) != value}
        changes = {key: value for key, value in changes.items() if value or key in before}
        return amend(self._api, INSTANCES, instance, {"status": changes}) if changes else instance


def current_launcher(instance: Object, launchers: Sequence[Object]) -> Object | None:
    """Return the pod that the instance runs in: not the target of a migration that has not ended."""
    node = text(instance, "status", "nodeName")
    for launcher in launchers:
        here = text(launcher, "spec", "nodeName")
        target = words.MIGRATION_UID in labels_of(launcher)
        if here == node or (not node and not target):
            return launcher
    return None


def preferred_host(machine: str, hosts: Sequence[str]) -> str:
    """Return the host of a machine: always the same one, and neighbours in number on different ones."""
    number = re.search(r"(\d+)$", machine)
    index = int(number[1]) - 1 if number else zlib.crc32(machine.encode())
    return hosts[index % len(hosts)]
