"""What a plan of the attach engine can come to, besides a change of the machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from csi.errors import CsiError


@dataclass(frozen=True, slots=True)
class Done:
    """The goal is reached, as far as the plan looks."""


@dataclass(frozen=True, slots=True)
class Wait:
    """The host is at work; `what` says on which layer, and what it says there."""

    what: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """Nothing that the host does by itself leads to the goal."""

    error: CsiError
