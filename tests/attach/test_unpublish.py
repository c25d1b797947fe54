"""ControllerUnpublishVolume, and who holds a volume, over a simulated host."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from csi.controller.marks import Mark
from csi.errors import InUse, NotFound, TimedOut

if TYPE_CHECKING:
    from tests.attach.bench import Bench


def test_ok_means_that_no_layer_shows_the_disk(bench: Bench) -> None:
    """Template, running machine and host have let go of it, and the mark is cleared."""
    a, *_ = bench.machines
    bench.claim("pvc-1")
    engine = bench.engine()
    engine.publish("pvc-1", a)
    engine.unpublish("pvc-1", a)
    assert bench.is_gone(a, "pvc-1")
    assert bench.holder("pvc-1") == ""
    engine.unpublish("pvc-1", a)


def test_foreign_disks_stay(bench: Bench) -> None:
    """Only the entry of the volume goes."""
    a, *_ = bench.machines
    for name in ("pvc-1", "pvc-2", "backup"):
        bench.claim(name)
    bench.plug(a, "my-disk", "backup")
    engine = bench.engine()
    engine.publish("pvc-1", a)
    engine.publish("pvc-2", a)
    engine.unpublish("pvc-1", a)
    assert bench.template(a) == ["my-disk", "pvc-2"]


@pytest.mark.parametrize(
    ("volume", "node"), [("no-such", None), ("No/Volume", "x"), ("pvc-1", "No/Node"), ("pvc-1", "x")]
)
def test_what_does_not_exist_is_detached(bench: Bench, volume: str, node: str | None) -> None:
    """A missing volume or machine is done (CSI spec, ControllerUnpublishVolume)."""
    bench.claim("pvc-1")
    bench.engine().unpublish(volume, node)


def test_another_machines_volume_is_not_touched(bench: Bench) -> None:
    """A late detach from the machine where the volume was must not take it out of the one where it is."""
    a, b, *_ = bench.machines
    bench.claim("pvc-1")
    engine = bench.engine()
    engine.publish("pvc-1", b)
    engine.unpublish("pvc-1", a)
    assert bench.is_ready(b, "pvc-1")
    assert bench.holder("pvc-1") == b


def test_an_unmarked_volume_in_another_machine_is_not_waited_for(bench: Bench) -> None:
    """What upstream attached to another machine has a host attachment there: no trace of this one."""
    a, b, *_ = bench.machines
    bench.claim("pvc-1", mark=Mark())
    bench.plug(b, "pvc-1", "pvc-1")
    bench.until(lambda: bench.is_ready(b, "pvc-1"))
    bench.engine().unpublish("pvc-1", a, 2.0)
    assert bench.is_ready(b, "pvc-1")
    assert bench.holder("pvc-1") is None


def test_a_claim_of_another_cluster_is_not_touched(bench: Bench) -> None:
    """Nothing is detached for a volume that is not ours."""
    a, *_ = bench.machines
    bench.claim("pvc-1", mark=Mark(cluster="another", attached_to=""))
    bench.plug(a, "pvc-1", "pvc-1")
    with pytest.raises(NotFound):
        bench.engine().unpublish("pvc-1", a)
    assert bench.template(a) == ["pvc-1"]


def test_without_a_node_it_is_detached_from_all(bench: Bench) -> None:
    """An empty node id means every machine that shows the volume."""
    a, *_ = bench.machines
    bench.claim("pvc-1")
    engine = bench.engine()
    engine.publish("pvc-1", a)
    engine.unpublish("pvc-1", None)
    assert bench.is_gone(a, "pvc-1")
    assert bench.holder("pvc-1") == ""


def test_the_host_node_has_to_let_go_too(bench: Bench) -> None:
    """While the host still has the volume attached the answer is not OK, and the mark stays."""
    a, b, *_ = bench.machines
    bench.claim("pvc-1")
    engine = bench.engine()
    engine.publish("pvc-1", a)
    bench.host.pause("attachments")
    with pytest.raises(TimedOut, match="the host to detach volume pvc-1"):
        engine.unpublish("pvc-1", a, 1.0)
    assert bench.holder("pvc-1") == a
    with pytest.raises(InUse, match=a):
        engine.publish("pvc-1", b)
    bench.host.resume("attachments")
    engine.unpublish("pvc-1", a)
    engine.publish("pvc-1", b)


def test_a_layer_that_hangs_is_named(bench: Bench) -> None:
    """A detach that does not get on says which layer still has the disk, and in which phase."""
    a, *_ = bench.machines
    bench.claim("pvc-1")
    engine = bench.engine()
    engine.publish("pvc-1", a)
    bench.host.pause("handler")
    with pytest.raises(TimedOut, match=r"disk status of VM .*phase Ready"):
        engine.unpublish("pvc-1", a, 1.5)
    bench.host.resume("handler")
    engine.unpublish("pvc-1", a)


def test_a_disk_that_never_arrived_is_detached(bench: Bench) -> None:
    """Detach does not wait for an attach that hangs."""
    a, *_ = bench.machines
    claim = bench.claim("pvc-1")
    bench.host.break_volume(claim.volume_name, "volume is faulted")
    engine = bench.engine()
    with pytest.raises(TimedOut):
        engine.publish("pvc-1", a, 0.3)
    engine.unpublish("pvc-1", a)
    assert bench.is_gone(a, "pvc-1")


def test_a_stopped_machine_loses_the_disk(bench: Bench) -> None:
    """It leaves the template, so that the machine does not come back with it."""
    a, b, *_ = bench.machines
    bench.claim("pvc-1")
    engine = bench.engine()
    engine.publish("pvc-1", a)
    bench.host.stop_machine(a)
    bench.until(lambda: bench.host.phase(a) == "")
    engine.unpublish("pvc-1", a)
    assert bench.template(a) == []
    engine.publish("pvc-1", b)


def test_a_deleted_machine_has_let_go(bench: Bench) -> None:
    """After the machine its volume can be used elsewhere."""
    a, b, *_ = bench.machines
    bench.claim("pvc-1")
    engine = bench.engine()
    engine.publish("pvc-1", a)
    bench.host.delete_machine(a)
    engine.unpublish("pvc-1", a)
    assert bench.attachments("pvc-1") == []
    engine.publish("pvc-1", b)


def test_a_migrating_machine_is_waited_for(bench: Bench) -> None:
    """KubeVirt unplugs nothing during a live migration; the detach goes on after it."""
    a, *_ = bench.machines
    bench.claim("pvc-1")
    engine = bench.engine()
    engine.publish("pvc-1", a)
    bench.host.profile = replace(bench.host.profile, migrate=2.5)
    bench.host.migrate(a)
    bench.until(lambda: bench.is_migrating(a))
    with pytest.raises(TimedOut, match="the VM migrates"):
        engine.unpublish("pvc-1", a, 0.6)
    engine.unpublish("pvc-1", a)
    assert bench.attachments("pvc-1") == []


def test_a_persons_disk_of_the_claim_is_not_detached(bench: Bench) -> None:
    """What was not plugged by a driver is not ours to unplug, and not OK either."""
    a, *_ = bench.machines
    bench.claim("pvc-1")
    bench.plug(a, "my-disk", "pvc-1")
    with pytest.raises(InUse, match="my-disk"):
        bench.engine().unpublish("pvc-1", a)
    assert bench.template(a) == ["my-disk"]


def test_who_holds_a_volume(bench: Bench) -> None:
    """For DeleteVolume: the machine that has it on any layer, whoever put it there; None for nobody."""
    a, b, *_ = bench.machines
    ours, theirs = bench.claim("pvc-1"), bench.claim("pvc-2")
    engine = bench.engine()
    assert engine.attachments.holder(ours.name) is None
    engine.publish("pvc-1", a)
    bench.plug(b, "my-disk", "pvc-2")
    assert engine.attachments.holder(ours.name) == a
    assert engine.attachments.holder(theirs.name) == b
    engine.unpublish("pvc-1", a)
    assert engine.attachments.holder(ours.name) is None
