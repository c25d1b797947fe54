"""DeleteVolume and ValidateVolumeCapabilities over a simulated host."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from csi.controller.delete_plan import PVC_PROTECTION
from csi.controller.marks import ATTACHED_TO, Holder, Mark
from csi.controller.names import is_object_name
from csi.errors import Busy, CsiError, Denied, InUse, NotFound, TimedOut, Unavailable
from csi.model import AccessMode, Capability
from harvester.kinds import MACHINES
from kube.objects import name_of, uid_of
from kube.resources import CLAIMS, NAMESPACES, VOLUMES
from sim.apiserver.faults import Fail, LoseAnswer, Refuse, calls
from tests.attach.bench import CLUSTER, NOT_FINAL, Call, asked_again
from tests.volumes.bench import ELSEWHERE, Blind
from tests.volumes.shapes import BLOCK, MOUNT, request

if TYPE_CHECKING:
    from sim.apiserver.faults import Effect
    from tests.volumes.bench import VolumeBench

FORBIDDEN = Fail(403, "Forbidden", 'User "u" cannot do this in the namespace "guest-a"')
HELD = "example.org/held"


def test_a_free_volume_is_deleted_and_its_name_is_free_again(bench: VolumeBench) -> None:
    """The claim goes, and a repeat is done as well; the next volume of that name is another one."""
    controller = bench.controller()
    first = bench.read(bench.made())
    controller.delete("pvc-1")
    controller.delete("pvc-1")
    asked_again(lambda: controller.create(request()))
    assert bench.read("pvc-1").uid != first.uid


@pytest.mark.parametrize("name", ["pvc-0", "Pvc_0", "../../api/v1", "a" * 254, "nöt", "a/b"])
def test_what_never_was_is_deleted(bench: VolumeBench, name: str) -> None:
    """A missing volume is done, and a name that no claim can bear is not even asked for."""
    bench.controller().delete(name)
    assert bench.writes() == []
    assert bench.server.requests.count("get", CLAIMS, bench.user) == is_object_name(name)


def test_an_attached_volume_is_refused_until_it_is_detached(bench: VolumeBench) -> None:
    """The words name the machine; the claim is not touched, not even tried to be deleted."""
    volume, controller = bench.made(), bench.controller()
    machine = bench.machines[0]
    controller.engine.publish(volume, machine)
    bench.server.requests.clear()
    with pytest.raises(InUse, match=f"still attached to machine .*{machine}"):
        controller.delete(volume)
    assert bench.writes() == []
    controller.engine.unpublish(volume, machine)
    controller.delete(volume)


def test_a_disk_that_the_template_no_longer_lists_is_still_attached(bench: VolumeBench) -> None:
    """The host would let us delete it then, while the machine still writes to it."""
    volume, controller = bench.made(), bench.controller()
    machine = bench.machines[0]
    controller.engine.publish(volume, machine)
    bench.host.pause("machines")
    with pytest.raises(NOT_FINAL):
        controller.engine.unpublish(volume, machine, 0.5)
    assert volume not in bench.template(machine)
    with pytest.raises(InUse, match=machine):
        bench.controller().delete(volume)
    assert not bench.read(volume).terminating
    bench.host.resume("machines")


def test_the_host_s_refusal_ends_the_call(bench: VolumeBench) -> None:
    """Its 409 says "still attached", not "try again": one request, and the host's words."""
    volume = bench.made()
    machine = bench.machines[0]
    bench.plug(machine, "data", volume)
    bench.until(lambda: "data" in bench.template(machine))
    bench.server.requests.clear()
    with pytest.raises(InUse, match=f"currently attached to VM: guest-a/{machine}"):
        bench.controller(holders=Blind()).delete(volume)
    assert bench.writes() == ["delete"]


def test_an_attachment_that_comes_between_look_and_delete_wins(bench: VolumeBench) -> None:
    """The delete carries the state that was looked at; the mark that came after makes it fail."""
    volume = bench.made()
    machine = bench.admin.get(MACHINES, bench.machines[0], bench.namespace)
    mark = str(Holder(name_of(machine), uid_of(machine), bench.now()))
    bench.before("delete", lambda: bench.annotate(volume, ATTACHED_TO, mark))
    with pytest.raises(InUse, match=name_of(machine)):
        bench.controller().delete(volume)
    assert not bench.read(volume).terminating


def test_a_claim_made_anew_meanwhile_is_not_deleted_for_its_predecessor(bench: VolumeBench) -> None:
    """Deleted and made again by others between look and delete: the volume that was asked for is gone."""
    volume = bench.made()

    def replaced() -> None:
        bench.admin.delete(CLAIMS, volume, bench.namespace)
        bench.until(lambda: not bench.exists(volume))
        bench.claim(volume, mark=Mark(cluster=CLUSTER, request=volume, attached_to=""))

    bench.before("delete", replaced)
    bench.controller().delete(volume)
    assert bench.read(volume).bound
    assert not bench.read(volume).terminating


