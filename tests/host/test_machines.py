"""The life of machines on a whole simulated host, and what becomes of their disks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harvester.kinds import INSTANCES, MACHINES
from kube.client import MergePatch
from kube.errors import NotFound
from kube.objects import dig, text, uid_of
from sim.host import words
from sim.host.profile import INSTANT, Profile

if TYPE_CHECKING:
    from sim.simulation import Simulation
    from tests.support.onhost import OnHost

ONE, TWO = "guest-a-node-1", "guest-a-node-2"


def status(on_host: OnHost, machine: str) -> str:
    """Return what kubectl shows of a machine."""
    return text(on_host.api.get(MACHINES, machine, on_host.namespace), "status", "printableStatus")


def running_on(on_host: OnHost, machine: str) -> str:
    """Return the host node that a machine runs on."""
    return text(on_host.api.get(INSTANCES, machine, on_host.namespace), "status", "nodeName")


def test_a_stopped_machine_keeps_its_volumes_for_the_next_start(
    on_host: OnHost, simulation: Simulation
) -> None:
    """Stop takes every disk and attachment; start boots only with the disk in place again."""
    on_host.bound("a")
    on_host.plugged(ONE, "a")
    on_host.host.stop_machine(ONE)
    on_host.until(lambda: status(on_host, ONE) == "Stopped" and not on_host.attached("a"))
    assert on_host.pods() == {}
    assert list((simulation.node_root(ONE) / "sys/block").iterdir()) == []
    on_host.host.start_machine(ONE)
    on_host.until(lambda: status(on_host, ONE) == "Running" and on_host.shown(ONE, "a") == ("Ready", "sda"))


def test_a_machine_does_not_boot_without_its_hotplugged_claim(on_host: OnHost) -> None:
    """A template that names a claim which does not exist keeps the machine Starting."""
    on_host.host.stop_machine(ONE)
    on_host.until(lambda: status(on_host, ONE) == "Stopped")
    on_host.plug(ONE, "ghost")
    on_host.host.start_machine(ONE)
    on_host.until(lambda: on_host.phase(ONE, "ghost") == "Pending")
    on_host.until(lambda: on_host.condition(ONE, "Synchronized") is not None)
    assert status(on_host, ONE) == "Starting"
    on_host.claim("ghost")
    on_host.until(lambda: status(on_host, ONE) == "Running" and on_host.phase(ONE, "ghost") == "Ready")


def test_a_restart_makes_a_new_instance_of_the_same_machine(on_host: OnHost) -> None:
    """The instance is another one after a restart; firmware UUID and disks are the same."""
    on_host.bound("a")
    on_host.plugged(ONE, "a")
    before = on_host.api.get(INSTANCES, ONE, on_host.namespace)
    on_host.host.restart_machine(ONE)

    def restarted() -> bool:
        try:
            now = on_host.api.get(INSTANCES, ONE, on_host.namespace)
        except NotFound:
            return False
        return uid_of(now) != uid_of(before) and on_host.phase(ONE, "a") == "Ready"

    on_host.until(restarted)
    after = on_host.api.get(INSTANCES, ONE, on_host.namespace)
    path = ("spec", "domain", "firmware", "uuid")
    assert text(after, *path) == text(before, *path) != ""


def test_a_migration_holds_the_volume_on_both_nodes_and_moves_the_machine(
    on_host: OnHost, simulation: Simulation
) -> None:
    """During a live migration both VolumeAttachments are there; a new disk waits; the machine keeps its
    disks."""
    on_host.bound("a")
    on_host.bound("b")
    on_host.plugged(ONE, "a")
    on_host.host.profile = Profile(migrate=3600)
    on_host.host.migrate(ONE)
    on_host.until(lambda: status(on_host, ONE) == "Migrating")
    assert on_host.attached("a") == ["host-1", "host-2"]
    on_host.plug(ONE, "b")
    on_host.until(lambda: on_host.phase(ONE, "b") == "AttachedToNode")
    assert on_host.shown(ONE, "a") == ("Ready", "sda")
    on_host.host.profile = INSTANT
    on_host.until(lambda: running_on(on_host, ONE) == "host-2" and on_host.phase(ONE, "b") == "Ready")
    on_host.until(lambda: on_host.attached("a") == on_host.attached("b") == ["host-2"])
    on_host.until(lambda: status(on_host, ONE) == "Running")
    assert on_host.shown(ONE, "a") == ("Ready", "sda")
    assert (simulation.node_root(ONE) / "sys/block/sda").exists()


def test_a_machine_with_an_lvm_disk_does_not_migrate(on_host: OnHost) -> None:
    """A claim that is not shared makes the migration fail, and the machine stays."""
    on_host.claim("a", storage_class="lvm", mode="ReadWriteOnce")
    on_host.plugged(ONE, "a")
    name = on_host.host.migrate(ONE)
    on_host.until(
        lambda: (
            text(on_host.api.get(words.MIGRATIONS, name, on_host.namespace), "status", "phase") == "Failed"
        )
    )
    assert running_on(on_host, ONE) == "host-1"


def test_a_deleted_machine_leaves_its_claims(on_host: OnHost) -> None:
    """Only the claims that the machine's annotation names are deleted with it."""
    on_host.bound("a")
    on_host.plugged(ONE, "a")
    annotations = {words.REMOVED_CLAIMS: f"{ONE}-disk-0"}
    patch = MergePatch({"metadata": {"annotations": annotations}})
    on_host.api.patch(MACHINES, ONE, patch, on_host.namespace)
    on_host.host.delete_machine(ONE)
    on_host.until(lambda: on_host.claim_phase(f"{ONE}-disk-0") == "")
    on_host.until(lambda: not on_host.attached("a"))
    with pytest.raises(NotFound):
        on_host.api.get(MACHINES, ONE, on_host.namespace)
    assert on_host.claim_phase("a") == "Bound"


def test_machines_are_spread_over_the_hosts(on_host: OnHost, simulation: Simulation) -> None:
    """Neighbours in number run on different host nodes."""
    nodes = [running_on(on_host, machine) for machine in simulation.machines]
    assert nodes == ["host-1", "host-2", "host-3"]
    assert dig(on_host.condition(ONE, "LiveMigratable"), "status") == "True"
