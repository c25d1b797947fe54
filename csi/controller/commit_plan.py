"""Which of the changes that wait for a machine may go to it now, in one patch. Pure.

The trap: to take a disk that keeps the attachment pod from running out again is itself a change of a
machine that is not at rest. It is worth a new start only after a minute, and then whoever else waits goes
with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from csi.controller.rest_plan import State

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from csi.controller.rest_plan import Rest
    from csi.model import VolumeId


@dataclass(frozen=True, slots=True)
class Change:
    """One wish: the volume in the machine, or not. `alone`: it kept the machine busy before."""

    volume: VolumeId
    add: bool
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Commit:
    """What goes into the next patch."""

    changes: tuple[Change, ...]
    expelled: frozenset[VolumeId] = frozenset()
    """Volumes that nobody asked to remove; they keep the attachment pod from running."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Nothing may go now; `why` says what is waited for."""

    why: str


CommitPlan: TypeAlias = Commit | Hold


def plan_commit(rest: Rest, asked: Sequence[Change], culprits: Iterable[VolumeId] = ()) -> CommitPlan:
    """Decide from the machine's state and the waiting changes, oldest first.

    `culprits` are the volumes of ours that have kept the machine from coming to rest for too long.
    """
    removes = tuple(change for change in asked if not change.add)
    match rest.state:
        case State.AT_REST:
            now = _together(asked)
        case State.OFF | State.NOT_RUNNING:
            now = removes
        case State.MOVING if expelled := frozenset(culprits):
            return Commit(tuple(change for change in asked if not change.alone), expelled)
        case State.MOVING if rest.unfinished and rest.unfinished <= {change.volume for change in removes}:
            now = removes  # a new start delays only disks that nobody wants any more
        case _:
            now = ()
    return Commit(now) if now else Hold(rest.why)


def _together(asked: Sequence[Change]) -> tuple[Change, ...]:
    """All that wait go in one patch, but one that must go alone does: first come, first served."""
    if asked and asked[0].alone:
        return (asked[0],)
    return tuple(change for change in asked if not change.alone)
