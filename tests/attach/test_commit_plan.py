"""Which changes go to a machine together, and when."""

from __future__ import annotations

import pytest

from csi.controller.commit_plan import Change, Commit, Hold, plan_commit
from csi.controller.rest_plan import Rest, State
from csi.model import VolumeId

ADD_A, ADD_B = Change(VolumeId("a"), add=True), Change(VolumeId("b"), add=True)
OUT_A, OUT_B = Change(VolumeId("a"), add=False), Change(VolumeId("b"), add=False)
ALONE = Change(VolumeId("z"), add=True, alone=True)
REST, OFF = Rest(State.AT_REST), Rest(State.OFF, "stopped")
BUSY_A = Rest(State.MOVING, "busy", frozenset({"a"}))
BUSY_AB = Rest(State.MOVING, "busy", frozenset({"a", "b"}))
MIGRATES = Rest(State.CLOSED, "the VM migrates")


@pytest.mark.parametrize(
    ("rest", "asked", "expected"),
    [
        pytest.param(REST, [ADD_A, OUT_B], Commit((ADD_A, OUT_B)), id="at-rest-all-go-together"),
        pytest.param(
            REST, [ADD_A, ALONE, ADD_B], Commit((ADD_A, ADD_B)), id="a-lonely-one-lets-the-older-go"
        ),
        pytest.param(REST, [ALONE, ADD_A], Commit((ALONE,)), id="a-lonely-one-goes-alone-in-its-turn"),
        pytest.param(BUSY_A, [ADD_B], Hold("busy"), id="busy-all-wait"),
        pytest.param(BUSY_AB, [OUT_B], Hold("busy"), id="a-removal-waits-for-others-too"),
        pytest.param(
            BUSY_A, [ADD_B, OUT_A], Commit((OUT_A,)), id="what-nobody-wants-any-more-is-not-waited-for"
        ),
        pytest.param(MIGRATES, [ADD_A, OUT_B], Hold("the VM migrates"), id="migrating-all-wait"),
        pytest.param(OFF, [ADD_A, OUT_B], Commit((OUT_B,)), id="a-stopped-machine-only-loses-disks"),
        pytest.param(Rest(State.NOT_RUNNING, "boots"), [ADD_A], Hold("boots"), id="a-booting-one-takes-none"),
        pytest.param(Rest(State.NOT_RUNNING, "boots"), [OUT_A], Commit((OUT_A,)), id="and-loses-them"),
    ],
)
def test_plan(rest: Rest, asked: list[Change], expected: Commit | Hold) -> None:
    """A set of disks changes only at rest, and then for all who wait."""
    assert plan_commit(rest, asked) == expected


def test_a_culprit_goes_with_the_next_commit_and_the_others_with_it() -> None:
    """Taking a disk out that keeps the pod Pending is a new start anyway, so that all others share it."""
    expelled = frozenset({VolumeId("a")})
    assert plan_commit(BUSY_A, [ADD_B, ALONE], expelled) == Commit((ADD_B,), expelled)
    assert plan_commit(BUSY_A, [], expelled) == Commit((), expelled)
    assert plan_commit(MIGRATES, [ADD_B], expelled) == Hold("the VM migrates")
