"""CreateVolume over a simulated host."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from csi.controller.marks import CLUSTER as CLUSTER_KEY
from csi.controller.marks import Mark
from csi.deadline import Deadline
from csi.errors import (
    AlreadyExists,
    Busy,
    Cancelled,
    CsiError,
    Denied,
    Exhausted,
    InvalidArgument,
    TimedOut,
    Unavailable,
)
from harvester.kinds import DEFAULT_CLASS
from kube.client import MergePatch
from kube.resources import CLAIMS, STORAGE_CLASSES
from sim.apiserver.faults import Fail, LoseAnswer, Refuse, calls
from tests.attach.bench import CLUSTER, Call, asked_again
from tests.volumes.bench import ELSEWHERE, SOON
from tests.volumes.shapes import GIB, MIB, request

if TYPE_CHECKING:
    from sim.apiserver.faults import Effect
    from tests.volumes.bench import VolumeBench

FORBIDDEN = Fail(403, "Forbidden", 'User "u" cannot do this in the namespace "guest-a"')


def test_a_volume_is_a_claim_with_a_disk_behind_it(bench: VolumeBench) -> None:
    """The claim is Bound, marked and free when the call is answered, and the answer says its real size."""
    volume = bench.controller().create(request(required=GIB + 1))
    claim = bench.read(volume.id)
    assert claim.bound
    assert volume.capacity == claim.capacity == GIB + 2 * MIB
    assert (claim.access_modes, claim.volume_mode) == (("ReadWriteMany",), "Block")
    assert claim.storage_class == "harvester-longhorn"
    assert (claim.mark.cluster, claim.mark.attached_to) == (CLUSTER, "")


def test_a_name_that_no_object_can_bear_gives_a_volume_too(bench: VolumeBench) -> None:
    """csi-sanity and other callers send names with capitals, up to 128 characters."""
    controller, name = bench.controller(), "CreateVolume-0A1B-" + "x" * 110
    volume = controller.create(request(name))
    assert controller.create(request(name)).id == volume.id


def test_the_same_request_twice_makes_one_claim(bench: VolumeBench) -> None:
    """A repeat, in this process or another, is answered with the volume that is there."""
    first = bench.controller().create(request())
    assert bench.controller().create(request()) == first
    assert bench.writes() == ["create"]


def test_a_claim_that_waits_for_its_first_consumer_is_not_waited_for(bench: VolumeBench) -> None:
    """An LVM claim binds only when it is plugged: nobody would ever plug it if we waited."""
    volume = bench.controller(default_class="lvm").create(request())
    claim = bench.read(volume.id)
    assert not claim.bound
    assert claim.access_modes == ("ReadWriteOnce",)
    assert volume.capacity == GIB
    assert bench.controller(default_class="lvm").create(request()) == volume


def test_a_parameter_beats_the_flag(bench: VolumeBench) -> None:
    """The StorageClass of the guest says where its volumes go."""
    controller = bench.controller(default_class="lvm")
    volume = controller.create(request(parameters={"hostStorageClass": "longhorn-rwx"}))
    claim = bench.read(volume.id)
    assert claim.bound
    assert (claim.storage_class, claim.access_modes) == ("longhorn-rwx", ("ReadWriteOnce",))


def test_a_class_that_the_role_may_not_read_is_not_waited_for(bench: VolumeBench) -> None:
    """Nobody knows whether the claim binds by itself, so that the answer cannot depend on it."""
    bench.faults.add(calls(resource=STORAGE_CLASSES, user=bench.user), FORBIDDEN, times=None)
    bench.host.pause("claims")
    volume = bench.controller(default_class="harvester-longhorn").create(request())
    assert volume.capacity == GIB
    assert not bench.read(volume.id).bound


def test_a_missing_class_is_told_with_those_that_are_there(bench: VolumeBench) -> None:
    """The reader of the event sees what to write instead, and nothing was made."""
    with pytest.raises(
        InvalidArgument, match=r"fst does not exist; the host has: harvester-longhorn \(default\), .*lvm"
    ):
        bench.controller().create(request(parameters={"hostStorageClass": "fst"}))
    assert bench.writes() == []


def test_a_class_that_only_the_webhook_misses_is_told_as_well(bench: VolumeBench) -> None:
    """Harvester 1.9 answers 500 then: still the request is wrong, not the host."""
    bench.faults.add(calls("get", STORAGE_CLASSES, user=bench.user), FORBIDDEN)
    with pytest.raises(InvalidArgument, match=r'"fst" not found; the host has: .*lvm'):
        bench.controller().create(request(parameters={"hostStorageClass": "fst"}))


def test_a_reserved_class_is_refused_in_the_host_s_words(bench: VolumeBench) -> None:
    """The host keeps some classes for itself."""
    with pytest.raises(InvalidArgument, match="reserved storage class longhorn-static"):
        bench.controller(default_class="longhorn-static").create(request())


def test_a_host_without_a_default_class_asks_for_one(bench: VolumeBench) -> None:
    """A claim without a class would stay Pending for ever."""
    body = {"metadata": {"annotations": {DEFAULT_CLASS: "false"}}}
    bench.admin.patch(STORAGE_CLASSES, "harvester-longhorn", MergePatch(body))
    with pytest.raises(InvalidArgument, match=r"no default storage class: name one.*hostStorageClass"):
        bench.controller().create(request())


def test_a_used_up_quota_is_named(bench: VolumeBench) -> None:
    """A quota comes as 403 like a missing right, but is another team's to raise."""
    bench.host.quota(bench.namespace, "1Gi")
    with pytest.raises(Exhausted, match="exceeded quota: default-quota"):
        bench.controller().create(request())


