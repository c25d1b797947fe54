"""Volumes in machines: attach until the disk is there, detach until no layer shows it.

Both are level-based: each look at the host says which step is missing, whoever made the ones before. So a
call may die anywhere and be asked again, of this process or of another.

The trap: "it is gone" and "it is free" are true only of live readings, and only in the right order: the
claim with its mark first, then the layers. A mark that has changed since voids what was read after it.
"""

from __future__ import annotations

from contextlib import ExitStack
from itertools import chain, repeat
from typing import TYPE_CHECKING

import structlog

from csi.controller.attach_plan import Plug, plan_attach, plan_host_attachment
from csi.controller.attachment_waits import AttachWait, DetachWait
from csi.controller.commit_plan import Change
from csi.controller.detach_plan import plan_release
from csi.controller.holders import LostRace
from csi.controller.host_attachments import is_longhorn
from csi.controller.layers import Layer, Trace, in_words
from csi.controller.marks import FREE, stamp
from csi.controller.names import is_object_name
from csi.controller.steps import Refuse
from csi.errors import Busy, InvalidArgument, NotFound, Unavailable
from csi.model import (
    CONTEXT_FRESH_UNTIL,
    CONTEXT_IDENTITY,
    CONTEXT_KIND,
    CONTEXT_KIND_DISK,
    CONTEXT_SIZE,
    disk_identity,
)
from harvester.hotplug_patch import is_plugged_claim
from harvester.machines import MachineName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from csi.controller.claims import HostClaim, HostClaims
    from csi.controller.commits import Commits
    from csi.controller.holders import Holders
    from csi.controller.host import HostView
    from csi.controller.host_attachments import Found, HostAttachments
    from csi.controller.layers import MachineView, Survey
    from csi.controller.machine_ids import MachineResolver
    from csi.controller.ownership import Ownership
    from csi.controller.steps import Done, Wait
    from csi.deadline import Deadline
    from csi.model import NodeId, PublishRequest, VolumeId
    from harvester.machines import Machine


