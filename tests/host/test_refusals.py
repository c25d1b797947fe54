"""The webhooks of Harvester 1.9, as tables: host-api chapters 1.5, 1.6, 2.1, 2.2 and 2.5 hold codes and
words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sim.host.refusals import (
    Refusal,
    refuse_claim_creation,
    refuse_claim_deletion,
    refuse_claims_of_machine,
    refuse_instance_update,
    refuse_machine,
)

if TYPE_CHECKING:
    from kube.objects import Object

LONGHORN = "driver.longhorn.io"


def machine(
    *claims: str, name: str = "vm-a", disks: tuple[Object, ...] | None = None, **metadata: object
) -> Object:
    """Return a machine whose template lists these claims, each as volume and disk of the same name."""
    volumes = [{"name": c, "persistentVolumeClaim": {"claimName": c, "hotpluggable": True}} for c in claims]
    shown = [{"name": c} for c in claims] if disks is None else list(disks)
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", **metadata},
        "spec": {"template": {"spec": {"volumes": volumes, "domain": {"devices": {"disks": shown}}}}},
    }


def claim(name: str = "a", *, mode: str = "ReadWriteMany", **annotations: str) -> Object:
    """Return a claim."""
    metadata = {"name": name, "namespace": "ns", "annotations": annotations}
    return {"metadata": metadata, "spec": {"accessModes": [mode]}}


@pytest.mark.parametrize(
    ("vm", "words"),
    [
        pytest.param(machine("a", "b"), None, id="pairs-of-volumes-and-disks"),
        pytest.param(
            machine("a", "a", disks=({"name": "a"},)),
            "volumes[1].name and spec.template.spec.volumes[0].name must not have the same Name.",
            id="two-volumes-of-one-name",
        ),
        pytest.param(
            machine(disks=({"name": "a"},)),
            "spec.template.spec.domain.devices.disks[0].Name 'a' not found.",
            id="a-disk-without-volume",
        ),
        pytest.param(machine("a", disks=()), "'a' not found.", id="a-volume-without-disk"),
        pytest.param(machine("A"), "DNS_LABEL", id="a-name-in-capitals"),
        pytest.param(machine("a" * 64), "DNS_LABEL", id="a-long-name"),
        pytest.param(
            machine("a", disks=({"name": "a", "serial": "x y"},)),
            "serial must be",
            id="a-serial-with-a-space",
        ),
    ],
)
def test_a_template_is_judged(vm: Object, words: str | None) -> None:
    """KubeVirt refuses, with 422, a template whose disks and volumes do not fit together."""
    refusal = refuse_machine(vm, None)
    assert (refusal is None) is (words is None)
    if refusal is not None:
        assert (refusal.code, refusal.reason) == (422, "Invalid")
        assert words
        assert words in refusal.words


def test_disks_stay_during_a_snapshot() -> None:
    """While a machine is snapshotted its disks must not change, but the rest may."""
    old = {**machine("a"), "status": {"snapshotInProgress": "snap-1"}}
    assert refuse_machine(machine("a", "b"), old) == Refusal(
        422, "Invalid", 'Cannot update vm disks or volumes until snapshot "snap-1" completes'
    )
    assert refuse_machine(machine("a"), old) is None


def test_only_kubevirt_changes_the_spec_of_an_instance() -> None:
    """Others may change an instance's labels, not its spec."""
    old: Object = {"spec": {"volumes": []}}
    new: Object = {"spec": {"volumes": [{"name": "a"}]}}
    refusal = refuse_instance_update(new, old, by_kubevirt=False)
    assert refusal == Refusal(422, "Invalid", "update of VMI object is restricted")
    assert refuse_instance_update(new, old, by_kubevirt=True) is None
    assert refuse_instance_update({**old, "metadata": {"labels": {"a": "b"}}}, old, by_kubevirt=False) is None


