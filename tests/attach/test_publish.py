"""ControllerPublishVolume over a simulated host."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from csi.controller.marks import Mark
from csi.controller.ownership import Ownership
from csi.deadline import Deadline
from csi.errors import InUse, InvalidArgument, NotFound, TimedOut, Unavailable
from csi.model import AccessMode, NodeId, PublishRequest, VolumeId
from kube.resources import CLAIMS
from tests.attach.bench import CLUSTER, DISK, Call

if TYPE_CHECKING:
    from tests.attach.bench import Bench

GIB = str(1024**3)
UNMARKED = Mark()


def test_ok_means_that_every_layer_shows_the_disk(bench: Bench) -> None:
    """The answer comes when template, running machine and host have it, and says what to look for."""
    a, *_ = bench.machines
    bench.claim("pvc-1")
    context = bench.engine().publish("pvc-1", a)
    assert bench.is_ready(a, "pvc-1")
    assert bench.holder("pvc-1") == a
    assert {key: context[key] for key in ("kind", "identity", "size")} == {
        "kind": "disk",
        "identity": "drive-ua-pvc-1",
        "size": GIB,
    }


def test_asked_twice_it_answers_the_same_and_changes_nothing(bench: Bench) -> None:
    """A repeated publish, of this process or another, verifies all layers and writes to none."""
    a, *_ = bench.machines
    bench.claim("pvc-1")
    context = bench.engine().publish("pvc-1", a)
    mark = bench.read("pvc-1").resource_version
    assert bench.engine().publish("pvc-1", a) == context
    assert bench.read("pvc-1").resource_version == mark
    assert bench.template(a) == ["pvc-1"]


def test_only_the_first_attachment_is_fresh(bench: Bench) -> None:
    """`fresh-until` is told as long as the first attachment lives, and never after it."""
    a, b, *_ = bench.machines
    bench.claim("pvc-1")
    engine = bench.engine()
    assert "fresh-until" in engine.publish("pvc-1", a)
    engine.unpublish("pvc-1", a)
    assert "fresh-until" not in engine.publish("pvc-1", b)
    engine.unpublish("pvc-1", b)
    assert "fresh-until" not in engine.publish("pvc-1", a)


def test_a_volume_moves_from_machine_to_machine(bench: Bench) -> None:
    """Detached from one, it can be attached to the next."""
    bench.claim("pvc-1")
    engine = bench.engine()
    for machine in bench.machines:
        engine.publish("pvc-1", machine)
        assert bench.is_ready(machine, "pvc-1")
        engine.unpublish("pvc-1", machine)
        assert bench.is_gone(machine, "pvc-1")


@pytest.mark.parametrize("name", ["no-such-volume", "No/Volume", ""])
def test_a_missing_volume_is_not_found(bench: Bench, name: str) -> None:
    """An id that no claim bears, or none can bear, names no volume."""
    with pytest.raises(NotFound):
        bench.engine().publish(name, bench.machines[0])


@pytest.mark.parametrize("node", ["no-such-node", "No/Node"])
def test_a_missing_node_is_not_found(bench: Bench, node: str) -> None:
    """An id for which the host has no machine names no node, and the claim stays free."""
    bench.claim("pvc-1")
    with pytest.raises(NotFound):
        bench.engine().publish("pvc-1", node)
    assert bench.holder("pvc-1") == ""


def test_a_disk_cannot_be_used_on_many_nodes(bench: Bench) -> None:
    """MULTI_NODE modes are refused until there are shares."""
    bench.claim("pvc-1")
    shared = replace(DISK, mode=AccessMode.MULTI_NODE_MULTI_WRITER)
    request = PublishRequest(VolumeId("pvc-1"), NodeId(bench.machines[0]), shared)
    with pytest.raises(InvalidArgument):
        bench.engine().attachments.publish(request, Deadline(5))


def test_a_volume_in_another_machine_is_refused_and_named(bench: Bench) -> None:
    """FAILED_PRECONDITION names the holder, and nothing is changed (CSI spec, ControllerPublishVolume)."""
    a, b, *_ = bench.machines
    bench.claim("pvc-1")
    engine = bench.engine()
    engine.publish("pvc-1", a)
    with pytest.raises(InUse, match=a):
        engine.publish("pvc-1", b)
    assert bench.template(b) == []
    assert bench.holder("pvc-1") == a


def test_a_volume_that_a_person_attached_is_refused(bench: Bench) -> None:
    """A disk that somebody plugged into another machine under a name of his own holds the volume."""
    a, b, *_ = bench.machines
    bench.claim("pvc-1")
    bench.plug(b, "my-disk", "pvc-1")
    engine = bench.engine()
    with pytest.raises(InUse, match=f"{b} .as disk my-disk"):
        engine.publish("pvc-1", a)
    with pytest.raises(InUse, match="its disk my-disk"):
        engine.publish("pvc-1", b)
    assert bench.holder("pvc-1") == ""
    assert bench.template(b) == ["my-disk"]


@pytest.mark.parametrize("mark", [UNMARKED, Mark(cluster="another", attached_to="")])
def test_a_claim_that_is_not_ours_is_not_found_and_not_touched(bench: Bench, mark: Mark) -> None:
    """A namespace may serve several clusters: a claim of another, or of nobody, is no volume of ours."""
    before = bench.claim("pvc-1", mark=mark)
    with pytest.raises(NotFound):
        bench.engine().publish("pvc-1", bench.machines[0])
    assert bench.read("pvc-1") == before
    assert bench.template(bench.machines[0]) == []


def test_what_upstream_attached_is_held_but_never_ours(bench: Bench) -> None:
    """A claim without our mark that a machine shows as a driver's disk is held like ours, not named ours.

    Only a guest's volume can tell that it is: with our cluster's mark, a delete of its name would take it.
    """
    a, b, *_ = bench.machines
    bench.claim("pvc-1", mark=UNMARKED)
    bench.plug(a, "pvc-1", "pvc-1")
    engine = bench.engine()
    assert "fresh-until" not in engine.publish("pvc-1", a)
    assert bench.holder("pvc-1") == a
    with pytest.raises(InUse, match=a):
        engine.publish("pvc-1", b)
    engine.unpublish("pvc-1", a)
    assert bench.read("pvc-1").mark.cluster == ""
    assert not Ownership(None, CLUSTER).owns(bench.read("pvc-1"))


def test_a_claim_that_waits_for_its_consumer_is_plugged(bench: Bench) -> None:
    """The attachment pod is the first consumer of an LVM claim; the size is the one it then has."""
    a, *_ = bench.machines
    assert not bench.claim("pvc-1", storage_class="lvm", mode="ReadWriteOnce").bound
    assert bench.engine().publish("pvc-1", a)["size"] == GIB
    assert bench.read("pvc-1").bound


def test_a_claim_that_does_not_bind_is_not_plugged(bench: Bench) -> None:
    """A Pending claim of a class that binds at once would keep the whole machine busy."""
    a, *_ = bench.machines
    bench.host.pause("claims")
    bench.admin.create(CLAIMS, pending_claim(), bench.namespace)
    with pytest.raises(Unavailable, match="not bound yet"):
        bench.engine().publish("pvc-1", a)
    assert bench.holder("pvc-1") == ""


def pending_claim() -> dict[str, object]:
    """Return a claim of ours on a class that binds at once."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "pvc-1", "annotations": Mark(cluster="cluster-1", attached_to="").annotations()},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "volumeMode": "Block",
            "storageClassName": "harvester-longhorn",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


