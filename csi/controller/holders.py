"""The mark of a claim's holder: taken before a machine is changed, read before each commit, cleared last.

The trap: between reading a claim and writing to it others may have written. Every write here stands on the
value that the decision stood on; when that is gone the caller looks again.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import structlog

from csi.controller.claim_plan import why_not_plugged
from csi.controller.claims import parse_claim
from csi.controller.failures import host_call
from csi.controller.holder_plan import Write, is_abandoned, plan_clear, plan_take
from csi.controller.marks import ATTACHED_TO, Holder, change, parse_holder
from csi.controller.steps import Refuse, Wait
from csi.errors import Busy, CsiError, InUse, Unavailable
from harvester.classes import HostClass
from kube.client import JsonPatch
from kube.errors import Conflict
from kube.permissions import Permission
from kube.resources import CLAIMS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from csi.controller.claims import HostClaim, HostClaims
    from csi.controller.classes import HostClasses
    from csi.controller.layers import Survey, Trace
    from csi.controller.ownership import Ownership
    from csi.model import VolumeId
    from harvester.machines import Machine, MachineName
    from kube.client import Client

PERMISSIONS: Final = (Permission(CLAIMS, ("get", "patch")),)

PATIENCE: Final = timedelta(seconds=60) + timedelta(seconds=45)
"""How old a mark is when no patch that was decided under it can be on its way any more: what an API server
allows a request, and more than the age (SEND) up to which one is sent."""
SEND: Final = timedelta(seconds=30)
"""No patch is sent under an older mark, whatever took so long since it was written."""
RENEW: Final = timedelta(seconds=5)
"""An older mark is renewed before a patch, so that its age tells when one can have been sent."""


class LostRace(Exception):
    """Somebody else wrote to the claim: look again and decide anew."""


class Holders:
    """Marks of claims. Raises only CsiError, and LostRace where it says so."""

    def __init__(
        self,
        client: Client,
        claims: HostClaims,
        classes: HostClasses,
        ownership: Ownership,
        *,
        patience: timedelta = PATIENCE,
        renew: timedelta = RENEW,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client = client
        self._claims = claims
        self._classes = classes
        self._ownership = ownership
        self._patience = patience
        self._renew = renew
        self._now = now
        self._log = structlog.get_logger()

    def me(self, machine: Machine) -> Holder:
        """Return the mark of a machine that takes a claim now."""
        return Holder(machine.name, machine.uid, self._now())

    def take(self, claim: HostClaim, me: Holder, elsewhere: Sequence[Trace], survey: Survey) -> HostClaim:
        """Mark the claim as held by the machine `me`; return it as it is then.

        `elsewhere` is what the survey, and where need be the host's attachments, show of it outside of that
        machine, read after the claim. Raises InUse naming another holder; LostRace.
        """
        abandoned = self.is_abandoned(claim, survey)
        cluster = self._ownership.cluster() if self._ownership.owns(claim) else ""
        plan = plan_take(claim, me, elsewhere, cluster, abandoned=abandoned)
        if isinstance(plan, Refuse):
            raise plan.error
        taken = self._write(claim, plan)
        self._log.info("claim taken", volume=claim.name, machine=me.machine, over=abandoned)
        return taken

    def is_abandoned(self, claim: HostClaim, survey: Survey) -> bool:
        """Tell whether the claim's mark counts no more if its machine shows nothing of it."""
        holder = claim.mark.holder
        if holder is None:
            return False
        exists = any(m.name == holder.machine and m.uid == holder.uid for m in survey.machines.values())
        return is_abandoned(holder, self._now(), self._patience, exists=exists)

    def clear(self, claim: HostClaim | None, machine: MachineName | None, *, settled: bool) -> None:
        """Clear the mark after no layer of `machine` (None: of any) shows the claim any more.

        Raises Unavailable while a patch may still bring the volume there, Busy when another call has taken
        the claim meanwhile.
        """
        plan = plan_clear(claim, machine, self._now(), self._patience, settled=settled)
        if isinstance(plan, Wait):
            raise Unavailable(f"waiting for {plan.what}; call again")
        if claim is not None and isinstance(plan, Write):
            self._write_or_busy(claim, plan)
            self._log.info("claim free", volume=claim.name, machine=machine)

    def admit(self, volume: VolumeId, mark: str) -> str:
        """Return the mark under which a volume may be plugged now, which renews one that has aged.

        Raises why it must not be plugged. Reads live: this is the last look before a machine is patched.
        """
        claim = self._claims.find(volume)
        if claim is None:
            raise InUse(f"volume {volume} is gone from the host")
        holder = claim.mark.holder
        if holder is None or claim.mark.attached_to != mark:
            raise Busy(f"another call has taken volume {volume} meanwhile; call again")
        if error := self.why_not_plugged(claim):
            raise error
        if (now := self._now()) - holder.since < self._renew:
            return mark
        renewed = str(replace(holder, since=now))
        self._write_or_busy(claim, Write(change(ATTACHED_TO, mark, renewed), renewed))
        return renewed

    def is_young(self, mark: str) -> bool:
        """Tell whether a patch may still be sent under the mark.

        Between the last look at a claim and the patch come the looks at the others that go with it, and each
        may take as long as a call can.
        """
        holder = parse_holder(mark)
        return holder is not None and self._now() - holder.since <= SEND

    def why_not_plugged(self, claim: HostClaim) -> CsiError | None:
        """Return why the claim cannot be plugged into any machine now, None when it can."""
        host_class = None if claim.bound else self._classes.find(claim.storage_class)
        binds_at_once = isinstance(host_class, HostClass) and not host_class.waits_for_consumer
        return why_not_plugged(claim, binds_at_once=binds_at_once)

    def held(self, volume: VolumeId, machine: MachineName) -> HostClaim | None:
        """Return the claim if its mark says that the machine holds it. Reads live."""
        claim = self._claims.find(volume)
        holder = None if claim is None else claim.mark.holder
        return claim if holder is not None and holder.machine == machine else None

    def _write_or_busy(self, claim: HostClaim, plan: Write) -> None:
        try:
            self._write(claim, plan)
        except LostRace as error:
            raise Busy(f"another call works on volume {claim.name}; call again") from error

    def _write(self, claim: HostClaim, plan: Write) -> HostClaim:
        patch = JsonPatch(plan.operations)
        with host_call(f"mark host claim {claim.name}"):
            try:
                return parse_claim(self._client.patch(CLAIMS, claim.name, patch, self._claims.namespace))
            except Conflict as error:
                raise LostRace from error
