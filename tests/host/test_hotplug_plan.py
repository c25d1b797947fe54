"""virt-controller's decisions, as tables: host-api chapters 1.2, 1.4 and 1.9 say the rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kube.objects import items, text
from sim.host.hotplug_plan import Blocked, Pods, plan_pods, plan_spec, volume_status
from sim.host.shapes import AttachmentPod

if TYPE_CHECKING:
    from kube.objects import Object

BOOT: Object = {"name": "disk-0", "persistentVolumeClaim": {"claimName": "boot"}}


def volume(name: str) -> Object:
    """Return a hot-pluggable volume over the claim of the same name."""
    return {"name": name, "persistentVolumeClaim": {"claimName": name, "hotpluggable": True}}


def spec(*names: str) -> Object:
    """Return an instance's spec with the boot disk and these hot-plugged volumes."""
    disks = [{"name": name, "disk": {"bus": "scsi"}} for name in names]
    boot = {"name": "disk-0", "disk": {"bus": "virtio"}}
    return {"volumes": [BOOT, *map(volume, names)], "domain": {"devices": {"disks": [boot, *disks]}}}


def machine(*names: str) -> Object:
    """Return a machine whose template lists these volumes."""
    return {"spec": {"template": {"spec": spec(*names)}}}


def entry(name: str, phase: str, pod: str = "hp-old", uid: str = "uid-old", target: str = "") -> Object:
    """Return a volumeStatus entry of a hot-plugged volume."""
    return {
        "name": name,
        "target": target,
        "phase": phase,
        "hotplugVolume": {"attachPodName": pod, "attachPodUID": uid},
    }


def instance(*names: str, status: tuple[Object, ...] = (), phase: str = "Running") -> Object:
    """Return an instance with these hot-plugged volumes in its spec."""
    return {"spec": spec(*names), "status": {"phase": phase, "volumeStatus": list(status)}}


def pod(name: str, *volumes: str, running: bool = True, terminating: bool = False) -> AttachmentPod:
    """Return an attachment pod; a running one is ready."""
    return AttachmentPod(name, f"uid-{name[3:]}", frozenset(volumes), running, running, terminating)


def claims(*names: str, phase: str = "Bound") -> dict[str, Object]:
    """Return existing claims by name."""
    return {name: {"metadata": {"name": name}, "status": {"phase": phase}} for name in names}


def volumes_after(vm: Object, vmi: Object) -> list[str] | None:
    """Return the volumes that the planned patch leaves in the instance's spec; None without a patch."""
    patch = plan_spec(vm, vmi)
    if not patch:
        return None
    by_path = {op["path"]: op for op in patch if op["op"] == "replace"}
    volumes = [each["name"] for each in by_path["/spec/volumes"]["value"]]
    assert sorted(volumes) == sorted(d["name"] for d in by_path["/spec/domain/devices/disks"]["value"])
    return volumes


@pytest.mark.parametrize(
    ("vm", "vmi", "expected"),
    [
        pytest.param(machine("a"), instance(), ["disk-0", "a"], id="a-new-volume-is-added"),
        pytest.param(machine(), instance("a"), ["disk-0"], id="a-volume-that-left-is-removed"),
        pytest.param(machine("a"), instance("a"), None, id="the-same-needs-no-patch"),
        pytest.param(
            machine("a"),
            instance(status=(entry("a", "Detaching"),)),
            None,
            id="a-volume-still-in-the-status-is-not-added",
        ),
        pytest.param(machine("a"), instance(phase="Scheduled"), None, id="a-starting-instance-is-left-alone"),
    ],
)
def test_the_spec_follows_the_template(vm: Object, vmi: Object, expected: list[str] | None) -> None:
    """A Running instance's spec follows its template, but a name is reused only after its old entry is
    gone."""
    assert volumes_after(vm, vmi) == expected


def test_the_patch_tests_both_arrays_first() -> None:
    """The patch fails when somebody else changed the spec in between."""
    tested = [op["path"] for op in plan_spec(machine("a"), instance()) if op["op"] == "test"]
    assert tested == ["/spec/volumes", "/spec/domain/devices/disks"]