def test_a_stopped_machine_takes_no_disk(bench: Bench) -> None:
    """What only a person can end is said at once; where a disk is on its way the code is not final."""
    a, *_ = bench.machines
    for name in ("pvc-1", "pvc-2"):
        bench.claim(name)
    engine = bench.engine()
    engine.publish("pvc-1", a)
    bench.host.stop_machine(a)
    bench.until(lambda: bench.host.phase(a) == "")
    with pytest.raises(InUse, match="not running"):
        engine.publish("pvc-2", a)
    with pytest.raises(Unavailable, match="not running"):
        engine.publish("pvc-1", a)
    assert bench.holder("pvc-2") == ""
    bench.host.start_machine(a)
    bench.until(lambda: bench.host.phase(a) == "Running")
    engine.publish("pvc-1", a)
    engine.publish("pvc-2", a)


def test_a_migrating_machine_takes_no_new_disk(bench: Bench) -> None:
    """In a live migration what is attached is confirmed, with both ends attached; a new disk has to wait."""
    a, *_ = bench.machines
    for name in ("pvc-1", "pvc-2"):
        bench.claim(name)
    engine = bench.engine()
    engine.publish("pvc-1", a)
    bench.host.profile = replace(bench.host.profile, migrate=3.0)
    bench.host.migrate(a)
    bench.until(lambda: bench.is_migrating(a) and len(bench.attachments("pvc-1")) == 2)
    engine.publish("pvc-1", a)
    with pytest.raises(Unavailable, match="the VM migrates"):
        engine.publish("pvc-2", a)
    assert bench.holder("pvc-2") == ""


def test_when_the_time_is_over_the_error_says_what_it_was_waiting_for(bench: Bench) -> None:
    """Layer, phase and the pod's own state stand in the error; asked again, the disk has arrived."""
    a, *_ = bench.machines
    bench.claim("pvc-1")
    engine = bench.engine()
    bench.host.pause("handler")
    with pytest.raises(TimedOut, match=f"disk status of VM {a} .volume pvc-1: phase AttachedToNode"):
        engine.publish("pvc-1", a, 1.5)
    bench.host.resume("handler")
    engine.publish("pvc-1", a)


def test_a_call_that_goes_away_ends_at_once(bench: Bench) -> None:
    """A cancelled publish does not wait for its deadline."""
    a, *_ = bench.machines
    bench.claim("pvc-1")
    bench.host.pause("machines")
    engine, deadline = bench.engine(), Deadline(60)
    request = PublishRequest(VolumeId("pvc-1"), NodeId(a), DISK)
    call = Call(lambda: engine.attachments.publish(request, deadline))
    bench.until(lambda: bench.template(a) == ["pvc-1"])
    deadline.cancel()
    assert "ended the call" in str(call.error())
