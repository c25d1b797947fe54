"""Hot-plug on a whole simulated host: phases, write order, and what starts over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harvester.kinds import INSTANCES, MACHINES
from kube.errors import Refused
from kube.objects import items, text
from kube.resources import PODS, VOLUME_ATTACHMENTS
from sim.host.profile import INSTANT, Profile
from tests.support.watching import history, in_order

if TYPE_CHECKING:
    from kube.objects import Object
    from sim.simulation import Simulation
    from tests.support.onhost import OnHost

ONE, TWO = "guest-a-node-1", "guest-a-node-2"


def volume_a(instance: Object) -> tuple[str, str, bool] | None:
    """Return (phase, target, has a pod's UID) of volume `a`, None without an entry."""
    for entry in items(instance, "status", "volumeStatus"):
        if text(entry, "name") == "a":
            uid = text(entry, "hotplugVolume", "attachPodUID")
            return text(entry, "phase"), text(entry, "target"), bool(uid)
    return None


def test_an_attach_passes_every_phase(on_host: OnHost) -> None:
    """A volume is AttachedToNode before its pod is ready, mounted with the pod's UID, and Ready with a
    target."""
    on_host.bound("a")
    with history(on_host.api, INSTANCES, on_host.namespace, volume_a) as seen:
        on_host.plugged(ONE, "a")
        on_host.until(lambda: ("Ready", "sda", True) in seen)
    steps = (("AttachedToNode", "", False), ("AttachedToNode", "", True), ("MountedToPod", "", True))
    assert in_order(seen, None, *steps, ("Ready", "sda", True))


def test_a_detach_passes_every_phase(on_host: OnHost) -> None:
    """The target goes first, then the mount, then the pod, then the entry, and the VolumeAttachment last."""
    on_host.bound("a")
    on_host.plugged(ONE, "a")
    with history(on_host.api, INSTANCES, on_host.namespace, volume_a) as seen:
        on_host.unplugged(ONE, "a")
        on_host.until(lambda: seen[-1] is None)
    steps = (("Ready", "", True), ("UnMountedFromPod", "", True), ("Detaching", "", True))
    assert in_order(seen, ("Ready", "sda", True), *steps, None)
    assert on_host.pods() == {}


def test_a_second_attach_swaps_the_pod_of_the_first(on_host: OnHost) -> None:
    """While the new pod is not ready no entry has a UID; the disk that is there stays Ready in its place."""
    on_host.bound("a")
    on_host.bound("b")
    on_host.plugged(ONE, "a")
    first = set(on_host.pods())
    with history(on_host.api, INSTANCES, on_host.namespace, volume_a) as seen:
        on_host.plugged(ONE, "b")
        on_host.until(lambda: len(on_host.pods()) == 1)
    assert in_order(seen, ("Ready", "sda", True), ("Ready", "sda", False), ("Ready", "sda", True))
    assert list(on_host.pods().values()) == [{"a", "b"}]
    assert not first & set(on_host.pods())
    assert on_host.shown(ONE, "b") == ("Ready", "sdb")


def test_a_change_while_the_pod_is_pending_starts_over(on_host: OnHost) -> None:
    """A pod that is not Running when the set changes is thrown away, and a new one holds all volumes."""
    on_host.bound("a")
    on_host.bound("b")
    on_host.host.pause("pods")
    on_host.plug(ONE, "a")
    on_host.until(lambda: on_host.phase(ONE, "a") == "AttachedToNode")
    first = set(on_host.pods())
    on_host.plug(ONE, "b")
    on_host.until(lambda: list(on_host.pods().values()) == [{"a", "b"}])
    assert not first & set(on_host.pods())
    on_host.host.resume("pods")
    on_host.until(lambda: on_host.phase(ONE, "a") == on_host.phase(ONE, "b") == "Ready")


def test_a_running_pod_is_kept_until_its_successor_runs(on_host: OnHost) -> None:
    """With one disk attached, adding another leaves the first one's pod alone until the new one runs."""
    on_host.bound("a")
    on_host.bound("b")
    on_host.plugged(ONE, "a")
    (first,) = on_host.pods()
    on_host.host.pause("pods")
    on_host.plug(ONE, "b")
    on_host.until(lambda: len(on_host.pods()) == 2)
    assert on_host.shown(ONE, "a") == ("Ready", "sda")
    on_host.host.resume("pods")
    on_host.until(lambda: first not in on_host.pods() and on_host.phase(ONE, "b") == "Ready")


def test_a_missing_claim_blocks_all_others(on_host: OnHost) -> None:
    """A hot-plugged volume without a claim stops the machine's hot-plug until it is taken out again."""
    on_host.bound("b")
    on_host.plug(ONE, "ghost")
    on_host.until(lambda: on_host.phase(ONE, "ghost") == "Pending")
    on_host.plug(ONE, "b")
    on_host.until(lambda: on_host.phase(ONE, "b") == "Bound")
    blocked = on_host.condition(ONE, "Synchronized")
    assert (text(blocked, "status"), text(blocked, "reason")) == ("False", "PVCNotReady")
    assert on_host.pods() == {}
    on_host.unplug(ONE, "ghost")
    on_host.until(lambda: on_host.phase(ONE, "b") == "Ready")
    on_host.until(lambda: on_host.condition(ONE, "Synchronized") is None)


def test_a_wrong_bus_shows_as_a_failure_of_the_machine(on_host: OnHost) -> None:
    """The machine's template is taken as it is; that its instance is refused stands in a condition of its
    own."""
    on_host.bound("a")
    on_host.plug(ONE, "a", bus="sata")
    on_host.until(lambda: "[sata] is not permitted" in failure(on_host))
    assert on_host.phase(ONE, "a") == ""
    on_host.unplug(ONE, "a")
    on_host.until(lambda: failure(on_host) == "")


def failure(on_host: OnHost) -> str:
    """Return the message of the machine's Failure condition, "" without one."""
    conditions = items(on_host.api.get(MACHINES, ONE, on_host.namespace), "status", "conditions")
    return "".join(text(each, "message") for each in conditions if text(each, "type") == "Failure")


def test_a_name_is_used_again_after_its_entry_is_gone(on_host: OnHost) -> None:
    """A quick detach and attach of one volume ends with it Ready, after it was gone in between."""
    on_host.bound("a")
    on_host.plugged(ONE, "a")
    with history(on_host.api, INSTANCES, on_host.namespace, volume_a) as seen:
        on_host.unplug(ONE, "a")
        on_host.plug(ONE, "a")
        on_host.until(lambda: on_host.phase(ONE, "a") == "Ready")
        on_host.until(lambda: seen[-1] == ("Ready", "sda", True))
    assert in_order(seen, ("Ready", "sda", True), None, ("Ready", "sda", True)) or seen == [
        ("Ready", "sda", True)
    ]


def test_an_lvm_claim_is_bound_by_its_first_pod(on_host: OnHost) -> None:
    """A claim that waits for its first consumer stays Pending until it is plugged; then it stays on that
    node."""
    on_host.claim("a", storage_class="lvm", mode="ReadWriteOnce")
    assert on_host.claim_phase("a") in {"", "Pending"}
    on_host.plugged(ONE, "a")
    assert on_host.claim_phase("a") == "Bound"
    migratable = on_host.condition(ONE, "LiveMigratable")
    assert (text(migratable, "status"), text(migratable, "reason")) == ("False", "DisksNotLiveMigratable")
    on_host.unplugged(ONE, "a")
    on_host.plug(TWO, "a")
    on_host.until(lambda: on_host.phase(TWO, "a") == "AttachedToNode")
    (pod,) = on_host.pods()
    on_host.until(lambda: "affinity" in pod_words(on_host, pod))
    assert on_host.attached("a") == []


def pod_words(on_host: OnHost, pod: str) -> str:
    """Return the messages of a pod's conditions."""
    conditions = items(on_host.api.get(PODS, pod, on_host.namespace), "status", "conditions")
    return " ".join(text(condition, "message") for condition in conditions)


def test_a_volume_that_cannot_attach_blocks_its_neighbours(on_host: OnHost) -> None:
    """The pod stays Pending with all its volumes; the VolumeAttachment tells why; mended, all become
    Ready."""
    broken = on_host.bound("a")
    on_host.bound("b")
    on_host.host.break_volume(broken, "volume is faulted")
    on_host.plug(ONE, "a")
    on_host.until(lambda: on_host.phase(ONE, "a") == "AttachedToNode")
    on_host.plug(ONE, "b")
    on_host.until(lambda: on_host.phase(ONE, "b") == "AttachedToNode")
    on_host.until(lambda: "volume is faulted" in errors(on_host))
    assert on_host.phase(ONE, "a") == "AttachedToNode"
    on_host.host.mend_volume(broken)
    on_host.until(lambda: on_host.phase(ONE, "a") == on_host.phase(ONE, "b") == "Ready")


def errors(on_host: OnHost) -> str:
    """Return the errors of all VolumeAttachments."""
    found = on_host.api.list(VOLUME_ATTACHMENTS).items
    return " ".join(text(a, "status", "attachError", "message") for a in found)


def test_a_volume_moves_only_when_it_has_left(on_host: OnHost) -> None:
    """Another machine's pod waits until the VolumeAttachment to the first node is gone: never both."""
    on_host.bound("a")
    on_host.plugged(ONE, "a")
    on_host.host.profile = Profile(detach=3600)
    on_host.unplug(ONE, "a")
    on_host.until(lambda: on_host.shown(ONE, "a") == ("", ""))
    on_host.plug(TWO, "a")
    on_host.until(lambda: on_host.phase(TWO, "a") == "AttachedToNode")
    assert on_host.attached("a") == ["host-1"]
    on_host.host.profile = INSTANT
    on_host.until(lambda: on_host.phase(TWO, "a") == "Ready")
    assert on_host.attached("a") == ["host-2"]


def test_a_second_machine_is_refused_while_the_first_lists_the_claim(on_host: OnHost) -> None:
    """One claim, one machine: Harvester's webhook refuses, in its words."""
    on_host.bound("a")
    on_host.plugged(ONE, "a")
    with pytest.raises(Refused, match=r"PVC guest-a/a is already used by other VM") as refused:
        on_host.plug(TWO, "a")
    assert (refused.value.code, refused.value.webhook) == (422, "validator.harvesterhci.io")


def test_the_disk_is_in_the_machine_as_long_as_it_has_a_target(
    on_host: OnHost, simulation: Simulation
) -> None:
    """The machine's own view shows the disk with its identity, and loses it at detach."""
    blocks = simulation.node_root(ONE) / "sys/block"
    on_host.bound("a")
    on_host.plugged(ONE, "a")
    assert sorted(entry.name for entry in blocks.iterdir()) == ["sda", "vda"]
    assert (blocks / "sda/device/vpd_pg83").read_bytes().endswith(b"drive-ua-a")
    on_host.unplugged(ONE, "a")
    assert [entry.name for entry in blocks.iterdir()] == ["vda"]
