"""Live migrations: a second launcher and attachment pod on another host node, then the instance moves over.

The trap: while it lasts both nodes hold every volume of the machine, and that is legal; and a disk that is
added meanwhile gets no further than AttachedToNode until the move is over.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from harvester.kinds import INSTANCES
from kube.objects import items, labels_of, mapping, name_of, namespace_of, text, uid_of
from kube.resources import PODS
from kube.store import Key
from sim.host import pods, shapes, words
from sim.host.calls import amend, find, now
from sim.host.instances import current_launcher
from sim.host.timers import Timers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kube.client import Client
    from kube.objects import Object
    from sim.host.cache import Cache
    from sim.host.profile import Profile


class MigrationController:
    """Works on VirtualMachineInstanceMigrations by name."""

    def __init__(
        self, api: Client, cache: Cache, hosts: Sequence[str], profile: Callable[[], Profile]
    ) -> None:
        self._api = api
        self._cache = cache
        self._hosts = hosts
        self._profile = profile
        self._moving = Timers()

    def reconcile(self, key: Key) -> float | None:
        """Bring the migration one step on; return the seconds after which to look again."""
        migration = find(self._api, words.MIGRATIONS, key)
        if migration is None or shapes.phase_of(migration) in words.FINAL:
            return None
        instance = find(self._api, INSTANCES, Key(key.namespace, text(migration, "spec", "vmiName")))
        if instance is None or not _may_move(instance):
            self._tell(migration, words.FAILED)
            return None
        return self._step(migration, instance)

    def _step(self, migration: Object, instance: Object) -> float | None:
        launchers = pods.list_launchers(self._api, instance)
        target = next((p for p in launchers if _is_target(p, migration)), None)
        if target is None:
            node = text(instance, "status", "nodeName")
            other = next(itertools.dropwhile(node.__eq__, self._hosts))
            labels = {words.MIGRATION_UID: uid_of(migration)}
            self._api.create(PODS, pods.launcher(instance, other, labels), namespace_of(instance))
            self._tell(migration, words.SCHEDULING)
            return None
        attachment = self._target_attachment(instance, target)
        if not shapes.is_ready(target) or (attachment is not None and not shapes.is_ready(attachment)):
            return None
        source = current_launcher(instance, [p for p in launchers if p is not target])
        return self._move(migration, instance, (source, target), uid_of(attachment or {}))

    def _target_attachment(self, instance: Object, target: Object) -> Object | None:
        """Return the attachment pod on the target node, created when needed; None without hot-plugged
        volumes."""
        volumes = shapes.hotplug_volumes(instance)
        if not volumes or not shapes.is_ready(target):
            return None
        live = pods.list_attachments(self._api, namespace_of(instance))
        there = next((pod for pod in live if shapes.owned_by(pod, uid_of(target))), None)
        return there or self._api.create(PODS, pods.attachment(target, volumes), namespace_of(instance))

    def _move(
        self, migration: Object, instance: Object, launchers: tuple[Object | None, Object], attachment: str
    ) -> float | None:
        if not shapes.is_migrating(instance):
            self._begin(migration, instance, launchers, attachment)
            return None
        if left := self._moving.left(uid_of(migration), self._profile().migrate):
            return left
        _, target = launchers
        node = text(target, "spec", "nodeName")
        state = {**mapping(instance, "status", "migrationState"), "endTimestamp": now(), "completed": True}
        gone = dict.fromkeys(mapping(instance, "status", "activePods"))  # None takes a key out of a map
        active = {**gone, uid_of(target): node}
        status = {"nodeName": node, "migrationState": state, "activePods": active}
        amend(self._api, INSTANCES, instance, {"status": status})
        self._tell(migration, words.SUCCEEDED)
        return None

    def _begin(
        self, migration: Object, instance: Object, launchers: tuple[Object | None, Object], attachment: str
    ) -> None:
        source, target = launchers
        state: Object = {
            "migrationUid": uid_of(migration),
            "mode": "PreCopy",
            "startTimestamp": now(),
            "endTimestamp": None,
            "completed": None,
            "sourceNode": text(instance, "status", "nodeName"),
            "targetNode": text(target, "spec", "nodeName"),
            "sourcePod": name_of(source or {}),
            "targetPod": name_of(target),
            "targetAttachmentPodUID": attachment or None,
        }
        amend(self._api, INSTANCES, instance, {"status": {"migrationState": state}})
        self._tell(migration, words.RUNNING)

    def _tell(self, migration: Object, phase: str) -> None:
        if shapes.phase_of(migration) != phase:
            amend(self._api, words.MIGRATIONS, migration, {"status": {"phase": phase}}, "status")


def _is_target(launcher: Object, migration: Object) -> bool:
    return labels_of(launcher).get(words.MIGRATION_UID) == uid_of(migration)


def _may_move(instance: Object) -> bool:
    """Tell whether the instance runs and nothing in its conditions forbids the move."""
    fixed = any(
        text(each, "type") == "LiveMigratable" and text(each, "status") == "False"
        for each in items(instance, "status", "conditions")
    )
    return shapes.phase_of(instance) == words.RUNNING and not fixed