@pytest.mark.parametrize(
    ("vmi", "pods", "expected"),
    [
        pytest.param(instance("a"), [], Pods(frozenset("a")), id="the-first-pod-is-created"),
        pytest.param(instance("a"), [pod("hp-1", "a")], Pods(), id="at-rest-nothing-is-done"),
        pytest.param(
            instance("a", "b"),
            [pod("hp-1", "a")],
            Pods(frozenset("ab")),
            id="a-running-pod-stays-while-its-successor-is-created",
        ),
        pytest.param(
            instance("a", "b"),
            [pod("hp-1", "a"), pod("hp-2", "a", "b", running=False)],
            Pods(),
            id="a-running-pod-stays-while-its-successor-is-pending",
        ),
        pytest.param(
            instance("a", "b"),
            [pod("hp-1", "a"), pod("hp-2", "a", "b")],
            Pods(delete=("hp-1",)),
            id="the-old-pod-goes-once-its-successor-runs",
        ),
        pytest.param(
            instance("a", "b", "c"),
            [pod("hp-1", "a"), pod("hp-2", "a", "b", running=False)],
            Pods(delete=("hp-2",)),
            id="a-pending-pod-is-thrown-away-when-the-set-changes",
        ),
        pytest.param(
            instance("b", status=(entry("a", "Ready", target="sda"),)),
            [pod("hp-1", "a"), pod("hp-2", "b")],
            Pods(),
            id="a-pod-stays-while-a-removed-volume-is-in-the-machine",
        ),
        pytest.param(
            instance(status=(entry("a", "UnMountedFromPod"),)),
            [pod("hp-1", "a")],
            Pods(delete=("hp-1",)),
            id="the-last-pod-goes-when-its-volume-is-unmounted",
        ),
    ],
)
def test_pods_follow_the_spec(vmi: Object, pods: list[AttachmentPod], expected: Pods) -> None:
    """There is one pod for all volumes; a changed set starts over unless a Running one can be kept."""
    assert plan_pods(vmi, pods, claims("a", "b", "c")) == expected


def test_a_missing_claim_stops_all() -> None:
    """One volume without a claim stops the hot-plug of all others of the instance."""
    plan = plan_pods(instance("a", "b"), [pod("hp-1", "a")], claims("a"))
    assert plan == Blocked("Error determining volume status didn't find PVC b")


def test_a_pending_claim_gets_its_pod() -> None:
    """A claim that waits for its first consumer gets the attachment pod as one."""
    assert plan_pods(instance("a"), [], claims("a", phase="Pending")) == Pods(frozenset("a"))


def shown(
    vmi: Object, pods: list[AttachmentPod], *names: str, phase: str = "Bound"
) -> list[tuple[str, str, str]]:
    """Return (name, phase, attachPodUID) of each planned entry."""
    entries = volume_status(vmi, pods, claims(*names, phase=phase))
    assert all("target" in each for each in entries)
    return [
        (text(each, "name"), text(each, "phase"), text(each, "hotplugVolume", "attachPodUID"))
        for each in entries
    ]


def test_a_volume_without_a_pod_shows_its_claim() -> None:
    """Before its attachment pod exists, a volume is Bound or Pending as its claim is."""
    assert shown(instance("a"), [], "a") == [("a", "Bound", ""), ("disk-0", "", "")]
    assert shown(instance("a"), [], "a", phase="Pending") == [("a", "Pending", ""), ("disk-0", "", "")]
    assert shown(instance("a"), []) == [("a", "Pending", ""), ("disk-0", "", "")]


def test_a_swap_takes_the_uid_from_every_entry() -> None:
    """While the new pod is not ready, no entry has a UID, and what was Ready stays Ready."""
    vmi = instance("a", "b", status=(entry("a", "Ready", target="sda"), entry("b", "Bound", uid="")))
    pods = [pod("hp-old", "a"), pod("hp-new", "a", "b", running=False)]
    assert shown(vmi, pods, "a", "b")[:2] == [("a", "Ready", ""), ("b", "AttachedToNode", "")]


def test_a_ready_pod_gives_its_uid_to_every_entry() -> None:
    """Once the new pod is ready, every entry names it."""
    vmi = instance("a", "b", status=(entry("a", "Ready", target="sda"), entry("b", "AttachedToNode", uid="")))
    pods = [pod("hp-old", "a"), pod("hp-new", "a", "b")]
    assert shown(vmi, pods, "a", "b")[:2] == [("a", "Ready", "uid-new"), ("b", "AttachedToNode", "uid-new")]


@pytest.mark.parametrize(
    ("phase", "pods", "expected"),
    [
        pytest.param("Ready", [pod("hp-old", "a")], "Ready", id="in-the-machine"),
        pytest.param("UnMountedFromPod", [pod("hp-old", "a")], "Detaching", id="unmounted-with-a-pod"),
        pytest.param("AttachedToNode", [pod("hp-old", "a")], "Detaching", id="never-mounted-with-a-pod"),
        pytest.param("UnMountedFromPod", [], None, id="no-pod-names-it"),
    ],
)
def test_a_removed_volume_leaves_by_steps(
    phase: str, pods: list[AttachmentPod], expected: str | None
) -> None:
    """The entry of a removed volume stays until no pod names it; it is Detaching once out of the machine."""
    entries = volume_status(instance(status=(entry("a", phase),)), pods, claims("a"))
    assert next((text(each, "phase") for each in entries if each["name"] == "a"), None) == expected


def test_entries_show_their_claims() -> None:
    """Each entry over a claim carries what KubeVirt shows of it."""
    held: Object = {
        "metadata": {"name": "a"},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "volumeMode": "Block",
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}},
    }
    info = items({"all": volume_status(instance("a"), [], {"a": held})}, "all")[0][
        "persistentVolumeClaimInfo"
    ]
    assert info == {
        "claimName": "a",
        "accessModes": ["ReadWriteMany"],
        "volumeMode": "Block",
        "requests": {"storage": "1Gi"},
        "capacity": {"storage": "1Gi"},
        "filesystemOverhead": "0",
    }
