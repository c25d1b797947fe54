"""When a machine is at rest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from csi.controller.layers import MachineView
from csi.controller.rest_plan import State, plan_rest, suspects
from tests.attach.shapes import VM, instance, machine, off, plugged, pod, status, view

A, B = plugged("pvc-a"), plugged("pvc-b")
MIGRATES = {"sourceNode": "host-1", "targetNode": "host-2", "startTimestamp": "2026-08-01T12:00:00Z"}


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(view(), State.AT_REST, id="no-disks"),
        pytest.param(view([A, B]), State.AT_REST, id="all-ready"),
        pytest.param(view([A], pods=[]), State.AT_REST, id="no-pod-to-wait-for"),
        pytest.param(view([A], []), State.MOVING, id="just-patched"),
        pytest.param(view([], [A]), State.MOVING, id="removal-not-taken-over-yet"),
        pytest.param(view([A], statuses=[]), State.MOVING, id="no-status-yet"),
        pytest.param(
            view([A], statuses=[status("pvc-a", "AttachedToNode", "", "")]), State.MOVING, id="not-ready"
        ),
        pytest.param(view([A], statuses=[status("pvc-a", pod="")]), State.MOVING, id="pod-swap-under-way"),
        pytest.param(
            view([A], statuses=[status("pvc-a"), status("pvc-b", "Detaching", "")]),
            State.MOVING,
            id="detaching",
        ),
        pytest.param(
            view([A], statuses=[status("pvc-a"), status("pvc-b")]), State.MOVING, id="removed-and-still-ready"
        ),
        pytest.param(view([A], pods=[pod("pvc-a"), pod("pvc-a")]), State.MOVING, id="two-pods"),
        pytest.param(view([A], pods=[pod("pvc-a", phase="Pending")]), State.MOVING, id="pod-pending"),
        pytest.param(
            view([A], pods=[pod("pvc-a", phase="Succeeded")]), State.AT_REST, id="an-ended-pod-is-none"
        ),
        pytest.param(view([A], [plugged("pvc-a", "other")]), State.MOVING, id="same-name-other-claim"),
        pytest.param(off(A), State.OFF, id="stopped"),
        pytest.param(view([A], phase="Succeeded"), State.OFF, id="shut-down-from-inside"),
        pytest.param(MachineView(VM, None, instance(A)), State.OFF, id="vm-gone"),
        pytest.param(view([A], phase="Scheduled"), State.NOT_RUNNING, id="starting"),
        pytest.param(view([A], migrationState=MIGRATES), State.CLOSED, id="migrating"),
        pytest.param(
            view([A], migrationState=MIGRATES | {"endTimestamp": "2026-08-01T12:00:09Z"}),
            State.AT_REST,
            id="migrated",
        ),
    ],
)
def test_state(seen: MachineView, expected: State) -> None:
    """A machine is at rest when every disk is where the template wants it and at most one pod serves them."""
    assert plan_rest(seen).state is expected


def test_a_fixed_disk_in_the_instance_is_left_alone() -> None:
    """KubeVirt does not replace a disk that is not hot-pluggable, so that nothing is to be waited for."""
    fixed = {"name": "pvc-a", "persistentVolumeClaim": {"claimName": "pvc-a"}}
    assert plan_rest(MachineView(VM, machine(A), instance(fixed, statuses=[]))).state is State.AT_REST


def test_a_machine_that_is_snapshotted_is_left_alone() -> None:
    """KubeVirt refuses changes of disks until the snapshot is taken: waiting is better than a refusal."""
    snapshotted = replace(machine(A), snapshot_in_progress="nightly")
    rest = plan_rest(MachineView(VM, snapshotted, instance(A), (pod("pvc-a"),)))
    assert rest.state is State.CLOSED
    assert "snapshot nightly" in rest.why


def test_the_reason_names_disk_and_pod() -> None:
    """Who waits for a machine reads which disk and which pod it waits for."""
    waiting = status("pvc-a", "AttachedToNode", "", "", reason="SuccessfulCreate")
    rest = plan_rest(view([A], statuses=[waiting], pods=[pod("pvc-a", phase="Pending", why="no room")]))
    assert "disk pvc-a: phase AttachedToNode, target none, SuccessfulCreate" in rest.why
    assert "attachment pod hp-volume-1 (Pending: Unschedulable: no room)" in rest.why


@pytest.mark.parametrize(
    ("why", "foreign", "expected"),
    [
        pytest.param("no room", False, {"pvc-a", "pvc-b"}, id="all-new-disks"),
        pytest.param('persistentvolumeclaim "pvc-b" not bound', False, {"pvc-b"}, id="the-one-that-is-named"),
        pytest.param("volume pvc-b-2 is faulted", False, {"pvc-a", "pvc-b"}, id="a-longer-name-is-another"),
        pytest.param("no room", True, set(), id="foreign-disks-are-never-suspected"),
    ],
)
def test_suspects(why: str, foreign: bool, expected: set[str]) -> None:
    """Only new disks that a driver plugged may be taken out for keeping a pod from running."""
    new = [plugged("x", "pvc-a"), plugged("y", "pvc-b")] if foreign else [A, B]
    statuses = [status("pvc-0"), *(status(v["name"], "AttachedToNode", "", "") for v in new)]
    pending = pod("pvc-0", "pvc-a", "pvc-b", phase="Pending", why=why)
    seen = view([plugged("pvc-0"), *new], statuses=statuses, pods=[pod("pvc-0"), pending])
    assert suspects(seen, plan_rest(seen)) == expected


def test_without_a_pending_pod_nothing_is_suspected() -> None:
    """A disk that takes long inside the machine is not taken out: the pod does not wait for it."""
    seen = view([A], statuses=[status("pvc-a", "MountedToPod", "")])
    assert suspects(seen, plan_rest(seen)) == set()