def test_a_claim_that_others_write_to_meanwhile_is_deleted_all_the_same(bench: VolumeBench) -> None:
    """A write that changes nothing of the decision costs another look."""
    volume = bench.made()
    bench.before("delete", lambda: bench.annotate(volume, "note", "x"))
    bench.controller().delete(volume)
    bench.until(lambda: not bench.exists(volume))


def test_a_claim_that_never_rests_is_left_for_later(bench: VolumeBench) -> None:
    """Nobody loops without an end."""
    volume, notes = bench.made(), iter(range(100))
    bench.before("delete", lambda: bench.annotate(volume, "note", str(next(notes))), times=100)
    with pytest.raises(Busy):
        bench.controller().delete(volume)
    assert bench.exists(volume)


def test_a_claim_that_is_certain_to_go_is_gone(bench: VolumeBench) -> None:
    """Only the protection is left, which falls by itself; nobody has to wait for that."""
    volume = bench.made()
    bench.host.pause("claims")
    controller = bench.controller()
    controller.delete(volume)
    controller.delete(volume)
    claim = bench.read(volume)
    assert claim.terminating
    assert claim.finalizers == (PVC_PROTECTION,)
    assert bench.writes().count("delete") == 1


def test_a_claim_that_somebody_holds_is_not_gone(bench: VolumeBench) -> None:
    """A snapshot in the making holds its source: the words say what does, and the repeat succeeds."""
    volume, controller = bench.made(), bench.controller()
    bench.hold(volume, HELD)
    with pytest.raises(InUse, match=f"being deleted but held by {HELD}"):
        controller.delete(volume)
    bench.release(volume)
    controller.delete(volume)
    bench.until(lambda: not bench.exists(volume))


@pytest.mark.parametrize(
    ("verb", "effect", "error"),
    [
        pytest.param("delete", FORBIDDEN, Denied, id="no-right-to-delete"),
        pytest.param("get", FORBIDDEN, Denied, id="no-right-to-read"),
        pytest.param("delete", Fail(503, "ServiceUnavailable", "later"), Unavailable, id="not-now"),
        pytest.param("delete", Refuse(), Unavailable, id="the-request-is-lost"),
        pytest.param("delete", LoseAnswer(), Unavailable, id="the-answer-is-lost"),
        pytest.param(
            "delete",
            Fail(
                422,
                "Invalid",
                'admission webhook "validator.harvesterhci.io" denied the request: '
                'persistentvolumeclaims "pvc-1" not found',
            ),
            Unavailable,
            id="the-webhook-has-not-seen-it-yet",
        ),
    ],
)
def test_after_a_fault_the_same_request_heals(
    bench: VolumeBench, verb: str, effect: Effect, error: type[CsiError]
) -> None:
    """An outage is never taken for "gone", and the repeat deletes."""
    volume, controller = bench.made(), bench.controller()
    bench.faults.add(bench.asked(verb), effect)
    with pytest.raises(error):
        controller.delete(volume)
    controller.delete(volume)
    bench.until(lambda: not bench.exists(volume))


def test_nothing_is_deleted_on_a_half_blind_look(bench: VolumeBench) -> None:
    """When a layer cannot be read, nobody may say that the disk is free."""
    volume, controller = bench.made(), bench.controller()
    bench.faults.add(
        calls("list", user=bench.user), Fail(500, "InternalError", "etcdserver: timed out"), None
    )
    with pytest.raises(Unavailable):
        controller.delete(volume)
    assert not bench.read(volume).terminating


@pytest.mark.parametrize(
    "mark",
    [
        pytest.param(Mark(), id="unmarked"),
        pytest.param(Mark(cluster=ELSEWHERE, request="pvc-1", attached_to=""), id="another-cluster's"),
    ],
)
@pytest.mark.parametrize("with_guest", [False, True])
def test_a_claim_that_is_not_ours_is_left_alone(bench: VolumeBench, mark: Mark, with_guest: bool) -> None:
    """Root disks of machines and volumes of other clusters: not deleted, and not known either.

    A guest volume that names another cluster's claim does not make it ours.
    """
    before = bench.claim("pvc-1", mark=mark)
    guest = bench.guest() if with_guest else None
    if guest and mark.cluster:
        guest.has("pvc-1", "pvc-1")
    controller = bench.controller(guest=guest)
    with pytest.raises(InUse, match="not a volume of this cluster"):
        controller.delete("pvc-1")
    with pytest.raises(NotFound):
        controller.validate("pvc-1")
    assert bench.version("pvc-1") == before.resource_version


@pytest.mark.parametrize("name", ["pvc-1", "by-hand"])
def test_an_unmarked_claim_that_a_guest_volume_names_is_ours(bench: VolumeBench, name: str) -> None:
    """Upstream made it: found by the volume of its name, or by the handle of one made by hand."""
    bench.claim("pvc-1", mark=Mark())
    guest = bench.guest()
    guest.has(name, "pvc-1")
    controller = bench.controller(guest=guest)
    assert controller.validate("pvc-1") == ""
    controller.delete("pvc-1")
    bench.until(lambda: not bench.exists("pvc-1"))


