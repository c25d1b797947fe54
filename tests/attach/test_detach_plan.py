"""The next step of a detachment."""

from __future__ import annotations

import pytest

from csi.controller.detach_plan import Unplug, plan_detach, plan_release
from csi.controller.layers import MachineView
from csi.controller.steps import Done, Refuse, Wait
from csi.errors import InUse
from tests.attach.shapes import VM, VOLUME, host_attachment, instance, off, plugged, pod, status, view

DISK = plugged(VOLUME)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(view([DISK]), Unplug, id="attached"),
        pytest.param(view([DISK], []), Unplug, id="in-the-template-only"),
        pytest.param(off(DISK), Unplug, id="stopped"),
        pytest.param(view([], [DISK]), Wait, id="in-the-running-spec"),
        pytest.param(view(statuses=[status(VOLUME, "Detaching", "")]), Wait, id="in-the-status"),
        pytest.param(view(pods=[pod(VOLUME)]), Wait, id="in-a-pod"),
        pytest.param(MachineView(VM, None, instance(DISK)), Wait, id="vm-gone-instance-alive"),
        pytest.param(MachineView(VM, None, None, (pod(VOLUME),)), Wait, id="only-the-pod-is-left"),
        pytest.param(view([], [DISK], pods=[], phase="Succeeded"), Done, id="what-an-ended-instance-lists"),
        pytest.param(view(pods=[pod(VOLUME, phase="Failed")]), Done, id="an-ended-pod"),
        pytest.param(view([plugged("other")]), Done, id="clean"),
        pytest.param(off(), Done, id="stopped-and-clean"),
        pytest.param(MachineView(VM), Done, id="no-such-machine"),
    ],
)
def test_step(seen: MachineView, expected: type[object]) -> None:
    """A volume is gone from a machine when none of its layers shows it."""
    assert isinstance(plan_detach(VOLUME, seen), expected)


def test_a_foreign_disk_of_the_claim_is_not_ours_to_remove() -> None:
    """What a person put into the VM under a name of their own stays, and detach does not say OK."""
    plan = plan_detach(VOLUME, view([plugged("data", VOLUME)]))
    assert isinstance(plan, Refuse)
    assert isinstance(plan.error, InUse)
    assert "disk data" in plan.error.message


def test_waiting_names_every_layer_that_is_left() -> None:
    """A detach that hangs says what holds the disk."""
    plan = plan_detach(VOLUME, view([], [DISK], pods=[pod(VOLUME)]))
    assert plan == Wait(
        "volume pvc-1 to leave the running spec of VM vm-a; "
        "the disk status of VM vm-a (phase Ready, target sda); "
        "an attachment pod of VM vm-a (attachment pod hp-volume-1 (Running))"
    )


def test_release() -> None:
    """Any attachment left on the host holds the volume."""
    assert plan_release(VOLUME, []) == Done()
    held = plan_release(VOLUME, [host_attachment("host-9")])
    assert isinstance(held, Wait)
    assert "host-9" in held.what
