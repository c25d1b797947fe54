"""The next step towards a volume that is attached to a machine. Pure.

The layers are looked at in the order in which an attachment passes them; the first one that does not show the
volume decides. So it does not matter who made the steps before, or whether a call died between two of them.

The trap: an answer OK needs every layer. A template that lists the disk and an instance that has it are two
things, and a phase `AttachedToNode` only means that a pod exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from csi.controller.layers import Layer, MachineView, Trace, describe_status
from csi.controller.steps import Done, Refuse, Wait
from csi.errors import Exhausted, InUse, NotFound, Unavailable
from harvester.hotplug_patch import MOST_DISKS, is_plugged_claim
from harvester.machines import READY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from csi.controller.claims import HostClaim
    from csi.model import VolumeId
    from harvester.host_attachments import HostAttachment
    from harvester.machines import Instance, Machine, MachineVolume


@dataclass(frozen=True, slots=True)
class Plug:
    """The machine's template does not list the volume: add it."""


AttachPlan: TypeAlias = Done | Plug | Wait | Refuse


def plan_attach(volume: VolumeId, view: MachineView, *, begun: bool = False) -> AttachPlan:
    """Decide the next step for one volume from one look at its machine.

    `begun`: this call has already changed something on the host, so that only an error that is not final may
    end it.
    """
    machine = view.machine
    if machine is None:
        gone = f"there is no VM {view.name} on the host in the namespace of this cluster"
        return Refuse(Unavailable(gone) if begun else NotFound(gone))
    entry = machine.volume_of(volume)
    if obstacle := _obstacle(volume, machine, entry):
        return Refuse(InUse(obstacle))
    missing = _missing(volume, view.live, entry)
    if missing is None:
        return Done()
    if why := _standstill(view):
        return Refuse(Unavailable(why) if begun or entry is not None else InUse(why))
    if view.live is not None and view.live.migrating:
        return Refuse(
            Unavailable(f"the VM migrates: {view.name} takes no disk now; call again when it is done")
        )
    if entry is not None:
        return Wait(_in_words(volume, missing, view))
    if len(machine.disks) >= MOST_DISKS:
        return Refuse(Exhausted(f"VM {view.name} has {len(machine.disks)} disks, it can have no more"))
    return Plug()


def _obstacle(volume: VolumeId, machine: Machine, entry: MachineVolume | None) -> str:
    """Say what in the template stands in the way that is not ours to remove."""
    if entry is not None and not is_plugged_claim(entry):
        return (
            f"VM {machine.name} already has volume {volume} as its disk {entry.name}, which was not plugged "
            "by a CSI driver; remove that disk from the VM on the host"
        )
    taken = (
        next((other for other in machine.volumes if other.name == volume), None) if entry is None else None
    )
    if taken is not None:
        return f"VM {machine.name} has another disk of the name {volume} (claim {taken.claim or 'none'})"
    return ""


def _standstill(view: MachineView) -> str:
    """Say why the machine will not take a disk until somebody does something about it."""
    if view.machine is not None and view.machine.terminating:
        return f"VM {view.name} is being deleted on the host"
    if view.live is None:
        return f"VM {view.name} is not running on the host; start it, then the disk can be plugged"
    if view.live.paused:
        return f"VM {view.name} is paused on the host; unpause it, then the disk can be plugged"
    return ""


def _missing(volume: VolumeId, instance: Instance | None, entry: MachineVolume | None) -> Layer | None:
    """Return the first layer that does not show the volume as attached."""
    if entry is None or instance is None:
        return Layer.TEMPLATE if entry is None else Layer.SPEC
    if instance.volume_of(volume) is None:
        return Layer.SPEC
    status = instance.status_of(volume)
    ready = status is not None and status.phase == READY and status.target
    return None if ready else Layer.STATUS


def _in_words(volume: VolumeId, missing: Layer, view: MachineView) -> str:
    """Say how far the disk is: what the layer shows, and what stands behind its being late."""
    status = None if view.live is None else view.live.status_of(volume)
    shown = "not there yet" if missing is Layer.SPEC or status is None else describe_status(status)
    conditions = () if view.machine is None else view.machine.conditions
    failures = [f"{c.reason}: {c.message}" for c in conditions if c.type == "Failure" and c.status == "True"]
    pods = [str(pod) for pod in view.pods if not pod.ready]
    return str(Trace(missing, view.name, "; ".join([f"volume {volume}: {shown}", *failures, *pods])))


def plan_host_attachment(
    claim: HostClaim, view: MachineView, found: Sequence[HostAttachment] | None, *, needed: bool
) -> Done | Wait:
    """Judge the last layer: the host's VolumeAttachments of a volume that the machine shows as ready.

    `found` is None where the role may not read them: then a running attachment pod is the evidence. `needed`
    says that the host's storage makes one for sure (Longhorn does; a local one need not). Both ends of a live
    migration are legal.
    """
    if found is None:
        carried = any(pod.ready and claim.name in pod.claims for pod in view.pods)
        return Done() if carried else Wait(f"an attachment pod of VM {view.name} with volume {claim.name}")
    if strange := [each for each in found if each.node not in view.host_nodes]:
        return Wait(f"volume {claim.name} to leave another host node: {strange[0]}")
    here = [each for each in found if view.live is not None and each.node == view.live.node]
    if here and not here[0].attached:
        return Wait(f"the host to attach volume {claim.name}: {here[0]}")
    if not here and needed:
        return Wait(
            f"the host to attach volume {claim.name} to the node of VM {view.name}: nothing there yet"
        )
    return Done()
