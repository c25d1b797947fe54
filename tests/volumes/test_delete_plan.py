"""What a DeleteVolume request means."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from csi.controller.delete_plan import PVC_PROTECTION, Delete, Gone, Refuse, plan_delete
from tests.volumes.shapes import made, request

if TYPE_CHECKING:
    from csi.controller.claims import HostClaim

FREE = made(request())
GOING = made(request(), terminating=True)
HELD = made(request(), terminating=True, finalizers=(PVC_PROTECTION, "snapshot.example/protection"))


@pytest.mark.parametrize(
    ("claim", "ours", "holder", "expected", "words"),
    [
        pytest.param(FREE, True, None, Delete, "", id="a-free-claim-is-deleted"),
        pytest.param(FREE, False, None, Refuse, "not a volume of this cluster", id="a-foreign-claim-stays"),
        pytest.param(
            GOING, False, None, Refuse, "not a volume", id="a-foreign-claim-that-goes-is-not-ours-to-tell"
        ),
        pytest.param(FREE, True, "vm-a", Refuse, "vm-a", id="an-attached-claim-stays"),
        pytest.param(GOING, True, None, Gone, "", id="going-with-protection-only-is-done"),
        pytest.param(GOING, True, "vm-a", Refuse, "vm-a", id="going-but-attached-is-not-done"),
        pytest.param(HELD, True, None, Refuse, "snapshot.example/protection", id="a-held-claim-is-not-gone"),
    ],
)
def test_plan(claim: HostClaim, ours: bool, holder: str | None, expected: type[object], words: str) -> None:
    """A claim is deleted only when it is ours and nothing holds it."""
    plan = plan_delete(claim, ours=ours, holder=holder)
    assert isinstance(plan, expected)
    if isinstance(plan, Refuse):
        assert words in plan.why


def test_a_delete_carries_the_state_that_was_looked_at() -> None:
    """A claim that was attached, or made anew, since it was looked at is not deleted."""
    assert plan_delete(FREE, ours=True, holder=None) == Delete(FREE)
