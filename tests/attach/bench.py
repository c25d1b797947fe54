"""An attach engine, or several as in several processes, over one simulated host."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from csi.controller.attachments import Attachments
from csi.controller.changes import Changes, Patience
from csi.controller.claims import HostClaim, HostClaims, parse_claim
from csi.controller.classes import HostClasses
from csi.controller.commits import Commits
from csi.controller.committer import Pace
from csi.controller.holders import Holders
from csi.controller.host import HostView
from csi.controller.host_attachments import HostAttachments
from csi.controller.machine_ids import MachinesByName
from csi.controller.marks import NEVER_ATTACHED, Mark
from csi.controller.ownership import Ownership
from csi.deadline import Deadline
from csi.errors import Busy, Cancelled, TimedOut, Unavailable
from csi.model import AccessMode, Capability, NodeId, PublishRequest, VolumeId
from harvester.kinds import INSTANCES, MACHINES
from harvester.machines import parse_instance
from kube.backoff import Backoff
from kube.client import JsonPatch
from kube.objects import items, text
from kube.resources import CLAIMS, VOLUME_ATTACHMENTS
from kube.rest import Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kube.client import Client
    from kube.objects import Object
    from kube.rest import RestClient
    from sim.simulation import Simulation

T = TypeVar("T")

CLUSTER: Final = "cluster-1"
DISK: Final = Capability(AccessMode.SINGLE_NODE_WRITER, fs_type="ext4")
PATIENCE: Final = timedelta(seconds=0.6)
"""How long a mark of a process that died counts here."""
NOT_FINAL: Final = (Busy, Cancelled, TimedOut, Unavailable)
QUICK_CALLS: Final = Limits(connect=1.0, answer=2.0)
QUICK: Final = Pace(collect=0.02, trouble=Backoff(first=0.02, limit=0.1))


@dataclass
class Engine:
    """The controller's attach half of one process."""

    attachments: Attachments
    host: HostView
    commits: Commits

    def publish(self, volume: str, machine: str, seconds: float = 10.0) -> Mapping[str, str]:
        """Call ControllerPublishVolume."""
        request = PublishRequest(VolumeId(volume), NodeId(machine), DISK)
        return self.attachments.publish(request, Deadline(seconds))

    def unpublish(self, volume: str, machine: str | None, seconds: float = 10.0) -> None:
        """Call ControllerUnpublishVolume."""
        node = None if machine is None else NodeId(machine)
        self.attachments.unpublish(VolumeId(volume), node, Deadline(seconds))

    def close(self) -> None:
        """End the process."""
        self.commits.close()
        self.host.close()


def engine(client: Client, namespace: str, pace: Pace, idle: float, patience: timedelta) -> Engine:
    """Put an engine together, as the composition root does, with times for a test."""
    claims = HostClaims(client, namespace)
    ownership = Ownership(None, CLUSTER)
    changes = Changes(Patience(silence=0.3, stall=8.0))
    host = HostView(client, namespace, claims, changes=changes, idle=idle)
    holders = Holders(client, claims, HostClasses(client), ownership, patience=patience)
    commits = Commits(host, holders, pace)
    host_attachments = HostAttachments(client, changes.patience)
    attachments = Attachments(host, claims, holders, commits, host_attachments, MachinesByName(), ownership)
    return Engine(attachments, host, commits)


