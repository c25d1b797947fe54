"""Whether a claim can be plugged into a machine at all. Pure.

The trap: a claim that nothing can bind, or that does not exist, stops every other disk of the machine too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from csi.errors import CsiError, InUse, Unavailable

if TYPE_CHECKING:
    from csi.controller.claims import HostClaim


def why_not_plugged(claim: HostClaim, *, binds_at_once: bool) -> CsiError | None:
    """Return the error with which to refuse, None when the claim can be plugged.

    `binds_at_once`: its class is known to bind without a consumer, so that a claim which is Pending would
    keep the attachment pod Pending; otherwise that pod is its first consumer.
    """
    if claim.terminating:
        return InUse(f"volume {claim.name} is being deleted on the host")
    if claim.phase == "Lost":
        return InUse(
            f"volume {claim.name} has lost its host volume {claim.volume_name}; it needs the platform team"
        )
    if not claim.bound and binds_at_once:
        said = f": {'; '.join(claim.conditions)}" if claim.conditions else ""
        return Unavailable(f"host claim {claim.name} is not bound yet ({claim.phase}{said}); call again")
    return None
