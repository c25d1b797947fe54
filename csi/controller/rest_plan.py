"""Whether a machine is at rest, so that its set of disks may be changed. Pure.

KubeVirt keeps one attachment pod for all hot-plugged disks of a machine, and starts over with a new one
whenever the set changes while that pod is not Running: changes that come faster than a pod starts keep
every disk from ever getting there (kubevirt#16937). So a change waits until the one before it has gone all
the way.

The trap: right after our own patch nothing but the template has changed. A machine whose running spec does
not yet say what its template says is not at rest, however quiet it looks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from csi.controller.layers import describe_status
from csi.model import VolumeId
from harvester.hotplug_patch import is_plugged_claim
from harvester.machines import READY, RUNNING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from csi.controller.layers import MachineView
    from harvester.attachment_pods import AttachmentPod
    from harvester.machines import Instance, Machine


_NAMES: Final = re.compile(r"[a-z0-9][a-z0-9.-]*[a-z0-9]")


class State(Enum):
    """What a machine does as far as changes of its disks go."""

    AT_REST = auto()
    MOVING = auto()
    """Disks are on their way in or out."""
    CLOSED = auto()
    """It migrates, or is snapshotted: the host changes no disks until that is over."""
    NOT_RUNNING = auto()
    """It starts or stops: KubeVirt does not look at the template now."""
    OFF = auto()
    """It has no running instance: its template is all there is of it."""


@dataclass(frozen=True, slots=True)
class Rest:
    """The answer. `unfinished` names the disks on their way; `why` completes "waiting for ..."."""

    state: State
    why: str = ""
    unfinished: frozenset[str] = frozenset()
    pending_pod: AttachmentPod | None = None
    """The attachment pod that does not run yet."""


def plan_rest(view: MachineView) -> Rest:
    """Judge one look at a machine."""
    instance = view.live
    if view.machine is None or instance is None:
        return Rest(State.OFF, f"VM {view.name} to be started")
    rest = f"VM {view.name} to come to rest"
    if instance.migrating:
        return Rest(State.CLOSED, f"{rest} (the VM migrates to another host node)")
    if snapshot := view.machine.snapshot_in_progress:
        return Rest(State.CLOSED, f"{rest} (its snapshot {snapshot} is being taken)")
    if instance.phase != RUNNING or instance.terminating:
        doing = "stops" if instance.terminating else f"is not up yet, its phase is {instance.phase or 'none'}"
        return Rest(State.NOT_RUNNING, f"{rest} (it {doing})")
    unfinished = dict(_unfinished(view.machine, instance))
    pods = [pod for pod in view.pods if not pod.ended]
    pending = next((pod for pod in pods if not pod.ready and not pod.terminating), None)
    if not unfinished and pending is None and len(pods) <= 1:
        return Rest(State.AT_REST)
    words = [f"disk {name}: {how}" for name, how in sorted(unfinished.items())] + [str(pod) for pod in pods]
    return Rest(State.MOVING, f"{rest} ({'; '.join(words)})", frozenset(unfinished), pending)


def _unfinished(machine: Machine, instance: Instance) -> Iterator[tuple[str, str]]:
    """Yield the disks that are not where the template wants them, each with what is seen of it."""
    wanted = {v.name: v.claim for v in machine.volumes if v.hotpluggable}
    present = {v.name: v.claim for v in instance.volumes if v.hotpluggable}
    fixed = {v.name for v in instance.volumes if not v.hotpluggable}
    for name in wanted.keys() - present.keys() - fixed:
        yield name, "not in the running spec yet"
    for name, claim in present.items():
        status = instance.status_of(name)
        if wanted.get(name) != claim:
            yield name, "still in the running spec"
        elif status is None:
            yield name, "no status yet"
        elif status.phase != READY or not status.pod_uid:
            yield name, describe_status(status)
    for status in instance.statuses:
        if status.hotplugged and status.name not in present:
            yield status.name, f"on its way out, {describe_status(status)}"


def suspects(view: MachineView, rest: Rest) -> frozenset[VolumeId]:
    """Name the claims of a driver's disks that may keep the attachment pod from running.

    Those are new disks: one that is in the machine already was mounted by a pod before. Where the pod's own
    words name some of them, only those.
    """
    if view.live is None or rest.pending_pod is None:
        return frozenset()
    new = {
        volume.claim
        for volume in view.live.volumes
        if is_plugged_claim(volume) and volume.name in rest.unfinished and not _is_in(view.live, volume.name)
    }
    named = new & set(_NAMES.findall(rest.pending_pod.why))
    return frozenset(map(VolumeId, named or new))


def _is_in(instance: Instance, name: str) -> bool:
    status = instance.status_of(name)
    return status is not None and bool(status.target)
