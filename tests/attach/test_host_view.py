"""The cache of the host: opened when it is needed, closed when it is not, and never trusted too far."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from csi.controller import holders, host, host_attachments, host_reads
from csi.deadline import Deadline
from csi.errors import Cancelled
from csi.model import VolumeId
from kube.resources import CLAIMS, CLUSTER_ROLES
from sim.apiserver.faults import calls
from sim.host.profile import Profile
from sim.host.roles import CSI_DRIVER
from tests.attach.bench import Call, asked_again, poll

if TYPE_CHECKING:
    from tests.attach.bench import Bench


def requests(bench: Bench) -> int:
    """Return how many requests the guest has made."""
    return bench.server.requests.count(user=bench.user)


def watches(bench: Bench) -> int:
    """End the guest's watches; return how many there were."""
    return bench.faults.end_watches(calls(user=bench.user))


def test_nothing_is_asked_of_the_host_before_the_first_call(bench: Bench) -> None:
    """A hundred idle processes of upstream's chart make no request at all."""
    bench.engine()
    bench.plug(bench.machines[0], "my-disk", bench.claim("pvc-1").name)
    bench.until(lambda: bench.disks(bench.machines[0]) == {"my-disk": "Ready"})
    assert requests(bench) == 0


def test_the_watches_end_when_nobody_has_called_for_a_while(bench: Bench) -> None:
    """They begin with the first call and end after it; the next call begins them anew."""
    a, *_ = bench.machines
    bench.claim("pvc-1")
    engine = bench.engine(idle=0.3)
    for _ in range(2):
        engine.publish("pvc-1", a)
        poll(lambda: watches(bench) == 4)
        poll(lambda: not engine.host.is_open)
        bench.server.requests.clear()
        poll(lambda: watches(bench) == 0)
        assert requests(bench) == 0
        engine.unpublish("pvc-1", a)


def test_a_closed_view_still_looks_live(bench: Bench) -> None:
    """A call that runs while the driver stops is answered from live readings."""
    a, *_ = bench.machines
    bench.claim("pvc-1")
    engine = bench.engine()
    engine.host.close()
    engine.publish("pvc-1", a)
    assert bench.is_ready(a, "pvc-1")
    assert watches(bench) == 0


def test_waiting_for_a_claim(bench: Bench) -> None:
    """A claim is returned when it is as wanted, or as it is when the time is over; None is a missing one."""
    view = bench.engine().host
    bench.host.pause("claims")
    bench.admin.create(CLAIMS, claim("pvc-1"), bench.namespace)
    name = VolumeId("pvc-1")
    late = view.wait_for_claim(name, lambda found: found is not None and found.bound, Deadline(0.1))
    assert late is not None
    assert not late.bound
    call = Call(lambda: view.wait_for_claim(name, lambda found: bool(found and found.bound), Deadline(10)))
    bench.host.resume("claims")
    bound = call.result()
    assert bound is not None
    assert bound.bound
    assert view.wait_for_claim(VolumeId("none"), lambda found: found is None, Deadline(10)) is None


def test_waiting_for_a_claim_ends_with_the_call(bench: Bench) -> None:
    """A cancelled call is not answered with a claim."""
    view, deadline = bench.engine().host, Deadline(60)
    call = Call(lambda: view.wait_for_claim(VolumeId("none"), lambda found: found is not None, deadline))
    poll(lambda: requests(bench) > 0)
    deadline.cancel()
    assert isinstance(call.error(), Cancelled)


def claim(name: str) -> dict[str, object]:
    """Return a plain claim."""
    spec = {
        "accessModes": ["ReadWriteMany"],
        "volumeMode": "Block",
        "storageClassName": "harvester-longhorn",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def without_attachments(bench: Bench) -> None:
    """Take the right to read VolumeAttachments from the guest, as hosts before 1.5.2 do not give it."""
    role = bench.admin.get(CLUSTER_ROLES, CSI_DRIVER)
    role["rules"] = [rule for rule in role["rules"] if "volumeattachments" not in rule["resources"]]
    bench.admin.replace(CLUSTER_ROLES, role)


def test_on_an_older_host_attachment_pods_are_the_evidence(bench: Bench) -> None:
    """Where VolumeAttachments may not be read, attach and detach still end, and end right."""
    a, b, *_ = bench.machines
    bench.claim("pvc-1")
    without_attachments(bench)
    engine = bench.engine()
    for machine in (a, b):
        engine.publish("pvc-1", machine)
        assert bench.is_ready(machine, "pvc-1")
        asked_again(partial(engine.unpublish, "pvc-1", machine))
        bench.until(lambda: bench.attachments("pvc-1") == [])


def test_the_calls_that_are_made_are_those_that_are_declared(bench: Bench) -> None:
    """What the modules say they need of the role is what attach and detach use, no more and no less."""
    a, *_ = bench.machines
    bench.claim("pvc-1")
    bench.host.profile = Profile(detach=0.2)
    engine = bench.engine()
    engine.publish("pvc-1", a)
    engine.unpublish("pvc-1", a)
    mine = (record.call for record in bench.server.requests.all() if record.call.user.name == bench.user)
    used = {(call.resource, call.verb) for call in mine}
    modules = (host, host_reads, host_attachments, holders)
    declared = {(p.resource, verb) for module in modules for p in module.PERMISSIONS for verb in p.verbs}
    assert used == declared
