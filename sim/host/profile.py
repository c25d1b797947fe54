"""How long a simulated host takes for what it does. All times in seconds."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Profile:
    """The delays of one host; everything not named here happens at once."""

    bind: float = 0.0
    """From a claim's first sight (or its first consumer's) to Bound."""
    pod_start: float = 0.0
    """From a pod's creation to Ready, provided that its volumes are attached by then."""
    detach: float = 0.0
    """From the end of the last pod that mounts a volume to the end of its VolumeAttachment."""
    boot: float = 0.0
    """From a machine's Scheduled to Running."""
    migrate: float = 0.0
    """From the start of a live migration to its end."""

    def scaled(self, factor: float) -> Profile:
        """Return this profile with every delay multiplied by `factor`."""
        return Profile(**{field.name: getattr(self, field.name) * factor for field in fields(self)})


INSTANT: Final = Profile()
REALISTIC: Final = Profile(bind=1.0, pod_start=3.0, detach=2.0, boot=5.0, migrate=4.0)
PROFILES: Final[Mapping[str, Profile]] = {"instant": INSTANT, "realistic": REALISTIC}
