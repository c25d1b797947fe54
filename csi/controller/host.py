"""The host as the attach engine sees it: live readings, and a cache that wakes who waits.

The cache is opened by the first call that needs it and closed when nobody has for a while: a hundred node
pods of upstream's chart run this half too, and must not cost the host anything while they are idle.

The trap: a cache may prove presence, never absence, and a watch that is frozen proves nothing at all. What
ends a call is read live.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import structlog

from csi.controller.changes import Changes
from csi.controller.claims import HostClaim, parse_claim
from csi.controller.host_reads import ATTACHMENT_PODS, HostReads
from csi.controller.layers import MachineView
from csi.errors import TimedOut
from harvester.attachment_pods import launcher_of, parse_attachment_pod
from harvester.kinds import INSTANCES, MACHINES
from harvester.machines import parse_instance, parse_machine
from kube.client import EVERYTHING, JsonPatch
from kube.informer import Informer
from kube.objects import dig, name_of
from kube.permissions import Permission
from kube.resources import CLAIMS, PODS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from csi.controller.changes import Key, Look, T
    from csi.controller.claims import HostClaims
    from csi.controller.layers import Survey
    from csi.deadline import Deadline
    from csi.model import VolumeId
    from harvester.machines import Machine, MachineName
    from kube.client import Client
    from kube.objects import Object
    from kube.resources import Resource
    from kube.store import Change

PERMISSIONS: Final = (
    Permission(MACHINES, ("list", "watch", "patch")),
    Permission(INSTANCES, ("list", "watch")),
    Permission(PODS, ("list", "watch")),
    Permission(CLAIMS, ("list", "watch")),
)

IDLE: Final = 600.0
"""Seconds after the last call until the watches end."""

_BY_LAUNCHER: Final = "launcher"
_KEPT: Final[Mapping[Resource, tuple[tuple[str, ...], ...]]] = {
    MACHINES: (
        ("spec", "template", "spec", "volumes"),
        ("spec", "template", "spec", "domain", "devices", "disks"),
        ("status", "conditions"),
    ),
    INSTANCES: (
        ("spec", "volumes"),
        ("status", "phase"),
        ("status", "nodeName"),
        ("status", "volumeStatus"),
        ("status", "migrationState"),
        ("status", "conditions"),
    ),
    PODS: (("spec", "nodeName"), ("spec", "volumes"), ("status",)),
    CLAIMS: (("spec",), ("status",)),
}
"""What is kept of an object beside its metadata: a namespace may hold a thousand machines."""


def machine_keys(name: MachineName) -> tuple[Key, ...]:
    """Return what to listen to for changes of a machine."""
    return (MACHINES.plural, name), (INSTANCES.plural, name), (PODS.plural, launcher_of(name))


def claim_key(volume: VolumeId) -> Key:
    """Return what to listen to for changes of a claim."""
    return CLAIMS.plural, volume


class HostView:
    """Looks at one namespace of the host. Thread-safe. Raises only CsiError, but for `patch_machine`."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        claims: HostClaims,
        *,
        changes: Changes | None = None,
        idle: float = IDLE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.changes = changes or Changes()
        self._client = client
        self._namespace = namespace
        self._claims = claims
        self._reads = HostReads(client, namespace)
        self._idle = idle
        self._clock = clock
        self._state = threading.Condition()
        self._informers: dict[Resource, Informer] = {}
        self._users = 0
        self._left_at = 0.0
        self._closed = False
        self._closer: threading.Thread | None = None
        self._log = structlog.get_logger()

    # --- readings ---

    def look(self, name: MachineName) -> MachineView:
        """Read one machine live."""
        return self._reads.look(name)

    def survey(self) -> Survey:
        """Read all machines live."""
        return self._reads.survey()

    def seen(self, name: MachineName) -> MachineView:
        """Return what the watches have heard of a machine; live while they have not heard everything once."""
        with self._state:
            stores = {kind: informer.store for kind, informer in self._informers.items() if informer.synced}
        if not stores.keys() >= {MACHINES, INSTANCES, PODS}:
            return self.look(name)
        machine = stores[MACHINES].get(name, self._namespace)
        instance = stores[INSTANCES].get(name, self._namespace)
        return MachineView(
            name,
            None if machine is None else parse_machine(machine),
            None if instance is None else parse_instance(instance),
            tuple(map(parse_attachment_pod, stores[PODS].by_index(_BY_LAUNCHER, launcher_of(name)))),
        )

    def patch_machine(self, name: MachineName, operations: Sequence[Object]) -> Machine:
        """Patch a VM and return it as it is then. Raises ApiError: what a refusal means, the caller knows."""
        patch = JsonPatch(operations)
        return parse_machine(self._client.patch(MACHINES, name, patch, self._namespace))

    # --- waiting ---

    def wait(self, keys: Collection[Key], look: Look[T], deadline: Deadline, what: Callable[[], str]) -> T:
        """Wait until `look` finds something; see csi.controller.changes."""
        return self.changes.wait(keys, look, deadline, what)

    def wait_for_claim(
        self, name: VolumeId, until: Callable[[HostClaim | None], bool], deadline: Deadline
    ) -> HostClaim | None:
        """Return the claim once `until` holds of it, or as a live read shows it when the time is over."""

        def look(live: bool) -> tuple[HostClaim | None] | None:
            claim = None if live else self._seen_claim(name)
            claim = claim or self._claims.find(name)
            return (claim,) if until(claim) else None

        try:
            with self.open():
                (claim,) = self.wait([claim_key(name)], look, deadline, lambda: f"host claim {name}")
        except TimedOut:
            return self._claims.find(name)
        return claim

    def _seen_claim(self, name: VolumeId) -> HostClaim | None:
        with self._state:
            informer = self._informers.get(CLAIMS)
        found = None if informer is None else informer.store.get(name, self._namespace)
        return None if found is None else parse_claim(found)

    # --- the life of the cache ---

    @contextmanager
    def open(self) -> Iterator[None]:
        """Keep the watches open meanwhile, and for a while after."""
        with self._state:
            self._users += 1
            if not self._informers and not self._closed:
                self._start()
        try:
            yield
        finally:
            with self._state:
                self._users -= 1
                self._left_at = self._clock()
                self._state.notify_all()

    @property
    def is_open(self) -> bool:
        """Whether there are watches now, be it their last moment."""
        return self._closer is not None and self._closer.is_alive()

    def close(self) -> None:
        """End the watches for good; calls that still run look live."""
        with self._state:
            self._closed = True
            closer = self._closer
            self._state.notify_all()
        self.changes.ring_all()
        if closer is not None:
            closer.join()

    def _start(self) -> None:
        """Start the watches and the thread that ends them. Called with the lock held."""
        for kind, kept in _KEPT.items():
            informer = Informer(
                self._client,
                kind,
                self._namespace,
                ATTACHMENT_PODS if kind is PODS else EVERYTHING,
                transform=lambda obj, kept=kept: _reduced(obj, kept),  # type: ignore[misc]  # bound per kind
                indexers={_BY_LAUNCHER: _launcher} if kind is PODS else None,
            )
            informer.on_change(self._ringer(kind))
            informer.start()
            self._informers[kind] = informer
        self._closer = threading.Thread(target=self._close_when_idle, name="host-view", daemon=True)
        self._closer.start()
        self._log.info("host watches opened", namespace=self._namespace)

    def _ringer(self, kind: Resource) -> Callable[[Change], None]:
        def ring(change: Change) -> None:
            for obj in (change.old, change.new):
                if obj is not None:
                    names = _launcher(obj) if kind is PODS else (name_of(obj),)
                    self.changes.ring(*((kind.plural, name) for name in names))

        return ring

    def _close_when_idle(self) -> None:
        with self._state:
            while not self._closed and (left := self._left()) > 0:
                self._state.wait(left)
            informers, self._informers = self._informers, {}
        for informer in informers.values():
            informer.stop()
        self._log.info("host watches closed", namespace=self._namespace)

    def _left(self) -> float:
        """Return the seconds until the watches end if nobody comes."""
        return self._idle if self._users else self._left_at + self._idle - self._clock()


def _launcher(pod: Object) -> tuple[str, ...]:
    return (parse_attachment_pod(pod).launcher,)


def _reduced(obj: Object, kept: Sequence[tuple[str, ...]]) -> Object:
    """Return a copy of the object with its metadata and what stands at these paths."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    reduced: Object = {"metadata": metadata}
    for path in kept:
        value = dig(obj, *path)
        if value is not None:
            here = reduced
            for step in path[:-1]:
                here = here.setdefault(step, {})
            here[path[-1]] = value
    return reduced
