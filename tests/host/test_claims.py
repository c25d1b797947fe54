"""Claims and volumes on a whole simulated host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kube.errors import Forbidden, NotFound, Refused
from kube.objects import is_terminating, text
from kube.resources import CLAIMS, VOLUMES
from sim.host.claims import capacity

if TYPE_CHECKING:
    from sim.simulation import Simulation
    from tests.support.onhost import OnHost

ONE = "guest-a-node-1"
MIB = 1 << 20


@pytest.mark.parametrize(
    ("requested", "provisioner", "given"),
    [
        pytest.param(1, "driver.longhorn.io", 10 * MIB, id="longhorn-at-least-10-MiB"),
        pytest.param(15 * MIB, "driver.longhorn.io", 16 * MIB, id="longhorn-in-steps-of-2-MiB"),
        pytest.param(16 * MIB, "driver.longhorn.io", 16 * MIB, id="longhorn-exact"),
        pytest.param(15 * MIB, "lvm.driver.harvesterhci.io", 16 * MIB, id="lvm-in-extents"),
    ],
)
def test_capacity(requested: int, provisioner: str, given: int) -> None:
    """A provisioner gives at least what was asked for, in its own steps."""
    assert capacity(requested, provisioner) == given


def test_a_claim_is_bound_to_a_volume_of_its_own(on_host: OnHost, simulation: Simulation) -> None:
    """Both sides name each other, the handle is the volume's name, and an image of the capacity exists."""
    on_host.claim("a", size="15Mi")
    on_host.until(lambda: on_host.claim_phase("a") == "Bound")
    claim = on_host.api.get(CLAIMS, "a", on_host.namespace)
    volume = on_host.api.get(VOLUMES, on_host.volume_of("a"))
    assert text(volume, "spec", "csi", "volumeHandle") == text(claim, "spec", "volumeName")
    assert text(volume, "spec", "claimRef", "uid") == text(claim, "metadata", "uid")
    assert text(volume, "status", "phase") == "Bound"
    assert text(claim, "status", "capacity", "storage") == "16Mi"
    image = simulation.directory / "volumes" / f"{on_host.volume_of('a')}.img"
    assert image.stat().st_size == 16 * MIB


def test_a_deleted_claim_takes_its_volume_and_data(on_host: OnHost, simulation: Simulation) -> None:
    """Nothing is left of a claim that no pod mounts."""
    volume = on_host.bound("a")
    on_host.drop("a")
    on_host.until(lambda: on_host.claim_phase("a") == "" and on_host.host.cache.volume(volume) is None)
    with pytest.raises(NotFound):
        on_host.api.get(VOLUMES, volume)
    assert not (simulation.directory / "volumes" / f"{volume}.img").exists()


def test_a_claim_in_use_is_not_deleted(on_host: OnHost) -> None:
    """While a template lists it: 409 from the webhook. While only a pod mounts it: Terminating until that
    ends."""
    on_host.bound("a")
    on_host.plugged(ONE, "a")
    with pytest.raises(Refused, match="currently attached to VM: guest-a/guest-a-node-1") as refused:
        on_host.drop("a")
    assert refused.value.code == 409
    on_host.host.pause("handler")
    on_host.unplug(ONE, "a")
    on_host.until(lambda: not on_host.host.cache.machines_of_claim(on_host.namespace, "a"))
    on_host.drop("a")
    assert is_terminating(on_host.api.get(CLAIMS, "a", on_host.namespace))
    on_host.host.resume("handler")
    on_host.until(lambda: on_host.claim_phase("a") == "")


@pytest.mark.parametrize(
    ("storage_class", "code", "words"),
    [
        pytest.param("gold", 500, r'storageclasses.storage.k8s.io "gold" not found', id="unknown"),
        pytest.param("longhorn-static", 422, "reserved storage class longhorn-static", id="reserved"),
    ],
)
def test_a_class_may_be_refused(on_host: OnHost, storage_class: str, code: int, words: str) -> None:
    """Harvester 1.9 refuses a class that is reserved or that does not exist."""
    with pytest.raises(Refused, match=words) as refused:
        on_host.claim("a", storage_class=storage_class)
    assert refused.value.code == code


def test_a_quota_is_the_servers_own_refusal(on_host: OnHost) -> None:
    """Beyond the quota a claim is forbidden in Kubernetes' words, and no webhook is named."""
    on_host.host.quota(on_host.namespace, "121Gi")
    on_host.bound("a")
    with pytest.raises(Forbidden, match="exceeded quota: default-quota, requested: "):
        on_host.claim("b")


def test_a_claim_without_a_class_gets_the_default(on_host: OnHost) -> None:
    """A claim that names no class is bound by the default one."""
    body = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "a", "namespace": on_host.namespace},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    on_host.api.create(CLAIMS, body, on_host.namespace)
    on_host.until(lambda: on_host.claim_phase("a") == "Bound")
    claim = on_host.api.get(CLAIMS, "a", on_host.namespace)
    assert text(claim, "spec", "storageClassName") == "harvester-longhorn"
