"""Taking and clearing the mark of a claim's holder."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from csi.controller.holder_plan import Write, is_abandoned, plan_clear, plan_take
from csi.controller.layers import Layer, Trace
from csi.controller.marks import ATTACHED_TO, CLUSTER, FRESH, NEVER_ATTACHED, USED, Holder, change
from csi.controller.steps import Done, Refuse, Wait
from csi.errors import InUse, Unavailable
from tests.attach.shapes import OURS, UID, VM, claim

if TYPE_CHECKING:
    from kube.objects import Object

NOW = datetime(2026, 8, 1, 12, 0, 0, 5, tzinfo=UTC)
ME = Holder(VM, UID, NOW)
EARLIER = Holder(VM, UID, NOW - timedelta(minutes=5))
OTHER = Holder("vm-b", "uid-b", NOW - timedelta(minutes=5))
PATIENCE = timedelta(seconds=70)
SOON = "2026-08-01T12:10:00Z"
RECENT = "2026-08-01T12:05:00Z"


def written(operations: list[Object]) -> dict[str, str]:
    """Return the annotations that a patch writes, by their names after the slash."""
    return {op["path"].rpartition("~1")[2]: op["value"] for op in operations if op["op"] != "test"}


def test_a_free_claim_is_taken_while_it_is_free() -> None:
    """The patch stands on the old value, and every value is a new one."""
    assert plan_take(claim(""), ME, [], OURS, abandoned=False) == Write(
        change(ATTACHED_TO, "", str(ME)), str(ME)
    )
    assert str(ME) != str(Holder(VM, UID, NOW + timedelta(microseconds=1)))


def test_the_same_machine_takes_it_again() -> None:
    """A call that comes again, in whatever process, renews the mark, so that an older clear of it fails."""
    plan = plan_take(claim(str(EARLIER)), ME, [], OURS, abandoned=False)
    assert plan == Write(change(ATTACHED_TO, str(EARLIER), str(ME)), str(ME))


def test_an_unmarked_claim_is_marked_as_it_was_read() -> None:
    """Upstream's claims have no mark: the resourceVersion is tested, and the cluster is written too."""
    plan = plan_take(claim(None, cluster=""), ME, [], OURS, abandoned=False)
    assert isinstance(plan, Write)
    assert plan.operations == [
        {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "add", "path": "/metadata/annotations", "value": {ATTACHED_TO: str(ME), CLUSTER: OURS}},
    ]


def test_a_claim_that_is_not_known_to_be_ours_gets_a_holder_only() -> None:
    """Without the cluster's name nothing later takes it for a volume of ours, and deletes it."""
    plan = plan_take(claim(None, cluster=""), ME, [], "", abandoned=False)
    assert isinstance(plan, Write)
    assert plan.operations[1:] == [
        {"op": "add", "path": "/metadata/annotations", "value": {ATTACHED_TO: str(ME)}}
    ]


@pytest.mark.parametrize(
    ("attached_to", "elsewhere", "error"),
    [
        pytest.param(str(OTHER), [], InUse, id="marked-for-another"),
        pytest.param("", [Trace(Layer.TEMPLATE, "vm-b")], InUse, id="in-another-template"),
        pytest.param(
            "", [Trace(Layer.HOST, "host-9"), Trace(Layer.POD, "vm-b")], InUse, id="in-anothers-pod"
        ),
        pytest.param(str(EARLIER), [Trace(Layer.SPEC, "vm-b")], InUse, id="mine-by-mark-and-seen-elsewhere"),
        pytest.param(None, [Trace(Layer.HOST, "host-9")], Unavailable, id="on-another-host-node"),
        pytest.param("somebody", [], InUse, id="unreadable"),
    ],
)
def test_a_claim_that_another_holds_is_refused(
    attached_to: str | None, elsewhere: list[Trace], error: type[Exception]
) -> None:
    """Neither the mark nor any layer may speak for another machine."""
    plan = plan_take(claim(attached_to), ME, elsewhere, OURS, abandoned=False)
    assert isinstance(plan, Refuse)
    assert isinstance(plan.error, error)


