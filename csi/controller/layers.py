"""Where a volume shows on the host: one machine as a look finds it, and the layers on which it has it.

The layers, in the order in which an attachment passes them: the VM's template (what shall be), the VMI's
spec, the VMI's status, the attachment pod, the host's VolumeAttachment. They change at different moments, in
both directions; a volume is free only when none of them shows it.

The trap: what a VMI that has ended still lists is in no machine any more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from harvester.attachment_pods import launcher_of
from harvester.machines import FINAL_PHASES, MachineName, VolumeStatus

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from csi.model import VolumeId
    from harvester.attachment_pods import AttachmentPod
    from harvester.machines import Instance, Machine, MachineUid


class Layer(Enum):
    """A place that can show a volume; the value names it in an error's sentence."""

    TEMPLATE = "the template of VM"
    SPEC = "the running spec of VM"
    STATUS = "the disk status of VM"
    POD = "an attachment pod of VM"
    HOST = "a host node"


@dataclass(frozen=True, slots=True)
class Trace:
    """One layer that shows a volume. `where` is a machine's name, for Layer.HOST the host node's."""

    layer: Layer
    where: str
    detail: str = ""

    def __str__(self) -> str:
        """Describe the trace in an error's sentence."""
        return f"{self.layer.value} {self.where}" + (f" ({self.detail})" if self.detail else "")


@dataclass(frozen=True, slots=True)
class MachineView:
    """One machine as one look shows it; `machine` and `instance` are None where there is no such object."""

    name: MachineName
    machine: Machine | None = None
    instance: Instance | None = None
    pods: tuple[AttachmentPod, ...] = field(default=())
    """Its attachment pods, both ends' during a live migration."""

    @property
    def uid(self) -> MachineUid | None:
        """UID of the VM."""
        return None if self.machine is None else self.machine.uid

    @property
    def live(self) -> Instance | None:
        """The instance unless it has ended."""
        ended = self.instance is None or self.instance.phase in FINAL_PHASES
        return None if ended else self.instance

    @property
    def host_nodes(self) -> frozenset[str]:
        """Host nodes where its disks may be attached: its own, its pods', both ends of the last migration."""
        nodes = {pod.node for pod in self.pods}
        if self.instance is not None:
            nodes.add(self.instance.node)
            if self.instance.migration is not None:
                nodes |= {self.instance.migration.source_node, self.instance.migration.target_node}
        return frozenset(nodes - {""})


def traces(view: MachineView, volume: VolumeId) -> tuple[Trace, ...]:
    """Return the layers on which the machine shows the volume, under whatever disk name."""
    return tuple(_traces(view, volume))


def _traces(view: MachineView, volume: VolumeId) -> Iterator[Trace]:
    if view.machine is not None and (entry := view.machine.volume_of(volume)):
        yield Trace(Layer.TEMPLATE, view.name, _as_disk(entry.name, volume))
    if (instance := view.live) is not None:
        if entry := instance.volume_of(volume):
            yield Trace(Layer.SPEC, view.name, _as_disk(entry.name, volume))
        for status in instance.statuses:
            if volume in {status.claim, "" if status.claim else status.name}:
                yield Trace(Layer.STATUS, view.name, describe_status(status))
    for pod in view.pods:
        if volume in pod.claims and not pod.ended:
            yield Trace(Layer.POD, view.name, str(pod))


def _as_disk(name: str, volume: VolumeId) -> str:
    return "" if name == volume else f"as disk {name}"


def describe_status(status: VolumeStatus) -> str:
    """Say how far a disk is, in the host's words."""
    said = ": ".join(filter(None, (status.reason, status.message)))
    where = f"phase {status.phase or 'none'}, target {status.target or 'none'}"
    return f"{where}, {said}" if said else where


def in_words(found: tuple[Trace, ...]) -> str:
    """List traces for an error's sentence."""
    return "; ".join(map(str, found)) or "nothing"


@dataclass(frozen=True, slots=True)
class Survey:
    """All machines of the namespace as one live reading shows them."""

    machines: Mapping[MachineName, Machine]
    instances: Mapping[MachineName, Instance]
    pods: tuple[AttachmentPod, ...]

    def view(self, name: MachineName) -> MachineView:
        """Return what the reading shows of one machine, which need not exist."""
        launcher = launcher_of(name)
        pods = tuple(pod for pod in self.pods if pod.launcher == launcher)
        return MachineView(name, self.machines.get(name), self.instances.get(name), pods)

    def holders(self, volume: VolumeId) -> tuple[Trace, ...]:
        """Return every trace of the volume; `where` is "" for a pod of a machine that is gone."""
        names = self.machines.keys() | self.instances.keys()
        of_machines = [trace for name in sorted(names) for trace in traces(self.view(name), volume)]
        launchers = {launcher_of(name) for name in names}
        strays = [pod for pod in self.pods if pod.launcher not in launchers]
        return *of_machines, *(
            Trace(Layer.POD, "", str(pod)) for pod in strays if volume in pod.claims and not pod.ended
        )