def test_a_volume_of_another_driver_makes_nothing_ours(bench: VolumeBench) -> None:
    """The same handle may mean something else to another driver."""
    bench.claim("pvc-1", mark=Mark())
    guest = bench.guest()
    guest.has("pvc-1", "pvc-1", driver="csi.example.org")
    with pytest.raises(InUse):
        bench.controller(guest=guest).delete("pvc-1")


def test_a_guest_that_does_not_answer_proves_nothing(bench: VolumeBench) -> None:
    """While nobody knows whether the claim is ours, it is neither deleted nor denied."""
    bench.claim("pvc-1", mark=Mark())
    guest = bench.guest()
    controller = bench.controller(guest=guest)
    guest.server.faults.add(calls("get", VOLUMES), Fail(503, "ServiceUnavailable", "later"), None)
    with pytest.raises(Unavailable):
        controller.delete("pvc-1")
    with pytest.raises(Unavailable):
        controller.validate("pvc-1")


def test_a_cluster_is_known_by_its_namespace_kube_system(bench: VolumeBench) -> None:
    """Without a flag the guest's own identity marks its claims; while it cannot be read nothing is made."""
    guest = bench.guest()
    controller = bench.controller(guest=guest, cluster="")
    guest.server.faults.add(calls("get", NAMESPACES), Refuse())
    with pytest.raises(Unavailable):
        controller.create(request())
    assert bench.writes() == []
    controller.create(request())
    assert bench.read("pvc-1").mark.cluster == uid_of(guest.client.get(NAMESPACES, "kube-system"))
    bench.controller(guest=guest, cluster="").delete("pvc-1")


def test_a_cluster_that_nobody_can_name_makes_nothing(bench: VolumeBench) -> None:
    """Without a guest API and without the flag no claim could be told from others'."""
    with pytest.raises(Unavailable, match="--cluster-id"):
        bench.controller(cluster="").create(request())
    assert bench.writes() == []


def test_two_controllers_that_delete_one_volume_agree(bench: VolumeBench) -> None:
    """Both are done, and nothing is left."""
    one, other = bench.controller(), bench.controller()
    for number in range(5):
        volume = bench.made(f"pvc-{number}")
        racing = [Call(partial(who.delete, volume)) for who in (one, other)]
        assert [call.error() for call in racing] == [None, None]
        bench.until(partial(lambda name: not bench.exists(name), volume))


def test_a_create_and_a_delete_at_once_leave_all_or_nothing(bench: VolumeBench) -> None:
    """Whatever comes first, both are answered in the end, and a last delete leaves nothing."""
    one, other = bench.controller(), bench.controller()
    for number in range(5):
        volume = bench.made(f"pvc-{number}")
        making = Call(partial(asked_again, partial(one.create, request(volume))))
        deleting = Call(partial(asked_again, partial(other.delete, volume)))
        assert (making.error(), deleting.error()) == (None, None)
        one.delete(volume)
        bench.until(partial(lambda name: not bench.exists(name), volume))


def test_a_delete_and_a_publish_at_once_never_both_succeed(bench: VolumeBench) -> None:
    """Attached, or deleted; and no machine is left with a disk whose claim is gone."""
    one, other = bench.controller(), bench.controller()
    machine = bench.machines[0]
    for number in range(8):
        volume = bench.made(f"pvc-{number}")
        attaching = Call(partial(one.engine.publish, volume, machine, 5.0))
        deleting = Call(partial(other.delete, volume))
        assert (attaching.error(), deleting.error()) != (None, None)
        if attaching.error() is None:
            assert bench.is_ready(machine, volume)
            assert not bench.read(volume).terminating
            one.engine.unpublish(volume, machine)
        assert volume not in bench.template(machine)
        asked_again(partial(one.delete, volume))


def test_whoever_is_asked_after_a_crash_completes_the_deletion(bench: VolumeBench) -> None:
    """Killed at any call and asked again in a new process, a volume is deleted."""
    at, died = 0, True
    while died:
        volume, victim = bench.made(f"pvc-{at}"), bench.controller()
        death = bench.death(at)
        error = Call(partial(victim.delete, volume)).error()
        assert error is None or isinstance(error, (Busy, TimedOut, Unavailable))
        died = death.came
        bench.faults.clear()
        victim.close()
        successor = bench.controller()
        asked_again(partial(successor.delete, volume))
        bench.until(partial(lambda name: not bench.exists(name), volume))
        successor.close()
        at += 1
    assert at > 3


def test_a_volume_is_judged_by_what_is_asked_of_it(bench: VolumeBench) -> None:
    """A disk serves one node, mounted or raw; what it cannot serve is said in a sentence."""
    volume, controller = bench.made(), bench.controller()
    assert controller.validate(volume, MOUNT, BLOCK) == ""
    shared = Capability(AccessMode.MULTI_NODE_MULTI_WRITER, block=True)
    assert "MULTI_NODE_MULTI_WRITER" in controller.validate(volume, MOUNT, shared)
    with pytest.raises(NotFound):
        controller.validate("pvc-0")
