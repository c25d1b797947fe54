"""The next step towards a volume that no layer of a machine shows any more. Pure.

The trap: template, running spec, status, attachment pod and the host's VolumeAttachment let go of a volume at
five different moments; only after the last one may it be attached elsewhere (kubevirt#14998, harvester#5801).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from csi.controller.layers import in_words, traces
from csi.controller.steps import Done, Refuse, Wait
from csi.errors import InUse
from harvester.hotplug_patch import is_plugged_claim

if TYPE_CHECKING:
    from collections.abc import Sequence

    from csi.controller.layers import MachineView
    from csi.model import VolumeId
    from harvester.host_attachments import HostAttachment


@dataclass(frozen=True, slots=True)
class Unplug:
    """The machine's template lists the volume: remove it."""


DetachPlan: TypeAlias = Done | Unplug | Wait | Refuse


def plan_detach(volume: VolumeId, view: MachineView) -> DetachPlan:
    """Decide the next step for one volume from one look at a machine.

    A machine that is gone shows nothing.
    """
    entry = None if view.machine is None else view.machine.volume_of(volume)
    if entry is not None and not is_plugged_claim(entry):
        return Refuse(
            InUse(
                f"VM {view.name} has volume {volume} as its disk {entry.name}, which was not plugged by a "
                "CSI driver; remove that disk from the VM on the host"
            )
        )
    if entry is not None:
        return Unplug()
    left = traces(view, volume)
    if not left:
        return Done()
    migrating = view.live is not None and view.live.migrating
    return Wait(f"volume {volume} to leave {in_words(left)}{'; the VM migrates' if migrating else ''}")


def plan_release(volume: VolumeId, found: Sequence[HostAttachment]) -> Done | Wait:
    """Judge the last layer: the host's VolumeAttachments that are left of a volume which no machine shows.

    Where the role may not read them none are found: the attachment pods are gone, more cannot be known.
    """
    if not found:
        return Done()
    return Wait(f"the host to detach volume {volume}: {'; '.join(map(str, found))}")