@pytest.mark.parametrize(
    ("verb", "effect", "error"),
    [
        pytest.param("create", FORBIDDEN, Denied, id="no-right-to-create"),
        pytest.param("get", FORBIDDEN, Denied, id="no-right-to-read"),
        pytest.param("create", Fail(503, "ServiceUnavailable", "later"), Unavailable, id="not-now"),
        pytest.param(
            "create", Fail(500, "InternalError", "failed calling webhook"), Unavailable, id="no-webhook"
        ),
        pytest.param("create", Fail(429, "TooManyRequests", "slower"), Unavailable, id="too-many"),
        pytest.param("create", Fail(401, "Unauthorized", "Unauthorized"), Unavailable, id="an-old-token"),
        pytest.param("create", Refuse(), Unavailable, id="the-request-is-lost"),
        pytest.param("create", LoseAnswer(), Unavailable, id="the-answer-is-lost"),
        pytest.param("get", Refuse(), Unavailable, id="the-look-is-lost"),
    ],
)
def test_after_a_fault_the_same_request_heals(
    bench: VolumeBench, verb: str, effect: Effect, error: type[CsiError]
) -> None:
    """While the outcome is unknown no error sounds final, and the repeat gives one volume."""
    bench.faults.add(bench.asked(verb), effect)
    controller = bench.controller()
    with pytest.raises(error):
        controller.create(request())
    assert controller.create(request()).id == "pvc-1"
    assert bench.read("pvc-1").bound


def test_a_claim_that_does_not_bind_is_told_with_what_can_be_seen(bench: VolumeBench) -> None:
    """The call ends in time, says what it waited for, and the repeat goes on with the same claim."""
    bench.host.pause("claims")
    controller = bench.controller()
    with pytest.raises(TimedOut, match=r"guest-a/pvc-1 \(1Gi, storage class harvester-longhorn\) is Pending"):
        controller.create(request(), SOON)
    bench.host.resume("claims")
    assert controller.create(request()).id == "pvc-1"
    assert bench.writes() == ["create"]


def test_a_claim_is_seen_to_bind_though_the_watch_is_frozen(bench: VolumeBench) -> None:
    """A watch that says nothing proves nothing: who waits looks by itself."""
    bench.faults.freeze_watches(calls(user=bench.user))
    assert bench.controller().create(request()).id == "pvc-1"


def test_a_caller_that_goes_away_ends_the_wait(bench: VolumeBench) -> None:
    """The claim stays, for the repeat."""
    bench.host.pause("claims")
    controller, deadline = bench.controller(), Deadline(10.0)
    waiting = Call(lambda: controller.volumes.create(request(), deadline))
    bench.until(lambda: bench.exists("pvc-1"))
    deadline.cancel()
    assert isinstance(waiting.error(), Cancelled)
    assert bench.exists("pvc-1")