class Call(Generic[T]):
    """A call that runs in a thread of its own."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._result: Future[T] = Future()
        self._thread = threading.Thread(target=self._run, args=(call,), daemon=True)
        self._thread.start()

    def _run(self, call: Callable[[], T]) -> None:
        try:
            self._result.set_result(call())
        except BaseException as error:  # noqa: BLE001 - told to whoever asks for the result
            self._result.set_exception(error)

    def result(self) -> T:
        """Return what the call returned, or raise what it raised."""
        return self._result.result(timeout=20)

    def error(self) -> BaseException | None:
        """Return what the call raised, None when it succeeded."""
        return self._result.exception(timeout=20)


class Bench:
    """One host, the guest's machines on it, and what tests do there."""

    def __init__(self, simulation: Simulation, connect: Callable[[Limits], RestClient]) -> None:
        self.admin = simulation.admin
        self.host = simulation.host
        self.server = simulation.server
        self.faults = simulation.server.faults
        self.namespace = simulation.namespace
        self.machines = simulation.machines
        self.user = f"system:serviceaccount:{self.namespace}:{self.namespace}"
        """Who the guest is to the host's API server."""
        self._connect = connect
        self._stack = ExitStack()

    def engine(
        self,
        pace: Pace = QUICK,
        *,
        idle: float = 600.0,
        limits: Limits = QUICK_CALLS,
        patience: timedelta = PATIENCE,
    ) -> Engine:
        """Start one more process, with the guest's role."""
        client = self._connect(limits)
        self._stack.callback(client.close)
        started = engine(client, self.namespace, pace, idle, patience)
        self._stack.callback(started.close)
        return started

    def claim(
        self,
        name: str,
        *,
        storage_class: str = "harvester-longhorn",
        mode: str = "ReadWriteMany",
        mark: Mark | None = None,
    ) -> HostClaim:
        """Make a claim, ours unless `mark` says something else, and wait until it binds if it does."""
        ours = Mark(cluster=CLUSTER, request=name, fresh=NEVER_ATTACHED, attached_to="")
        spec: Object = {
            "accessModes": [mode],
            "volumeMode": "Block",
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": "1Gi"}},
        }
        metadata: Object = {"name": name, "annotations": (ours if mark is None else mark).annotations()}
        body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
        self.admin.create(CLAIMS, body, self.namespace)
        if storage_class != "lvm":
            self.until(lambda: self.read(name).bound)
        return self.read(name)

    def read(self, name: str) -> HostClaim:
        """Return the claim as it is now."""
        return parse_claim(self.admin.get(CLAIMS, name, self.namespace))

    def holder(self, name: str) -> str | None:
        """Return the machine that the claim's mark names, "" for a free claim, None without a mark."""
        mark = self.read(name).mark
        return mark.holder.machine if mark.holder else mark.attached_to

    def template(self, machine: str) -> list[str]:
        """Return the names of the volumes in the machine's template, boot disks left out."""
        volumes = items(
            self.admin.get(MACHINES, machine, self.namespace), "spec", "template", "spec", "volumes"
        )
        return [v["name"] for v in volumes if v.get("persistentVolumeClaim", {}).get("hotpluggable")]

    def plug(self, machine: str, name: str, claim: str) -> None:
        """Hot-plug a claim under a name of one's own, as a person does in Harvester's dashboard."""
        path = "/spec/template/spec/"
        volume = {"name": name, "persistentVolumeClaim": {"claimName": claim, "hotpluggable": True}}
        disk = {"name": name, "disk": {"bus": "scsi"}}
        operations: list[Object] = [
            {"op": "add", "path": f"{path}volumes/-", "value": volume},
            {"op": "add", "path": f"{path}domain/devices/disks/-", "value": disk},
        ]
        self.admin.patch(MACHINES, machine, JsonPatch(operations), self.namespace)

    def disks(self, machine: str) -> dict[str, str]:
        """Return the hot-plugged disks of the running machine with their phases."""
        instance = self.admin.get(INSTANCES, machine, self.namespace)
        statuses = items(instance, "status", "volumeStatus")
        return {s["name"]: text(s, "phase") for s in statuses if "hotplugVolume" in s}

    def attachments(self, name: str) -> list[str]:
        """Return the host nodes to which the claim's volume is attached."""
        volume = self.read(name).volume_name
        found = self.admin.list(VOLUME_ATTACHMENTS).items
        return [a["spec"]["nodeName"] for a in found if a["spec"]["source"]["persistentVolumeName"] == volume]

    def is_migrating(self, machine: str) -> bool:
        """Tell whether a live migration of the machine is under way."""
        instance = parse_instance(self.admin.get(INSTANCES, machine, self.namespace))
        return instance.migrating

    def is_ready(self, machine: str, name: str) -> bool:
        """Tell whether the volume is in the machine on every layer."""
        shown = name in self.template(machine) and self.disks(machine).get(name) == "Ready"
        return shown and bool(self.attachments(name))

    def is_gone(self, machine: str, name: str) -> bool:
        """Tell whether no layer shows the volume any more."""
        return (
            name not in self.template(machine)
            and name not in self.disks(machine)
            and not self.attachments(name)
        )

    def until(self, true: Callable[[], bool], limit: float = 10.0) -> None:
        """Wait until something is true on the host."""
        assert self.host.wait_until(true, limit), "the host did not come to the state that the test waits for"

    def now(self) -> datetime:
        """Return the time, for marks."""
        return datetime.now(UTC)

    def close(self) -> None:
        """End all processes."""
        self._stack.close()


def poll(true: Callable[[], bool], limit: float = 10.0) -> None:
    """Wait until something is true of which the host does not tell."""
    pause, end = threading.Event(), time.monotonic() + limit
    while not true():
        assert time.monotonic() < end, "what the test waits for did not come true"
        pause.wait(0.01)


def asked_again(call: Callable[[], T], limit: float = 10.0, also: type[Exception] | None = None) -> T:
    """Call until it succeeds, as sidecars do: they call again after any error that is not final."""
    pause, end = threading.Event(), time.monotonic() + limit
    passing = NOT_FINAL if also is None else (*NOT_FINAL, also)
    while True:
        try:
            return call()
        except passing:
            if time.monotonic() > end:
                raise
            pause.wait(0.02)
