"""What a DeleteVolume request means for a host claim. Pure.

The trap: the host deletes a claim as soon as no machine's template lists it, though the machine may still
have the disk; and its 409 means "still attached", not "try again".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from csi.controller.claims import HostClaim

PVC_PROTECTION: Final = "kubernetes.io/pvc-protection"
"""Finalizer of every claim; Kubernetes removes it once no pod uses the claim."""


@dataclass(frozen=True, slots=True)
class Gone:
    """Nothing is left to do; the request is answered OK."""


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the claim, and only in the state that was looked at."""

    claim: HostClaim


@dataclass(frozen=True, slots=True)
class Refuse:
    """The claim must stay, or is not certain to go; `why` is what the reader of the event sees."""

    why: str


DeletePlan: TypeAlias = Gone | Delete | Refuse


def plan_delete(claim: HostClaim, *, ours: bool, holder: str | None) -> DeletePlan:
    """Decide what to do about a claim that its guest volume no longer needs.

    `holder` names the machine that shows the disk on any layer, or holds the mark, after the claim was read.
    """
    if not ours:
        return Refuse(f"host claim {claim.name} is not a volume of this cluster; it is left alone")
    if holder is not None:
        return Refuse(f"volume {claim.name} is still attached to machine {holder}; detach it first")
    if not claim.terminating:
        return Delete(claim)
    held_by = sorted(set(claim.finalizers) - {PVC_PROTECTION})
    if not held_by:
        return Gone()
    return Refuse(f"host claim {claim.name} is being deleted but held by {', '.join(held_by)}")
