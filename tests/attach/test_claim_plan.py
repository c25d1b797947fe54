"""Which claims can be plugged into a machine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from csi.controller.claim_plan import why_not_plugged
from csi.errors import InUse, Unavailable
from tests.attach.shapes import claim

if TYPE_CHECKING:
    from csi.controller.claims import HostClaim

PENDING = claim(bound=False)


@pytest.mark.parametrize(
    ("observed", "binds_at_once", "expected"),
    [
        pytest.param(claim(), True, None, id="bound"),
        pytest.param(PENDING, False, None, id="waits-for-its-first-consumer"),
        pytest.param(PENDING, True, Unavailable, id="pending"),
        pytest.param(replace(claim(), terminating=True), True, InUse, id="being-deleted"),
        pytest.param(replace(claim(), phase="Lost"), False, InUse, id="lost"),
    ],
)
def test_plan(observed: HostClaim, binds_at_once: bool, expected: type[Exception] | None) -> None:
    """A claim is plugged when a volume stands behind it, or will once a pod uses it."""
    error = why_not_plugged(observed, binds_at_once=binds_at_once)
    assert (error is None) if expected is None else isinstance(error, expected)


def test_the_refusal_says_what_the_host_says() -> None:
    """What can be seen of a claim that does not bind stands in the error."""
    stuck = replace(PENDING, conditions=("Resizing (no room)",))
    assert "Resizing (no room)" in str(why_not_plugged(stuck, binds_at_once=True))
