"""The life of volumes as claims on the host: created, judged, deleted.

The trap: each call may come twice, at once, and in two processes. A create that finds its name taken
compares, a delete carries the state that was looked at, and an error after the first write must not sound
final.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, assert_never

import structlog

from csi.controller.classes import NoClass
from csi.controller.create_plan import HOST_CLASS, check_same, plan_claim, plan_order, why_unbound
from csi.controller.delete_plan import Delete, Gone, Refuse, plan_delete
from csi.controller.failures import failure
from csi.controller.validate_plan import why_not
from csi.errors import Busy, InUse, InvalidArgument, NotFound, TimedOut
from csi.model import Volume
from harvester.classes import HostClass
from harvester.refusals import Meaning, read_refusal
from kube import errors as api

if TYPE_CHECKING:
    from csi.controller.claims import ClaimWatch, HostClaim, HostClaims
    from csi.controller.classes import HostClasses
    from csi.controller.create_plan import Order
    from csi.controller.ownership import Ownership
    from csi.deadline import Deadline
    from csi.errors import CsiError
    from csi.model import Capability, CreateRequest, VolumeId

_ROUNDS: Final = 5
"""How often a delete looks again when others write to the claim at the same time."""


class Holders(Protocol):
    """Who has a disk, answered by live reads of every layer."""

    def holder(self, volume: VolumeId) -> str | None:
        """Name the machine that shows the disk on any layer or is marked as its holder; None for nobody."""
        ...


class Volumes:
    """Serves csi.ports.VolumeService. Locks per volume are the caller's."""

    def __init__(
        self,
        claims: HostClaims,
        classes: HostClasses,
        watch: ClaimWatch,
        holders: Holders,
        ownership: Ownership,
        *,
        default_class: str = "",
        guest_label: str = "",
    ) -> None:
        self._claims = claims
        self._classes = classes
        self._watch = watch
        self._holders = holders
        self._ownership = ownership
        self._default_class = default_class
        self._guest_label = guest_label
        self._log = structlog.get_logger()

    def create(self, request: CreateRequest, deadline: Deadline) -> Volume:
        """Make the claim, or return the one that this request made before.

        Waits until a volume stands behind it, unless the class waits for a first consumer or the role may not
        read it. Raises TimedOut with what can be seen of the claim.
        """
        order = plan_order(request, self._default_class)
        claim = self._claims.find(order.volume)
        host_class = self._class_for(order) if claim is None else None
        if claim is None:
            claim = self._make(order, host_class, deadline)
        check_same(order, claim, self._ownership.cluster())
        if not claim.bound and self._binds_by_itself(claim, host_class):
            claim = self._bound(claim, deadline)
        return Volume(id=claim.name, capacity=claim.size)

    def delete(self, volume: VolumeId, deadline: Deadline) -> None:
        """Delete the claim, or do nothing if it is gone.

        Raises InUse while a machine has the disk, while something else holds the claim, and when it is not
        ours (CSI spec, DeleteVolume).
        """
        claim = self._claims.find(volume)
        for _ in range(_ROUNDS):
            if claim is None:
                return
            deadline.check(f"host claim {volume} to be deleted")
            if self._delete_once(claim):
                return
            claim = self._claims.find(volume, claim.uid)
        raise Busy(f"host claim {volume} changes all the time; call again")

    def validate(self, volume: VolumeId, capabilities: tuple[Capability, ...], deadline: Deadline) -> str:
        """Return "" when the volume can serve all capabilities, else the sentence that says why not."""
        deadline.check(f"volume {volume}")
        claim = self._claims.find(volume)
        if claim is None or not self._ownership.owns(claim):
            raise NotFound(f"volume {volume} does not exist: this cluster has no such claim on the host")
        return why_not(capabilities)

    def _class_for(self, order: Order) -> HostClass | NoClass:
        found = self._classes.find(order.host_class)
        if found is not NoClass.MISSING:
            return found
        known = self._classes.in_words()
        if order.host_class:
            raise InvalidArgument(f"host storage class {order.host_class} does not exist; {known}")
        raise InvalidArgument(
            f"the host has no default storage class: name one with the parameter {HOST_CLASS}; {known}"
        )

    def _make(self, order: Order, host_class: HostClass | NoClass | None, deadline: Deadline) -> HostClaim:
        known = host_class if isinstance(host_class, HostClass) else None
        claim = plan_claim(order, known, self._ownership.cluster(), self._guest_label)
        deadline.check(f"host claim {order.volume} to be made")
        if order.unknown:
            self._log.warning("unknown parameters", volume=order.volume, parameters=order.unknown)
        try:
            made = self._claims.create(claim)
        except api.AlreadyExists:
            return self._made_by_another(order)
        except api.ApiError as error:
            raise self._not_made(order, error) from error
        self._log.info("claim created", volume=made.name, size=made.requested, host_class=made.storage_class)
        return made

    def _made_by_another(self, order: Order) -> HostClaim:
        claim = self._claims.find(order.volume)
        if claim is None:
            raise Busy(f"host claim {order.volume} came and went; call again")
        return claim

    def _not_made(self, order: Order, error: api.ApiError) -> CsiError:
        doing = f"create host claim {self._claims.namespace}/{order.volume}"
        refusal = read_refusal(error)
        if refusal and refusal.meaning in (Meaning.CLASS_MISSING, Meaning.RESERVED_CLASS):
            return InvalidArgument(f"{doing}: {refusal.words}; {self._classes.in_words()}")
        return failure(error, doing)

    def _binds_by_itself(self, claim: HostClaim, host_class: HostClass | NoClass | None) -> bool:
        """Tell whether the claim is to be waited for; where the class cannot be read, nobody knows."""
        if host_class is None:
            host_class = (
                self._classes.find(claim.storage_class) if claim.storage_class else NoClass.UNREADABLE
            )
        if isinstance(host_class, HostClass):
            return not host_class.waits_for_consumer
        return host_class is NoClass.MISSING

    def _bound(self, claim: HostClaim, deadline: Deadline) -> HostClaim:
        seen = self._watch.wait_for_claim(claim.name, _settled, deadline)
        if seen is None or seen.uid != claim.uid or seen.terminating:
            raise Busy(f"host claim {claim.name} was deleted while it was waited for; call again")
        if not seen.bound:
            raise TimedOut(why_unbound(seen, self._claims.namespace))
        return seen

    def _delete_once(self, claim: HostClaim) -> bool:
        """Take one step; tell whether the volume is as good as gone."""
        ours = self._ownership.owns(claim)
        plan = plan_delete(claim, ours=ours, holder=self._holders.holder(claim.name) if ours else None)
        match plan:
            case Gone():
                return True
            case Delete(seen):
                self._send_delete(seen)
                return False
            case Refuse(why):
                raise InUse(why)
            case _:
                assert_never(plan)

    def _send_delete(self, claim: HostClaim) -> None:
        try:
            self._claims.delete(claim)
        except (api.NotFound, api.Conflict):
            return  # Somebody else wrote first: what that was, the next look tells.
        except api.ApiError as error:
            raise failure(error, f"delete host claim {self._claims.namespace}/{claim.name}") from error
        self._log.info("claim deleted", volume=claim.name, uid=claim.uid)


def _settled(claim: HostClaim | None) -> bool:
    return claim is None or claim.terminating or claim.phase != "Pending"
