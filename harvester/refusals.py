"""What the host means when it says no. Pure: an API error in, a meaning and the host's words out.

The trap: the code says little. One and the same refusal comes as 409, 422 or 500 in different releases, a 409
may mean "still attached" instead of "try again", and a 403 may be a quota instead of a missing right.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from kube.errors import Refused

if TYPE_CHECKING:
    from kube.errors import ApiError


class Meaning(Enum):
    """Why the host refuses, as far as it makes a difference to us."""

    OCCUPIED = auto()
    """Another machine's template lists the claim."""
    ATTACHED = auto()
    """The claim cannot be deleted: a machine's template lists it, or a machine owns it."""
    QUOTA = auto()
    """A quota of the namespace or of the project is used up."""
    GOLDEN_IMAGE = auto()
    """The claim backs an image."""
    EXPORTING = auto()
    """The claim is being exported as an image: passes."""
    RESERVED_CLASS = auto()
    """The storage class is for the host's own use."""
    CLASS_MISSING = auto()
    """The storage class does not exist."""
    SNAPSHOT_RUNNING = auto()
    """The machine's disks must not change while it is snapshotted: passes."""
    MIGRATING = auto()
    """The machine migrates: passes."""
    STALE_WEBHOOK = auto()
    """The webhook has not seen the claim yet: passes."""
    OTHER = auto()
    """None of the above: only the host's words say."""


PASSING: Final = frozenset(
    {Meaning.EXPORTING, Meaning.SNAPSHOT_RUNNING, Meaning.MIGRATING, Meaning.STALE_WEBHOOK}
)
"""Refusals that end by themselves."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refusal, read."""

    meaning: Meaning
    words: str
    """The host's own words."""
    machine: str = ""
    """`<namespace>/<name>` of the machine it speaks of, "" where it names none."""

    @property
    def passing(self) -> bool:
        """Whether the same request may succeed later without anybody doing anything."""
        return self.meaning in PASSING


_QUOTA: Final = re.compile(r"exceeded quota|quota.{0,60}exceed|exceed.{0,60}quota", re.IGNORECASE)
_PATTERNS: Final = (
    (Meaning.OCCUPIED, re.compile(r"is already used by VM (?P<machine>[^\s,]+)")),
    (Meaning.OCCUPIED, re.compile(r"is already used by other VM")),
    (Meaning.ATTACHED, re.compile(r"currently attached to VMs?: (?P<machine>[^\s,]+)")),
    (Meaning.ATTACHED, re.compile(r"currently owned by these VMs: (?P<machine>[^\s,]+)")),
    (Meaning.QUOTA, _QUOTA),
    (Meaning.GOLDEN_IMAGE, re.compile(r"golden image", re.IGNORECASE)),
    (Meaning.EXPORTING, re.compile(r"is exporting for image")),
    (Meaning.RESERVED_CLASS, re.compile(r"reserved storage class")),
    (Meaning.CLASS_MISSING, re.compile(r"storageclass\S* \"[^\"]*\" not found", re.IGNORECASE)),
    (Meaning.SNAPSHOT_RUNNING, re.compile(r"until snapshot .* completes")),
    (Meaning.MIGRATING, re.compile(r"while VMI migration is in progress")),
    (Meaning.STALE_WEBHOOK, re.compile(r"persistentvolumeclaims? \"[^\"]*\" not found")),
)


def read_refusal(error: ApiError) -> Refusal | None:
    """Return what a refusal means; None for an error that is no refusal (a lost race, a missing right ...).

    Admission webhooks of KubeVirt and Harvester refuse with their name in front of their words; the quota
    check of the API server itself is told from a missing right by its words.
    """
    if not isinstance(error, Refused):
        quota = error.code == 403 and _QUOTA.search(error.message)
        return Refusal(Meaning.QUOTA, error.message) if quota else None
    for meaning, pattern in _PATTERNS:
        if found := pattern.search(error.why):
            return Refusal(meaning, error.why, found.groupdict().get("machine", "").rstrip(".;"))
    return Refusal(Meaning.OTHER, error.why)