class Attachments:
    """Serves csi.ports.AttachmentService. Locks per volume are the caller's."""

    def __init__(
        self,
        host: HostView,
        claims: HostClaims,
        holders: Holders,
        commits: Commits,
        host_attachments: HostAttachments,
        machines: MachineResolver,
        ownership: Ownership,
    ) -> None:
        self._host = host
        self._claims = claims
        self._holders = holders
        self._commits = commits
        self._host_attachments = host_attachments
        self._machines = machines
        self._ownership = ownership
        self._log = structlog.get_logger()

    # --- attach ---

    def publish(self, request: PublishRequest, deadline: Deadline) -> Mapping[str, str]:
        """Attach and wait until the disk is in the machine; return the publish context.

        Raises NotFound for a missing volume or machine, InUse naming the machine that holds the volume
        (CSI spec, ControllerPublishVolume).
        """
        if request.capability.mode.multi_node:
            raise InvalidArgument(f"volume {request.volume} is a disk: it can be used on one node at a time")
        with self._host.open():
            while True:
                deadline.check(f"volume {request.volume} to be attached to {request.node}")
                try:
                    return self._publish(request.volume, request.node, deadline)
                except LostRace:
                    self._log.info("claim changed meanwhile, deciding anew", volume=request.volume)

    def _publish(self, volume: VolumeId, node: NodeId, deadline: Deadline) -> Mapping[str, str]:
        claim = self._claims.find(volume)
        if claim is None:
            raise NotFound(f"volume {volume} does not exist: there is no such claim on the host")
        name = self._machines.machine_of(node)
        survey = self._host.survey()
        view = None if name is None else survey.view(name)
        if view is None or view.machine is None:
            raise NotFound(
                f"node {node} does not exist: the host has no VM for it in the cluster's namespace"
            )
        self._check_ours(claim, view)
        step = plan_attach(volume, view)
        if isinstance(step, Refuse):
            raise step.error
        plug = isinstance(step, Plug)
        if plug and (error := self._holders.why_not_plugged(claim)):
            raise error
        mark = self._held(claim, view.machine, survey, renew=plug)
        with ExitStack() as stack:
            change = Change(volume, add=True)
            ticket = stack.enter_context(self._commits.asking(view.name, change, mark)) if plug else None
            view = AttachWait(self._host, volume, view.name, ticket).wait(deadline)
        return self._finish(volume, view, ticket.mark if ticket else mark, deadline)

    def _check_ours(self, claim: HostClaim, view: MachineView) -> None:
        """Let pass a volume of this cluster; where no guest says which those are, one plugged by upstream."""
        if self._ownership.owns(claim):
            return
        entry = None if view.machine is None else view.machine.volume_of(claim.name)
        plugged = claim.mark.attached_to is not None or (entry is not None and is_plugged_claim(entry))
        if claim.mark.cluster or self._ownership.is_certain or not plugged:
            raise NotFound(f"volume {claim.name} does not exist: the host's claim of that name is not ours")

    def _held(self, claim: HostClaim, machine: Machine, survey: Survey, *, renew: bool) -> str:
        """Make sure that the claim is marked for the machine and free elsewhere; return the mark."""
        elsewhere = self._elsewhere(claim, survey.view(machine.name), survey)
        holder, mark = claim.mark.holder, claim.mark.attached_to
        mine = holder is not None and (holder.machine, holder.uid) == (machine.name, machine.uid)
        if mine and mark and not renew and not elsewhere:
            return mark
        me = self._holders.me(machine)
        self._commits.announce(str(me))
        self._holders.take(claim, me, elsewhere, survey)
        return str(me)

    def _elsewhere(self, claim: HostClaim, view: MachineView, survey: Survey) -> tuple[Trace, ...]:
        """Return what shows the volume outside of the machine.

        A host attachment without a machine is looked for only where the mark does not tell that there is
        none.
        """
        shown = tuple(trace for trace in survey.holders(claim.name) if trace.where != view.name)
        holder = claim.mark.holder
        told = claim.mark.attached_to == FREE or (holder is not None and holder.machine == view.name)
        found = () if told else self._host_attachments.of(claim) or ()
        strange = (a for a in found if a.node not in view.host_nodes)
        return *shown, *(Trace(Layer.HOST, each.node, str(each)) for each in strange)

    def _finish(
        self, volume: VolumeId, view: MachineView, mark: str, deadline: Deadline
    ) -> Mapping[str, str]:
        """Look at what is left: the mark, and the host's own attachment."""
        claim = self._claims.find(volume)
        if claim is None or claim.mark.attached_to != mark:
            raise Busy(f"another call has taken volume {volume} meanwhile; call again")
        views = chain([view], (self._host.look(view.name) for _ in repeat(None)))

        def look() -> tuple[Found, Done | Wait]:
            seen = next(views)
            found = self._host_attachments.on(claim, "" if seen.live is None else seen.live.node)
            return found, plan_host_attachment(claim, seen, found, needed=is_longhorn(claim))

        self._host_attachments.wait(look, deadline)
        self._log.info("volume attached", volume=volume, machine=view.name)
        return _publish_context(claim)

    # --- detach ---

    def unpublish(self, volume: VolumeId, node: NodeId | None, deadline: Deadline) -> None:
        """Detach and wait until no layer holds the disk; `node` None means from all machines.

        A volume or a machine that does not exist is done (CSI spec, ControllerUnpublishVolume).
        """
        if not is_object_name(volume):
            return
        name = None if node is None else self._machines.machine_of(node)
        if node is not None and name is None:
            return
        with self._host.open():
            deadline.check(f"volume {volume} to be detached")
            claim = self._claims.find(volume)
            known = claim is not None and bool(claim.mark.cluster or self._ownership.is_certain)
            if claim is not None and known and not self._ownership.owns(claim):
                raise NotFound(f"volume {volume} does not exist: the host's claim of that name is not ours")
            if name is None:
                self._detach_everywhere(volume, claim, deadline)
            else:
                self._detach(volume, claim, name, deadline)

    def _detach(
        self, volume: VolumeId, claim: HostClaim | None, name: MachineName, deadline: Deadline
    ) -> None:
        seen = self._gone_from(volume, name, deadline)
        if claim is None:
            return
        mark, holder = claim.mark.attached_to, claim.mark.holder
        anothers = holder is not None and holder.machine != name
        if not seen and (mark == FREE or anothers):
            return  # whoever wrote the mark has seen that this machine's host node had let go
        shared = mark is None or anothers
        legal = self._nodes_of_others(volume, name) if shared else frozenset[str]()
        self._released(claim, legal, deadline)
        self._holders.clear(claim, name, settled=seen or self._commits.settled(mark or ""))
        self._log.info("volume detached", volume=volume, machine=name)

    def _detach_everywhere(self, volume: VolumeId, claim: HostClaim | None, deadline: Deadline) -> None:
        names = {MachineName(t.where) for t in self._host.survey().holders(volume) if t.where}
        holder = None if claim is None else claim.mark.holder
        if holder is not None:
            names.add(MachineName(holder.machine))
        seen = {name for name in sorted(names) if self._gone_from(volume, name, deadline)}
        if left := self._host.survey().holders(volume):
            raise Unavailable(f"volume {volume} is still shown by {in_words(left)}; call again")
        if claim is not None:
            self._released(claim, frozenset(), deadline)
            settled = holder is not None and holder.machine in seen
            self._holders.clear(
                claim, None, settled=settled or self._commits.settled(claim.mark.attached_to or "")
            )
        self._log.info("volume detached", volume=volume, machines=sorted(names))

    def _gone_from(self, volume: VolumeId, name: MachineName, deadline: Deadline) -> bool:
        """Wait until no layer of the machine shows the volume; return whether one ever did."""
        with ExitStack() as stack:

            def ask() -> None:
                wait.ticket = stack.enter_context(self._commits.asking(name, Change(volume, add=False)))

            wait = DetachWait(self._host, volume, name, ask)
            wait.wait(deadline)
            return wait.seen

    def _nodes_of_others(self, volume: VolumeId, name: MachineName) -> frozenset[str]:
        """Return the host nodes on which other machines have the volume: attachments there are theirs."""
        survey = self._host.survey()
        others = {MachineName(t.where) for t in survey.holders(volume) if t.where not in {"", name}}
        return frozenset(node for other in others for node in survey.view(other).host_nodes)

    def _released(self, claim: HostClaim, legal: frozenset[str], deadline: Deadline) -> None:
        """Wait until no host node has the volume, but for those that may."""

        def look() -> tuple[Found, Done | Wait]:
            left = tuple(a for a in self._host_attachments.of(claim) or () if a.node not in legal)
            return left, plan_release(claim.name, left)

        self._host_attachments.wait(look, deadline)

    # --- for DeleteVolume ---

    def holder(self, volume: VolumeId) -> str | None:
        """Name the machine that has the volume on any layer or by its mark, or the host node; else None."""
        claim = self._claims.find(volume)
        survey = self._host.survey()
        if found := survey.holders(volume):
            return found[0].where or str(found[0])
        if claim is None or claim.mark.attached_to == FREE:
            return None
        if holder := claim.mark.holder:
            settled = self._commits.settled(claim.mark.attached_to or "")
            over = settled or self._holders.is_abandoned(claim, survey)
            return None if over else holder.machine
        attachments = self._host_attachments.of(claim) or ()
        return next((f"host node {each.node}" for each in attachments), None)


def _publish_context(claim: HostClaim) -> dict[str, str]:
    context = {
        CONTEXT_KIND: CONTEXT_KIND_DISK,
        CONTEXT_IDENTITY: disk_identity(claim.name),
        CONTEXT_SIZE: str(claim.size),
    }
    if until := claim.mark.fresh_until:
        context[CONTEXT_FRESH_UNTIL] = stamp(until)
    return context
