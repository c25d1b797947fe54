"""Machines: an instance for each that shall run, hot-pluggable changes handed on to it, and their status.

The part of virt-controller that looks at VMs. The trap: a changed template reaches a running instance only
through the patch made here, and only for hot-pluggable volumes.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from harvester.kinds import INSTANCES, MACHINES
from kube.client import JsonPatch
from kube.errors import AlreadyExists, ApiError, NotFound
from kube.objects import annotations_of, is_terminating, items, mapping, name_of, namespace_of, strings, text
from kube.resources import CLAIMS
from sim.host import shapes, words
from sim.host.calls import amend, find, release, remove
from sim.host.hotplug_plan import plan_spec
from sim.host.machine_plan import Life, instance_of, machine_status, plan_life

if TYPE_CHECKING:
    from kube.client import Client
    from kube.objects import Object
    from kube.store import Key
    from sim.host.cache import Cache


FAILURE: Final = "Failure"
"""The condition that says why a machine's disks cannot be changed."""


class MachineController:
    """Works on VMs by name."""

    def __init__(self, api: Client, cache: Cache) -> None:
        self._api = api
        self._cache = cache

    def reconcile(self, key: Key) -> None:
        """Bring the machine's instance and status to what the machine asks for."""
        seen = self._cache.machine(*key)
        if seen is None or _is_settled(seen, self._cache.instance(*key)):
            return
        machine = find(self._api, MACHINES, key)
        if machine is None:
            return
        if not is_terminating(machine):
            machine = self._hold(machine)
        instance = find(self._api, INSTANCES, key)
        self._live(machine, instance)
        if is_terminating(machine) and instance is None:
            self._end(machine)
            return
        try:
            self._hotplug(machine, instance)
        except ApiError as error:
            self._tell(machine, instance, error)
            raise
        self._tell(machine, instance, None)

    def _hold(self, machine: Object) -> Object:
        held = strings(machine, "metadata", "finalizers")
        if words.MACHINE_FINALIZER in held:
            return machine
        finalizers = [*held, words.MACHINE_FINALIZER]
        return amend(self._api, MACHINES, machine, {"metadata": {"finalizers": finalizers}})

    def _live(self, machine: Object, instance: Object | None) -> None:
        match plan_life(machine, instance):
            case Life.START:
                with contextlib.suppress(AlreadyExists):
                    self._api.create(INSTANCES, instance_of(machine), namespace_of(machine))
            case Life.STOP if instance is not None:
                remove(self._api, INSTANCES, instance)
            case _:
                pass

    def _end(self, machine: Object) -> None:
        """Let a deleted machine go, and with it the claims that its annotation names."""
        removed = annotations_of(machine).get(words.REMOVED_CLAIMS, "")
        for claim in filter(None, removed.split(",")):
            with contextlib.suppress(NotFound):
                self._api.delete(CLAIMS, claim.strip(), namespace_of(machine))
        release(self._api, MACHINES, machine, words.MACHINE_FINALIZER)

    def _hotplug(self, machine: Object, instance: Object | None) -> None:
        patch = plan_spec(machine, instance) if instance is not None else []
        if patch:
            self._api.patch(INSTANCES, name_of(machine), JsonPatch(patch), namespace_of(machine))

    def _tell(self, machine: Object, instance: Object | None, failure: ApiError | None) -> None:
        """Write the machine's status where it differs; `failure` is why its disks cannot be changed."""
        status = machine_status(machine, instance)
        conditions = items(status, "conditions")
        status["conditions"] = (
            shapes.without_condition(conditions, FAILURE)
            if failure is None
            else shapes.with_condition(conditions, _failed(failure))
        )
        if status != mapping(machine, "status"):
            amend(self._api, MACHINES, machine, {"status": status}, "status")


def _is_settled(machine: Object, instance: Object | None) -> bool:
    """Tell whether the machine has all that it asks for, and its status says so."""
    return (
        not is_terminating(machine)
        and words.MACHINE_FINALIZER in strings(machine, "metadata", "finalizers")
        and plan_life(machine, instance) is Life.LEAVE
        and (instance is None or not plan_spec(machine, instance))
        and machine_status(machine, instance) == mapping(machine, "status")
        and not any(text(each, "type") == FAILURE for each in items(machine, "status", "conditions"))
    )


def _failed(failure: ApiError) -> Object:
    return {
        "type": FAILURE,
        "status": "True",
        "reason": words.HOTPLUG_ERROR,
        "message": failure.message,
    }
