"""The next step of an attachment."""

from __future__ import annotations

import pytest

from csi.controller.attach_plan import Plug, plan_attach, plan_host_attachment
from csi.controller.layers import MachineView
from csi.controller.steps import Done, Refuse, Wait
from csi.errors import Exhausted, InUse, NotFound, Unavailable
from tests.attach.shapes import (
    NODE,
    VM,
    VOLUME,
    claim,
    host_attachment,
    instance,
    machine,
    off,
    plugged,
    pod,
    status,
    view,
)

DISK = plugged(VOLUME)
MIGRATES = {"sourceNode": NODE, "targetNode": "host-2", "startTimestamp": "2026-08-01T12:00:00Z"}
PAUSED = [{"type": "Paused", "status": "True"}]


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(view(), Plug, id="not-in-the-template"),
        pytest.param(view([], [DISK]), Plug, id="still-leaving-an-earlier-attachment"),
        pytest.param(view([DISK], []), Wait, id="in-the-template-only"),
        pytest.param(view([DISK], statuses=[]), Wait, id="without-a-status"),
        pytest.param(view([DISK], statuses=[status(VOLUME, "AttachedToNode", "", "")]), Wait, id="pod-made"),
        pytest.param(view([DISK], statuses=[status(VOLUME, "Ready", "")]), Wait, id="ready-without-a-target"),
        pytest.param(view([DISK]), Done, id="on-all-layers"),
        pytest.param(view([DISK], migrationState=MIGRATES), Done, id="on-all-layers-and-migrating"),
        pytest.param(view([DISK], conditions=PAUSED), Done, id="on-all-layers-and-paused"),
        pytest.param(view([plugged("other")], phase="Scheduled"), Plug, id="starting"),
    ],
)
def test_step(seen: MachineView, expected: type[object]) -> None:
    """The first layer that does not show the volume decides what comes next."""
    assert isinstance(plan_attach(VOLUME, seen), expected)


@pytest.mark.parametrize(
    ("seen", "error", "words"),
    [
        pytest.param(MachineView(VM), NotFound, "there is no VM vm-a", id="no-vm"),
        pytest.param(off(), InUse, "VM vm-a is not running", id="stopped"),
        pytest.param(off(DISK), Unavailable, "VM vm-a is not running", id="stopped-with-the-disk"),
        pytest.param(view(phase="Succeeded"), InUse, "is not running", id="shut-down-from-inside"),
        pytest.param(view(conditions=PAUSED), InUse, "VM vm-a is paused", id="paused"),
        pytest.param(view([DISK], [], conditions=PAUSED), Unavailable, "is paused", id="paused-on-the-way"),
        pytest.param(view(migrationState=MIGRATES), Unavailable, "the VM migrates", id="migrating"),
        pytest.param(view([plugged("data", VOLUME)]), InUse, "as its disk data", id="under-another-name"),
        pytest.param(view([plugged(VOLUME, "other")]), InUse, "claim other", id="the-name-of-another-claim"),
        pytest.param(
            MachineView(VM, machine(deletionTimestamp="2026-08-01T12:00:00Z"), instance()),
            InUse,
            "is being deleted",
            id="vm-going",
        ),
        pytest.param(view([plugged(f"d{i}") for i in range(255)]), Exhausted, "no more", id="full"),
    ],
)
def test_refusal(seen: MachineView, error: type[Exception], words: str) -> None:
    """What the host will not do by itself is said at once, with what to do."""
    plan = plan_attach(VOLUME, seen)
    assert isinstance(plan, Refuse)
    assert isinstance(plan.error, error)
    assert words in plan.error.message


@pytest.mark.parametrize("seen", [MachineView(VM), off(), view(conditions=PAUSED)])
def test_after_the_first_change_no_error_is_final(seen: MachineView) -> None:
    """A volume that may be on its way to a machine is not forgotten by the sidecars."""
    plan = plan_attach(VOLUME, seen, begun=True)
    assert isinstance(plan, Refuse)
    assert isinstance(plan.error, Unavailable)


def test_waiting_says_layer_phase_reason_and_the_pods_words() -> None:
    """Whoever reads the error of a slow attach sees how far it is and what it hangs on."""
    slow = status(VOLUME, "AttachedToNode", "", "", reason="SuccessfulCreate")
    stuck = pod(VOLUME, phase="Pending", why="0/3 nodes are available")
    plan = plan_attach(VOLUME, view([DISK], statuses=[slow], pods=[stuck]))
    assert isinstance(plan, Wait)
    assert plan.what == (
        "the disk status of VM vm-a (volume pvc-1: phase AttachedToNode, target none, SuccessfulCreate; "
        "attachment pod hp-volume-1 (Pending: Unschedulable: 0/3 nodes are available))"
    )


@pytest.mark.parametrize(
    ("found", "needed", "expected"),
    [
        pytest.param([host_attachment()], True, Done, id="attached"),
        pytest.param([host_attachment(attached=False)], True, Wait, id="not-attached-yet"),
        pytest.param([], True, Wait, id="missing"),
        pytest.param([], False, Done, id="storage-without-attachments"),
        pytest.param([host_attachment(), host_attachment("host-9")], True, Wait, id="a-stranger"),
        pytest.param(
            [host_attachment(), host_attachment("host-2")], True, Done, id="both-ends-of-a-migration"
        ),
        pytest.param(None, True, Done, id="unreadable-the-pod-tells"),
    ],
)
def test_host_attachment(found: list[object] | None, needed: bool, expected: type[object]) -> None:
    """The host's own attachment must be there, and on no node that is not the machine's."""
    seen = view([DISK], migrationState=MIGRATES)
    plan = plan_host_attachment(claim(), seen, found, needed=needed)  # type: ignore[arg-type]  # table
    assert isinstance(plan, expected)


def test_without_the_right_to_see_attachments_a_running_pod_is_needed() -> None:
    """On an older host the attachment pod is the evidence."""
    seen = view([DISK], pods=[pod(VOLUME, phase="Pending")])
    assert isinstance(plan_host_attachment(claim(), seen, None, needed=True), Wait)
