"""The patch of a machine's disks: it tests what it stands on, and touches nothing of others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harvester.hotplug_patch import hotplug_patch
from harvester.machines import parse_machine
from tests.attach.shapes import ROOT_DISK, ROOT_VOLUME, UID, machine, plugged

if TYPE_CHECKING:
    from kube.objects import Object

VOLUMES = "/spec/template/spec/volumes"
DISKS = "/spec/template/spec/domain/devices/disks"


def names_after(operations: list[Object], path: str) -> list[str]:
    """Return the names that the patch leaves in the array."""
    return [
        item["name"] for op in operations if op["path"] == path and op["op"] != "test" for item in op["value"]
    ]


def test_the_patch_says_exactly_what_it_stands_on_and_what_it_makes() -> None:
    """The UID and both old arrays are tested; one disk goes, one comes, the boot disk stays as it was."""
    old_volumes, old_disks = (
        [ROOT_VOLUME, plugged("pvc-0")],
        [ROOT_DISK, {"name": "pvc-0", "disk": {"bus": "scsi"}}],
    )
    assert hotplug_patch(machine(plugged("pvc-0")), {"pvc-1"}, {"pvc-0"}) == [
        {"op": "test", "path": "/metadata/uid", "value": UID},
        {"op": "test", "path": VOLUMES, "value": old_volumes},
        {"op": "replace", "path": VOLUMES, "value": [ROOT_VOLUME, plugged("pvc-1")]},
        {"op": "test", "path": DISKS, "value": old_disks},
        {"op": "replace", "path": DISKS, "value": [ROOT_DISK, {"name": "pvc-1", "disk": {"bus": "scsi"}}]},
    ]


@pytest.mark.parametrize(
    ("template", "add", "remove"),
    [
        pytest.param([plugged("pvc-1")], {"pvc-1"}, set(), id="there-already"),
        pytest.param([], set(), {"pvc-1"}, id="gone-already"),
        pytest.param([plugged("data", "pvc-1")], set(), {"pvc-1", "data"}, id="under-a-foreign-name"),
        pytest.param(
            [{"name": "pvc-1", "persistentVolumeClaim": {"claimName": "pvc-1"}}], set(), {"pvc-1"}, id="fixed"
        ),
        pytest.param([plugged("pvc-1", "other")], {"pvc-1"}, {"pvc-1"}, id="the-name-of-another-claim"),
    ],
)
def test_nothing_is_sent_for_what_is_so_or_is_not_ours(
    template: list[Object], add: set[str], remove: set[str]
) -> None:
    """A patch is empty when the machine is as asked, or what stands there is somebody else's."""
    assert hotplug_patch(machine(*template), add, remove) == []


def test_many_changes_go_in_one_patch() -> None:
    """All waiting adds and removes share one change of the set, foreign disks keep their places."""
    vm = machine(plugged("foreign", "backup"), plugged("pvc-1"), plugged("pvc-2"))
    operations = hotplug_patch(vm, {"pvc-4", "pvc-3"}, {"pvc-1"})
    assert names_after(operations, VOLUMES) == ["disk-0", "foreign", "pvc-2", "pvc-3", "pvc-4"]
    assert names_after(operations, DISKS) == ["disk-0", "foreign", "pvc-2", "pvc-3", "pvc-4"]


def test_a_missing_array_is_made_while_nothing_changes() -> None:
    """What is not there cannot be tested: the resourceVersion stands for it."""
    bare = parse_machine(
        {
            "metadata": {"name": "vm-a", "uid": UID, "resourceVersion": "7"},
            "spec": {"template": {"spec": {"domain": {"devices": {}}}}},
        }
    )
    assert hotplug_patch(bare, {"pvc-1"}, ()) == [
        {"op": "test", "path": "/metadata/uid", "value": UID},
        {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "add", "path": VOLUMES, "value": [plugged("pvc-1")]},
        {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "add", "path": DISKS, "value": [{"name": "pvc-1", "disk": {"bus": "scsi"}}]},
    ]