def test_the_refusal_names_the_holder() -> None:
    """The spec wants the node in the message (ControllerPublishVolume, FAILED_PRECONDITION)."""
    plan = plan_take(claim(str(OTHER)), ME, [], OURS, abandoned=False)
    assert isinstance(plan, Refuse)
    assert "machine vm-b" in str(plan.error)


def test_an_abandoned_mark_is_taken_over_in_the_same_way() -> None:
    """Two who take it over at once: one loses, as with a free claim."""
    plan = plan_take(claim(str(OTHER)), ME, [], OURS, abandoned=True)
    assert plan == Write(change(ATTACHED_TO, str(OTHER), str(ME)), str(ME))


@pytest.mark.parametrize(
    ("age", "exists", "expected"),
    [
        pytest.param(70, True, False, id="a-patch-may-be-on-its-way"),
        pytest.param(71, True, True, id="no-patch-lives-as-long"),
        pytest.param(1, False, True, id="no-patch-can-reach-a-machine-that-is-gone"),
    ],
)
def test_abandoned(age: int, exists: bool, expected: bool) -> None:
    """A mark whose machine shows nothing counts as long as a patch could still arrive."""
    holder = Holder("vm-b", "uid-b", NOW - timedelta(seconds=age))
    assert is_abandoned(holder, NOW, PATIENCE, exists=exists) is expected


@pytest.mark.parametrize(
    ("attached_to", "fresh", "bound", "expected"),
    [
        pytest.param("", NEVER_ATTACHED, True, SOON, id="first-attach"),
        pytest.param(str(EARLIER), RECENT, True, None, id="the-same-attachment-keeps-its-time"),
        pytest.param("", RECENT, True, USED, id="a-second-attachment-is-not-fresh"),
        pytest.param(str(OTHER), RECENT, True, USED, id="nor-on-another-machine"),
        pytest.param("", RECENT, False, SOON, id="what-was-never-bound-has-nothing-on-it"),
        pytest.param("", USED, True, None, id="used-stays-used"),
        pytest.param("", "", True, None, id="not-said-is-used"),
        pytest.param(None, NEVER_ATTACHED, True, USED, id="without-a-mark-nobody-knows"),
    ],
)
def test_freshness(attached_to: str | None, fresh: str, bound: bool, expected: str | None) -> None:
    """A disk may be formatted over old bytes for ten minutes after its first attach, and never again."""
    plan = plan_take(claim(attached_to, fresh, bound=bound), ME, [], OURS, abandoned=True)
    assert isinstance(plan, Write)
    assert written(list(plan.operations)).get(FRESH.rpartition("/")[2]) == expected


@pytest.mark.parametrize(
    ("attached_to", "machine", "settled", "expected"),
    [
        pytest.param(str(ME), VM, True, Write, id="known-to-be-over"),
        pytest.param(str(EARLIER), VM, False, Write, id="old-enough"),
        pytest.param(str(ME), VM, False, Wait, id="a-patch-may-be-on-its-way"),
        pytest.param(str(OTHER), VM, True, Done, id="another-machines-mark-stays"),
        pytest.param(str(OTHER), None, True, Write, id="from-all-machines"),
        pytest.param("", VM, True, Done, id="free-already"),
        pytest.param(None, VM, True, Done, id="unmarked"),
    ],
)
def test_clear(attached_to: str | None, machine: str | None, settled: bool, expected: type[object]) -> None:
    """The mark of a machine that shows nothing is cleared once no patch can bring the volume back."""
    plan = plan_clear(claim(attached_to), machine, NOW, PATIENCE, settled=settled)
    assert isinstance(plan, expected)
    if isinstance(plan, Write):
        assert plan.operations == change(ATTACHED_TO, attached_to or "", "")


def test_a_claim_that_is_gone_has_no_mark_to_clear() -> None:
    """Nothing is left to do."""
    assert plan_clear(None, VM, NOW, PATIENCE, settled=False) == Done()
