"""No patch is sent under a mark whose age would not tell any more that it may be on its way."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from csi.controller.claims import HostClaims
from csi.controller.classes import HostClasses
from csi.controller.holders import PATIENCE, SEND, Holders
from csi.controller.marks import Holder
from csi.controller.ownership import Ownership
from tests.attach.bench import CLUSTER

if TYPE_CHECKING:
    from tests.attach.bench import Bench

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
REQUEST_LIFE = timedelta(seconds=60)
"""What an API server allows a request."""


def test_a_mark_counts_longer_than_a_patch_under_it_can_live() -> None:
    """The oldest mark under which a patch is sent, and the life of a request, end before the mark does."""
    assert SEND + REQUEST_LIFE < PATIENCE


@pytest.mark.parametrize(
    ("mark", "young"),
    [
        pytest.param(str(Holder("vm-a", "u1", NOW)), True, id="just-written"),
        pytest.param(str(Holder("vm-a", "u1", NOW - SEND)), True, id="at-the-limit"),
        pytest.param(str(Holder("vm-a", "u1", NOW - SEND - timedelta(seconds=1))), False, id="aged"),
        pytest.param("somebody", False, id="unreadable"),
        pytest.param("", False, id="none"),
    ],
)
def test_a_patch_is_sent_only_under_a_young_mark(bench: Bench, mark: str, young: bool) -> None:
    """A mark that aged while other claims were looked at is renewed first."""
    claims, classes = HostClaims(bench.admin, bench.namespace), HostClasses(bench.admin)
    holders = Holders(bench.admin, claims, classes, Ownership(None, CLUSTER), now=lambda: NOW)
    assert holders.is_young(mark) is young