@pytest.mark.parametrize(("bus", "refused"), [("scsi", False), ("virtio", False), ("sata", True)])
def test_a_hotplugged_disk_has_a_bus_that_can_be_plugged(bus: str, refused: bool) -> None:
    """KubeVirt's own patch of an instance is refused for a bus that takes no disks while it runs."""
    volume = {"name": "a", "persistentVolumeClaim": {"claimName": "a", "hotpluggable": True}}
    disks = [{"name": "a", "disk": {"bus": bus}}]
    new: Object = {"spec": {"volumes": [volume], "domain": {"devices": {"disks": disks}}}}
    words = f"hotplugged Disk a requires bus to be 'scsi' or 'virtio'. [{bus}] is not permitted."
    refusal = refuse_instance_update(new, {"spec": {}}, by_kubevirt=True)
    assert refusal == (Refusal(422, "Invalid", words) if refused else None)


@pytest.mark.parametrize(
    ("held", "other", "provisioner", "refused"),
    [
        pytest.param(claim(), machine("a", name="vm-b"), LONGHORN, True, id="another-machine-lists-it"),
        pytest.param(claim(), machine("a"), LONGHORN, False, id="the-machine-itself-lists-it"),
        pytest.param(claim(), machine("b", name="vm-b"), LONGHORN, False, id="another-lists-something-else"),
        pytest.param(
            claim(),
            machine("a", name="vm-b", deletionTimestamp="2026-01-01T00:00:00Z"),
            LONGHORN,
            True,
            id="a-machine-being-deleted-still-counts",
        ),
        pytest.param(claim(), machine("a", name="vm-b"), "nfs.csi.k8s.io", False, id="shared-elsewhere"),
        pytest.param(
            claim(mode="ReadWriteOnce"), machine("a", name="vm-b"), "nfs.csi.k8s.io", True, id="not-shared"
        ),
        pytest.param(
            claim(),
            machine("a", name="vm-b", disks=({"name": "a", "shareable": True},)),
            LONGHORN,
            False,
            id="the-other-shares-its-disk",
        ),
    ],
)
def test_one_claim_one_machine(held: Object, other: Object, provisioner: str, refused: bool) -> None:
    """Harvester refuses, with 422, a template that lists a claim of another machine."""
    refusal = refuse_claims_of_machine(machine("a"), [other], {"a": held}, lambda _: provisioner)
    words = "PVC ns/a is already used by other VM, please use a shareable RWX volume."
    assert refusal == (Refusal(422, "Invalid", words) if refused else None)


def test_a_golden_image_is_no_volume() -> None:
    """The claim behind an image may neither be attached nor deleted."""
    golden = claim(**{"harvesterhci.io/goldenImage": "true"})
    refusal = refuse_claims_of_machine(machine("a"), [], {"a": golden}, lambda _: LONGHORN)
    assert refusal is not None
    assert "is a golden image" in refusal.words
    assert refuse_claim_deletion(golden, []) == Refusal(422, "Invalid", "can not delete golden image PVC")


@pytest.mark.parametrize(
    ("user", "refused"),
    [
        pytest.param(machine("a"), True, id="listed"),
        pytest.param(machine("b"), False, id="not-listed"),
        pytest.param(machine("a", deletionTimestamp="2026-01-01T00:00:00Z"), False, id="machine-going"),
        pytest.param(
            machine(annotations={"harvesterhci.io/volumeClaimTemplates": '[{"metadata": {"name": "a"}}]'}),
            True,
            id="annotated",
        ),
    ],
)
def test_a_claim_of_a_machine_is_not_deleted(user: Object, refused: bool) -> None:
    """A claim that a living machine lists cannot be deleted: 409 Conflict, which means attached, not try
    again."""
    words = "can not delete the volume a which is currently attached to VM: ns/vm-a"
    assert refuse_claim_deletion(claim(), [user]) == (Refusal(409, "Conflict", words) if refused else None)


@pytest.mark.parametrize(
    ("storage_class", "code"),
    [
        pytest.param("harvester-longhorn", None, id="a-class"),
        pytest.param("", None, id="the-default"),
        pytest.param("longhorn-static", 422, id="reserved"),
        pytest.param("vmstate-persistence", 422, id="reserved-too"),
        pytest.param("gold", 500, id="unknown"),
    ],
)
def test_the_class_of_a_new_claim(storage_class: str, code: int | None) -> None:
    """A reserved class is refused with 422, one that does not exist with 500."""
    new: Object = {"spec": {"storageClassName": storage_class}}
    refusal = refuse_claim_creation(new, class_exists="harvester-longhorn".__eq__)
    assert (refusal.code if refusal else None) == code
