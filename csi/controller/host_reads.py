"""Live readings of the host: one machine, or all of them. What is answered "gone" or "free" is read here.

The objects are read in the order in which an attachment passes them, template before spec before pod, so
that a disk on its way in is seen by a later reading if an earlier one missed it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from csi.controller.failures import host_call
from csi.controller.layers import MachineView, Survey
from csi.controller.names import is_object_name
from csi.controller.sharing import SharedReading
from harvester.attachment_pods import SELECTED, launcher_of, parse_attachment_pod
from harvester.kinds import INSTANCES, MACHINES
from harvester.machines import parse_instance, parse_machine
from kube.client import EVERYTHING, Selector
from kube.errors import Expired, NotFound
from kube.permissions import Permission
from kube.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harvester.attachment_pods import AttachmentPod
    from harvester.machines import MachineName
    from kube.client import Client
    from kube.objects import Object
    from kube.resources import Resource

PERMISSIONS: Final = (
    Permission(MACHINES, ("get", "list")),
    Permission(INSTANCES, ("get", "list")),
    Permission(PODS, ("list",)),
)

ATTACHMENT_PODS: Final = Selector(labels=SELECTED)
_PAGE: Final = 50


class HostReads:
    """Reads machines, instances and attachment pods of our namespace. Raises only CsiError."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._lock = threading.Lock()
        self._machines: dict[MachineName, SharedReading[MachineView]] = {}
        self.survey: Final = SharedReading(self._survey)
        """Read all machines; a Survey. Costs three lists, however many ask at once."""

    def look(self, name: MachineName) -> MachineView:
        """Read one machine, which need not exist."""
        if not is_object_name(name):
            return MachineView(name)
        with self._lock:
            reading = self._machines.setdefault(name, SharedReading(lambda: self._look(name)))
        return reading()

    def _look(self, name: MachineName) -> MachineView:
        with host_call(f"look at machine {name}"):
            machine, instance = self._find(MACHINES, name), self._find(INSTANCES, name)
            return MachineView(
                name,
                None if machine is None else parse_machine(machine),
                None if instance is None else parse_instance(instance),
                tuple(pod for pod in self._pods() if pod.launcher == launcher_of(name)),
            )

    def _survey(self) -> Survey:
        with host_call("look at all machines"):
            machines = [parse_machine(obj) for obj in self._all(MACHINES)]
            instances = [parse_instance(obj) for obj in self._all(INSTANCES)]
            return Survey({m.name: m for m in machines}, {i.name: i for i in instances}, self._pods())

    def _pods(self) -> tuple[AttachmentPod, ...]:
        return tuple(parse_attachment_pod(obj) for obj in self._all(PODS, ATTACHMENT_PODS))

    def _find(self, resource: Resource, name: str) -> Object | None:
        try:
            return self._client.get(resource, name, self._namespace)
        except NotFound:
            return None

    def _all(self, resource: Resource, selector: Selector = EVERYTHING) -> list[Object]:
        """Read a whole list page by page; at once when the server forgets the pages meanwhile."""
        try:
            return list(self._pages(resource, selector))
        except Expired:
            return self._client.list(resource, self._namespace, selector).items

    def _pages(self, resource: Resource, selector: Selector) -> Iterator[Object]:
        page = self._client.list(resource, self._namespace, selector, limit=_PAGE)
        yield from page.items
        while page.proceed:
            page = self._client.list(resource, self._namespace, selector, limit=_PAGE, proceed=page.proceed)
            yield from page.items
