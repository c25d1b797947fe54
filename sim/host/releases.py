"""Harvester releases that can be simulated: what differs between them is named here, and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sim.host import roles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kube.objects import Object


@dataclass(frozen=True, slots=True)
class Release:
    """One Harvester release, as far as a guest can tell."""

    name: str
    server_version: str
    """Value of the setting server-version."""
    csi_driver_rules: tuple[Object, ...]
    """Rules of the guest's cluster-wide role."""


RELEASES: Final[Mapping[str, Release]] = {
    "1.9": Release("1.9", "v1.9.0", roles.CSI_DRIVER_RULES_1_9),
}


def release(name: str) -> Release:
    """Return the release of this name; raises ValueError with those that there are."""
    try:
        return RELEASES[name]
    except KeyError:
        raise ValueError(f"Harvester {name} is not simulated; there are {', '.join(RELEASES)}") from None
