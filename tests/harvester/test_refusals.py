"""What the host means when it says no."""

from __future__ import annotations

import pytest

from harvester.refusals import Meaning, read_refusal
from kube.errors import ApiError, Conflict, Forbidden, Invalid, Refused, Unreachable


def refused(why: str, code: int = 422) -> Refused:
    """Return a webhook's refusal as the client raises it."""
    frame = 'admission webhook "validator.harvesterhci.io" denied the request: '
    return Refused(frame + why, webhook="validator.harvesterhci.io", why=why, code=code)


@pytest.mark.parametrize(
    ("why", "meaning", "machine"),
    [
        ("the volume pvc-1 is already used by VM team-a/vm-b", Meaning.OCCUPIED, "team-a/vm-b"),
        (
            "PVC team-a/pvc-1 is already used by other VM, please use a shareable RWX volume.",
            Meaning.OCCUPIED,
            "",
        ),
        (
            "can not delete the volume pvc-1 which is currently attached to VM: team-a/vm-b",
            Meaning.ATTACHED,
            "team-a/vm-b",
        ),
        (
            "can not delete the volume pvc-1 which is currently owned by these VMs: team-a/vm-b",
            Meaning.ATTACHED,
            "team-a/vm-b",
        ),
        ('persistentvolumeclaims "pvc-1" not found', Meaning.STALE_WEBHOOK, ""),
        ("can not delete volume pvc-1 which is exporting for image team-a/i", Meaning.EXPORTING, ""),
        ("can not delete golden image PVC", Meaning.GOLDEN_IMAGE, ""),
        (
            "PVC team-a/pvc-1 is a golden image, it can't be used as a hotplug volume in VM",
            Meaning.GOLDEN_IMAGE,
            "",
        ),
        ("can not create volume with the reserved storage class longhorn-static", Meaning.RESERVED_CLASS, ""),
        ('storageclass.storage.k8s.io "fst" not found', Meaning.CLASS_MISSING, ""),
        ('storageclasses.storage.k8s.io "fst" not found', Meaning.CLASS_MISSING, ""),
        ('Cannot update vm disks or volumes until snapshot "s" completes', Meaning.SNAPSHOT_RUNNING, ""),
        ("Cannot handle volume requests while VMI migration is in progress", Meaning.MIGRATING, ""),
        ("storage quota of namespace team-a exceeded", Meaning.QUOTA, ""),
        ("something new", Meaning.OTHER, ""),
    ],
)
@pytest.mark.parametrize("code", [400, 409, 422, 500])
def test_a_refusal_is_known_by_its_words(why: str, meaning: Meaning, machine: str, code: int) -> None:
    """The meaning does not depend on the code, which differs between releases."""
    refusal = read_refusal(refused(why, code))
    assert refusal is not None
    assert (refusal.meaning, refusal.words, refusal.machine) == (meaning, why, machine)


def test_a_quota_of_the_api_server_is_no_missing_right() -> None:
    """Both come as 403 Forbidden; only one is for the platform team's role."""
    quota = Forbidden(
        'persistentvolumeclaims "pvc-1" is forbidden: exceeded quota: team-a, '
        "requested: requests.storage=1Gi, used: requests.storage=9Gi, limited: requests.storage=10Gi",
        code=403,
    )
    refusal = read_refusal(quota)
    assert refusal is not None
    assert refusal.meaning is Meaning.QUOTA
    assert "limited: requests.storage=10Gi" in refusal.words


@pytest.mark.parametrize(
    "error",
    [
        Forbidden(
            'User "u" cannot create resource "persistentvolumeclaims" in the namespace "team-a"', code=403
        ),
        Conflict("the object has been modified", code=409),
        Invalid("spec: Invalid value", code=422),
        Unreachable("quota service exceeded its time", code=503),
    ],
)
def test_what_no_webhook_said_is_no_refusal(error: ApiError) -> None:
    """A lost race, a missing right and an outage are not answers of the host's rules."""
    assert read_refusal(error) is None


def test_only_what_ends_by_itself_is_passing() -> None:
    """A caller may wait for a snapshot or a migration to end, never for a person."""
    assert read_refusal(refused('Cannot update vm disks or volumes until snapshot "s" completes')).passing  # type: ignore[union-attr]  # read above
    assert not read_refusal(refused("something new")).passing  # type: ignore[union-attr]  # read above