def test_a_claim_that_is_deleted_while_it_is_waited_for_is_made_anew(bench: VolumeBench) -> None:
    """The call says so in time, and the repeat makes the volume."""
    bench.host.pause("claims")
    controller = bench.controller()
    waiting = Call(lambda: controller.create(request()))
    bench.until(lambda: bench.exists("pvc-1"))
    bench.admin.delete(CLAIMS, "pvc-1", bench.namespace)
    assert isinstance(waiting.error(), Busy)
    with pytest.raises(Busy, match="being deleted"):
        controller.create(request())
    bench.host.resume("claims")
    assert asked_again(lambda: controller.create(request())).id == "pvc-1"


@pytest.mark.parametrize(
    "mark",
    [
        pytest.param(Mark(), id="unmarked"),
        pytest.param(Mark(cluster=ELSEWHERE, request="pvc-1", attached_to=""), id="another-cluster's"),
        pytest.param(Mark(cluster=CLUSTER, request="other", attached_to=""), id="another-request's"),
    ],
)
def test_a_claim_that_this_request_did_not_make_is_left_alone(bench: VolumeBench, mark: Mark) -> None:
    """One namespace holds the claims of several clusters, and machines' own disks."""
    bench.claim("pvc-1", mark=mark)
    before = bench.version("pvc-1")
    with pytest.raises(AlreadyExists):
        bench.controller().create(request())
    assert bench.version("pvc-1") == before


def test_a_claim_that_another_made_at_the_same_moment_is_compared(bench: VolumeBench) -> None:
    """Its name was free when we looked, and taken when we made it."""
    foreign = Mark(cluster=ELSEWHERE, request="pvc-1", attached_to="")
    bench.before("create", lambda: bench.annotate(bench.claim("pvc-1", mark=foreign).name, "seen", "yes"))
    with pytest.raises(AlreadyExists, match="not a volume of this cluster"):
        bench.controller().create(request())
    assert bench.read("pvc-1").annotations[CLUSTER_KEY] == ELSEWHERE


def test_two_controllers_that_make_one_volume_agree(bench: VolumeBench) -> None:
    """Both answers name the same claim, made once."""
    one, other = bench.controller(), bench.controller()
    for number in range(5):
        asked = request(f"pvc-{number}")
        racing = [Call(partial(who.create, asked)) for who in (one, other)]
        assert racing[0].result() == racing[1].result()


def test_two_requests_of_one_name_that_differ_make_one_volume(bench: VolumeBench) -> None:
    """One is served, the other is told that the name is taken."""
    one, other = bench.controller(), bench.controller()
    racing = [
        Call(lambda: one.create(request(parameters={"colour": "red"}))),
        Call(lambda: other.create(request(parameters={"colour": "blue"}))),
    ]
    errors = [call.error() for call in racing]
    assert [error for error in errors if error is None] == [None]
    assert any(isinstance(error, AlreadyExists) for error in errors)


def test_whoever_is_asked_after_a_crash_completes_the_volume(bench: VolumeBench) -> None:
    """Killed at any call and asked again in a new process, a volume is made once."""
    at, died = 0, True
    while died:
        name = f"pvc-{at}"
        victim = bench.controller()
        death = bench.death(at)
        error = Call(partial(victim.create, request(name), SOON)).error()
        assert error is None or isinstance(error, (Busy, TimedOut, Unavailable))
        died = death.came
        bench.faults.clear()
        victim.close()
        successor = bench.controller()
        assert asked_again(partial(successor.create, request(name))).id == name
        assert bench.read(name).bound
        successor.close()
        at += 1
    assert at > 3


def test_unknown_parameters_are_warned_of_once(bench: VolumeBench) -> None:
    """One line names them, not their values, and a repeat says nothing."""
    asked, controller = request(parameters={"zebra": "stripes", "ant": "legs"}), bench.controller()
    with capture_logs() as logs:
        controller.create(asked)
        controller.create(asked)
    warnings = [line for line in logs if line["log_level"] == "warning"]
    assert [line["parameters"] for line in warnings] == [("ant", "zebra")]
    assert "stripes" not in str(logs)


def test_an_expired_call_makes_nothing(bench: VolumeBench) -> None:
    """A call whose time is over before the first write leaves nothing behind."""
    with pytest.raises(TimedOut):
        bench.controller().create(request(), 0.0)
    assert bench.writes() == []
