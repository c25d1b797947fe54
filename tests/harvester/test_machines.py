"""Machines as the host shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harvester.machines import MachineVolume, parse_instance, parse_machine

if TYPE_CHECKING:
    from kube.objects import Object

VM: Object = {
    "metadata": {"name": "vm-a", "namespace": "team-a", "uid": "u-1", "resourceVersion": "9"},
    "spec": {
        "runStrategy": "RerunOnFailure",
        "template": {
            "spec": {
                "domain": {"devices": {"disks": [{"name": "disk-0"}, {"name": "pvc-1"}]}},
                "volumes": [
                    {"name": "disk-0", "dataVolume": {"name": "root-a"}},
                    {"name": "pvc-1", "persistentVolumeClaim": {"claimName": "pvc-1", "hotpluggable": True}},
                    {"name": "cloudinit", "cloudInitNoCloud": {"secretRef": {"name": "s"}}},
                ],
            }
        },
    },
    "status": {"printableStatus": "Running", "snapshotInProgress": None},
}

VMI: Object = {
    "metadata": {
        "name": "vm-a",
        "uid": "u-2",
        "ownerReferences": [{"kind": "VirtualMachine", "name": "vm-a", "uid": "u-1"}],
    },
    "spec": {
        "domain": {"firmware": {"uuid": "f-1"}},
        "volumes": [{"name": "pvc-1", "persistentVolumeClaim": {"claimName": "pvc-1", "hotpluggable": True}}],
    },
    "status": {
        "phase": "Running",
        "nodeName": "host-1",
        "conditions": [{"type": "Paused", "status": "True", "reason": "PausedByUser", "message": "m"}],
        "migrationState": {
            "startTimestamp": "2026-01-01T00:00:00Z",
            "sourceNode": "host-1",
            "targetNode": "host-2",
        },
        "volumeStatus": [
            {"name": "disk-0", "target": "vda"},
            {
                "name": "pvc-1",
                "target": "sda",
                "phase": "Ready",
                "reason": "VolumeReady",
                "message": "done",
                "hotplugVolume": {"attachPodName": "hp-volume-x", "attachPodUID": "u-3"},
                "persistentVolumeClaimInfo": {"claimName": "pvc-1"},
            },
        ],
    },
}


def test_a_machine_shows_which_claims_it_shall_have() -> None:
    """A data volume stands for the claim of its name; other sources have no claim."""
    machine = parse_machine(VM)
    assert (machine.name, machine.namespace, machine.uid) == ("vm-a", "team-a", "u-1")
    assert machine.volume_of("pvc-1") == MachineVolume("pvc-1", "pvc-1", hotpluggable=True)
    assert machine.volume_of("root-a") == MachineVolume("disk-0", "root-a", hotpluggable=False)
    assert machine.volume_of("pvc-2") is None
    assert machine.disks == ("disk-0", "pvc-1")
    assert machine.raw_volumes == tuple(VM["spec"]["template"]["spec"]["volumes"])
    assert (machine.run_strategy, machine.printable_status) == ("RerunOnFailure", "Running")


@pytest.mark.parametrize(("running", "strategy"), [(True, "Always"), (False, "Halted")])
def test_the_older_field_running_is_a_run_strategy(running: bool, strategy: str) -> None:
    """Machines made long ago say `running` instead."""
    assert parse_machine({"spec": {"running": running}}).run_strategy == strategy


def test_an_instance_shows_what_it_has() -> None:
    """Boot disks have no phase; hot-plugged ones tell their phase, device and attachment pod."""
    instance = parse_instance(VMI)
    assert instance.owner_uid == "u-1"
    assert instance.firmware_uuid == "f-1"
    assert (instance.phase, instance.node) == ("Running", "host-1")
    status = instance.status_of("pvc-1")
    assert status is not None
    assert (status.claim, status.phase, status.target, status.hotplugged) == ("pvc-1", "Ready", "sda", True)
    assert (status.pod_name, status.pod_uid) == ("hp-volume-x", "u-3")
    boot = instance.status_of("disk-0")
    assert boot is not None
    assert not boot.hotplugged
    assert instance.paused


@pytest.mark.parametrize(("end", "migrating"), [(None, True), ("2026-01-01T00:01:00Z", False)])
def test_a_migration_is_kept_after_its_end(end: str | None, migrating: bool) -> None:
    """Only a migration with a start and no end is under way."""
    state = VMI["status"]["migrationState"] | {"endTimestamp": end}
    instance = parse_instance(VMI | {"status": VMI["status"] | {"migrationState": state}})
    assert instance.migrating is migrating
    assert instance.migration is not None
    assert instance.migration.target_node == "host-2"


def test_nothing_is_demanded_of_an_object() -> None:
    """A stub, as a young machine or a partial read may be, parses to empty values."""
    machine, instance = parse_machine({}), parse_instance({"status": {"volumeStatus": None}})
    assert machine.volumes == ()
    assert machine.raw_volumes is None
    assert machine.raw_disks is None
    assert instance.statuses == ()
    assert instance.migration is None
    assert not instance.migrating
