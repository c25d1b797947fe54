"""Look at a host and wait for it: what tests of hot-plug ask again and again."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from harvester.kinds import INSTANCES
from kube.errors import NotFound
from kube.objects import items, name_of, text
from kube.resources import CLAIMS, PODS, VOLUME_ATTACHMENTS
from tests.support.guest import Guest

if TYPE_CHECKING:
    from collections.abc import Callable

    from kube.client import Client
    from kube.objects import Object
    from sim.host.host import Host

LIMIT = 10.0
"""Seconds after which a wait has failed."""


class OnHost(Guest):
    """A guest that also looks at the host, live, and waits until the host has come to something."""

    def __init__(self, api: Client, namespace: str, host: Host) -> None:
        super().__init__(api, namespace)
        self.host = host

    def until(self, true: Callable[[], bool]) -> None:
        """Wait until it is true, asked whenever the host has seen a change."""
        assert self.host.wait_until(true, LIMIT)

    def shown(self, machine: str, volume: str) -> tuple[str, str]:
        """Return phase and target of a volume's entry, two empty strings without one."""
        try:
            entry = self.entry(machine, volume)
        except NotFound:
            return "", ""
        return text(entry, "phase"), text(entry, "target")

    def phase(self, machine: str, volume: str) -> str:
        """Return the phase of a volume's entry, "" without one."""
        return self.shown(machine, volume)[0]

    def bound(self, claim: str) -> str:
        """Create a claim, wait until it is Bound, and return its volume."""
        self.claim(claim)
        self.until(lambda: self.claim_phase(claim) == "Bound")
        return self.volume_of(claim)

    def plugged(self, machine: str, *claims: str) -> None:
        """Plug claims one after another and wait until each is Ready."""
        for claim in claims:
            self.plug(machine, claim)
            self.until(functools.partial(self._is_ready, machine, claim))

    def unplugged(self, machine: str, claim: str) -> None:
        """Unplug a claim and wait until no layer shows it."""
        self.unplug(machine, claim)
        self.until(lambda: self.shown(machine, claim) == ("", "") and not self.attached(claim))

    def _is_ready(self, machine: str, claim: str) -> bool:
        return self.phase(machine, claim) == "Ready"

    def claim_phase(self, claim: str) -> str:
        """Return the phase of a claim, "" without one."""
        try:
            return text(self.api.get(CLAIMS, claim, self.namespace), "status", "phase")
        except NotFound:
            return ""

    def volume_of(self, claim: str) -> str:
        """Return the name of the claim's volume."""
        return text(self.api.get(CLAIMS, claim, self.namespace), "spec", "volumeName")

    def attached(self, claim: str) -> list[str]:
        """Return the host nodes that the claim's volume has VolumeAttachments to."""
        volume = self.volume_of(claim)
        found = self.api.list(VOLUME_ATTACHMENTS).items
        mine = [a for a in found if text(a, "spec", "source", "persistentVolumeName") == volume]
        return sorted(text(attachment, "spec", "nodeName") for attachment in mine)

    def pods(self) -> dict[str, set[str]]:
        """Return the attachment pods with the hot-plugged volumes that each mounts."""
        found = [p for p in self.api.list(PODS, self.namespace).items if name_of(p).startswith("hp-volume-")]
        return {name_of(pod): _mounted(pod) for pod in found}

    def condition(self, machine: str, kind: str) -> Object | None:
        """Return a condition of the machine's instance."""
        instance = self.api.get(INSTANCES, machine, self.namespace)
        found = (c for c in items(instance, "status", "conditions") if text(c, "type") == kind)
        return next(found, None)


def _mounted(pod: Object) -> set[str]:
    return {text(v, "name") for v in items(pod, "spec", "volumes") if "persistentVolumeClaim" in v}
