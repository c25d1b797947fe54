"""Who may hold a claim: taking the mark `attached-to` before a machine is changed, clearing it after. Pure.

The mark is what two processes that know nothing of each other agree on. Each change of it tests the old
value, so of two that take it at once one loses; and every value is new (it holds the time), so that a clear
which was decided before a take fails.

The trap: a young mark whose machine shows nothing may belong to a patch that is still on its way to that
machine. Such a patch lives no longer than the API server lets a request live (60 s) and its sender waits
(one call limit).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from csi.controller.layers import Layer
from csi.controller.marks import (
    ATTACHED_TO,
    CLUSTER,
    FREE,
    FRESH,
    NEVER_ATTACHED,
    USED,
    Holder,
    change,
    mark_unmarked,
    stamp,
)
from csi.controller.steps import Done, Refuse, Wait
from csi.errors import InUse, Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from csi.controller.claims import HostClaim
    from csi.controller.layers import Trace
    from kube.objects import Object

FRESH_FOR: Final = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Write:
    """A JSON patch of the claim, and the value of `attached-to` after it."""

    operations: Sequence[Object]
    value: str


TakePlan: TypeAlias = Write | Refuse
ClearPlan: TypeAlias = Done | Write | Wait


def plan_take(
    claim: HostClaim, me: Holder, elsewhere: Sequence[Trace], cluster: str, *, abandoned: bool
) -> TakePlan:
    """Decide whether the machine `me` (with the time of now) may hold the claim, and how to say so on it.

    `elsewhere` is what live reads show of the claim outside of that machine. `abandoned`: another machine's
    mark counts no more (see `is_abandoned`). `cluster` is "" for a claim that is not known to be ours: it
    gets a holder, so that no other may have it, but never our cluster's name: under that it could be deleted.
    """
    if held := next((trace for trace in elsewhere if trace.layer is not Layer.HOST), None):
        return Refuse(
            InUse(f"volume {claim.name} is attached to another machine: {held}; detach it there first")
        )
    holder = claim.mark.holder
    same = holder is not None and (holder.machine, holder.uid) == (me.machine, me.uid)
    if holder is not None and not same and (elsewhere or not abandoned):
        return Refuse(
            InUse(
                f"volume {claim.name} is held by machine {holder.machine}, marked as its holder since "
                f"{stamp(holder.since)}; detach it there first"
            )
        )
    if elsewhere:
        return Refuse(Unavailable(f"volume {claim.name} is still leaving {elsewhere[0]}; call again"))
    return Write(_take(claim, str(me), _fresh(claim, me, same=same), cluster), str(me))


def _take(claim: HostClaim, value: str, fresh: str, cluster: str) -> list[Object]:
    mark = claim.mark
    if mark.attached_to is None or not mark.cluster:
        known = {CLUSTER: mark.cluster or cluster, FRESH: fresh}
        ours = {ATTACHED_TO: value} | {key: words for key, words in known.items() if words}
        return mark_unmarked(claim.resource_version, claim.annotations, ours)
    freshness = change(FRESH, mark.fresh, fresh) if fresh != mark.fresh else []
    return [*change(ATTACHED_TO, mark.attached_to, value), *freshness]


def _fresh(claim: HostClaim, me: Holder, *, same: bool) -> str:
    """Return what the claim shall say of its freshness once `me` holds it.

    A claim that was never bound has nothing on it, whatever was tried with it before; otherwise the first
    attachment that was begun is the only one in which a disk may be formatted over old bytes.
    """
    if claim.mark.fresh == NEVER_ATTACHED or (claim.mark.fresh_until and not claim.volume_name):
        return USED if claim.mark.attached_to is None else stamp(me.since + FRESH_FOR)
    return USED if claim.mark.fresh_until and not same else claim.mark.fresh


def is_abandoned(holder: Holder, now: datetime, patience: timedelta, *, exists: bool) -> bool:
    """Tell whether a mark may be taken over, given that its machine shows nothing on live reads.

    `exists`: the VM of that name and UID is still there; a patch tests the UID, so none can reach it
    otherwise.
    """
    return not exists or now - holder.since > patience


def plan_clear(
    claim: HostClaim | None, machine: str | None, now: datetime, patience: timedelta, *, settled: bool
) -> ClearPlan:
    """Decide what becomes of the mark after no layer of `machine` (None: of any) shows the claim.

    `settled`: it is known that no patch of this mark's holder is on its way, because it arrived, or never
    left.
    """
    mark = None if claim is None else claim.mark
    if mark is None or mark.attached_to is None or mark.holder is None:
        return Done()
    if machine is not None and mark.holder.machine != machine:
        return Done()
    age = now - mark.holder.since
    if not settled and age <= patience:
        left = (patience - age).total_seconds()
        return Wait(f"a change of VM {mark.holder.machine} that may be on its way for another {left:.0f} s")
    return Write(change(ATTACHED_TO, mark.attached_to, FREE), FREE)
