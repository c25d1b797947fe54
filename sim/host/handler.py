"""What happens to an instance on its node: boot, disks in and out, power off.

virt-handler's part. The trap: while the instance migrates, nothing here touches it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harvester.kinds import INSTANCES
from kube.objects import dig, is_terminating, items, mapping, name_of, namespace_of, text, uid_of
from kube.quantity import parse_bytes
from sim.host import shapes, words
from sim.host.calls import amend, find
from sim.host.disks import Disk
from sim.host.handler_plan import Domain, Steps, plan_steps, ready_to_boot, volume_status
from sim.host.machine_plan import running_conditions
from sim.host.timers import Timers

if TYPE_CHECKING:
    from collections.abc import Callable

    from kube.client import Client
    from kube.objects import Object
    from kube.store import Key
    from sim.host.cache import Cache
    from sim.host.disks import GuestDisks, Images
    from sim.host.profile import Profile

BOOT_SIZE = 40 << 30
"""Bytes of a boot disk whose claim is not known."""


class HandlerController:
    """Works on VMIs by name; the one that touches the machines' disks."""

    def __init__(
        self, api: Client, cache: Cache, disks: GuestDisks, images: Images, profile: Callable[[], Profile]
    ) -> None:
        self._api = api
        self._cache = cache
        self._disks = disks
        self._images = images
        self._profile = profile
        self._booting = Timers()
        self._mounted: dict[Key, tuple[str, frozenset[str]]] = {}

    def reconcile(self, key: Key) -> float | None:
        """Do the next step for the instance; return the seconds after which to look again."""
        seen = self._cache.instance(*key)
        if seen is not None and self._is_settled(key, seen):
            return None
        instance = find(self._api, INSTANCES, key)
        uid, _ = self._mounted.get(key, ("", frozenset()))
        if instance is None or uid != uid_of(instance):
            self._power_off(key)
        if instance is None or shapes.phase_of(instance) in words.FINAL:
            return None
        if is_terminating(instance):
            self._power_off(key)
            self._write(instance, _off(instance))
            return None
        if shapes.is_migrating(instance) or not text(instance, "status", "nodeName"):
            return None
        return self._step(key, instance)

    def _is_settled(self, key: Key, instance: Object) -> bool:
        """Tell whether a running instance has what it asks for, and its status says so."""
        uid, _ = self._mounted.get(key, ("", frozenset()))
        return (
            uid == uid_of(instance)
            and shapes.phase_of(instance) == words.RUNNING
            and not is_terminating(instance)
            and plan_steps(instance, self._domain(key)) == Steps()
            and not _changes(instance, self._status(key, instance))
        )

    def _step(self, key: Key, instance: Object) -> float | None:
        """Tell what was done before, else do one more step and tell it: each step is seen by itself."""
        if self._tell(key, instance):
            return None
        if self._act(key, instance):
            return None if self._tell(key, instance) else 0.0
        if shapes.phase_of(instance) != words.SCHEDULED or not ready_to_boot(instance, self._domain(key)):
            return None
        if left := self._booting.left(uid_of(instance), self._profile().boot):
            return left
        self._boot(key, instance)
        return None

    def _act(self, key: Key, instance: Object) -> bool:
        """Do the next step; tell whether there was one."""
        steps = plan_steps(instance, self._domain(key))
        for volume in steps.unplug:
            self._disks.unplug(name_of(instance), volume)
        for volume in sorted(steps.plug):
            self._plug(instance, volume)
        mounted = (self._domain(key).mounted - steps.unmount) | steps.mount
        self._mounted[key] = (uid_of(instance), mounted)
        return steps != Steps()

    def _tell(self, key: Key, instance: Object) -> bool:
        """Write what is on the node; tell whether something was to be written."""
        return self._write(instance, self._status(key, instance))

    def _status(self, key: Key, instance: Object) -> Object:
        status: Object = {"volumeStatus": self._volume_status(key, instance)}
        if shapes.phase_of(instance) == words.RUNNING:
            status["conditions"] = running_conditions(instance, self._claims(instance))
        return status

    def _boot(self, key: Key, instance: Object) -> None:
        """Start the domain with all its disks."""
        self._disks.boot(name_of(instance), self._boot_size(instance))
        for volume in sorted(self._domain(key).mounted):
            self._plug(instance, volume)
        status: Object = {
            "phase": words.RUNNING,
            "conditions": running_conditions(instance, self._claims(instance)),
            "volumeStatus": self._volume_status(key, instance),
            "guestOSInfo": {"id": "sles", "name": "SLES", "versionId": "15.7"},
        }
        self._write(instance, status)
        self._booting.forget(uid_of(instance))

    def _plug(self, instance: Object, volume: str) -> None:
        spec = mapping(instance, "spec")
        source = next(each for each in shapes.volumes_of(spec) if text(each, "name") == volume)
        disk = next(each for each in shapes.disks_of(spec) if text(each, "name") == volume)
        claim = self._cache.claim(namespace_of(instance), shapes.claim_of(source))
        image = self._images.path(text(claim, "spec", "volumeName"))
        readonly = dig(source, "persistentVolumeClaim", "readOnly") is True
        self._disks.plug(name_of(instance), Disk(volume, image, text(disk, "serial"), readonly))

    def _power_off(self, key: Key) -> None:
        if self._mounted.pop(key, None) is not None:
            self._disks.power_off(key.name)

    def _domain(self, key: Key) -> Domain:
        _, mounted = self._mounted.get(key, ("", frozenset()))
        return Domain(mounted, frozenset(self._disks.targets(key.name)))

    def _volume_status(self, key: Key, instance: Object) -> list[Object]:
        targets = dict(self._disks.targets(key.name))
        boot = [v for v in shapes.volumes_of(mapping(instance, "spec")) if not shapes.is_hotpluggable(v)]
        targets |= {text(volume, "name"): f"vd{chr(ord('a') + index)}" for index, volume in enumerate(boot)}
        return volume_status(instance, self._domain(key), targets)

    def _claims(self, instance: Object) -> dict[str, Object]:
        return self._cache.claims(namespace_of(instance), shapes.volumes_of(mapping(instance, "spec")))

    def _boot_size(self, instance: Object) -> int:
        for volume in shapes.volumes_of(mapping(instance, "spec")):
            claim = self._cache.claim(namespace_of(instance), shapes.claim_of(volume))
            if not shapes.is_hotpluggable(volume) and claim is not None:
                return parse_bytes(text(claim, "status", "capacity", "storage")) or BOOT_SIZE
        return BOOT_SIZE

    def _write(self, instance: Object, status: Object) -> bool:
        """Merge into the status what differs; tell whether something did."""
        changes = _changes(instance, status)
        if changes:
            amend(self._api, INSTANCES, instance, {"status": changes})
        return bool(changes)


def _changes(instance: Object, status: Object) -> Object:
    before = mapping(instance, "status")
    return {key: value for key, value in status.items() if before.get(key) != value}


def _off(instance: Object) -> Object:
    """Return the status of an instance whose domain has ended."""
    conditions = shapes.without_condition(items(instance, "status", "conditions"), "AgentConnected")
    stopped = {"type": "Ready", "status": "False", "reason": "GuestNotRunning"}
    return {"phase": words.SUCCEEDED, "conditions": shapes.with_condition(conditions, stopped)}
