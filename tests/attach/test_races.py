"""What must hold when two processes, or a slow host, get in each other's way."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

import pytest

from csi.controller.marks import Holder, Mark
from csi.deadline import Deadline
from csi.errors import Busy, InUse, Unavailable
from csi.model import NodeId, PublishRequest, VolumeId
from harvester.kinds import MACHINES
from kube.objects import uid_of
from kube.resources import CLAIMS
from sim.apiserver.faults import Delay, Fail, LoseAnswer, Refuse, calls
from sim.host.profile import Profile
from tests.attach.bench import CLUSTER, DISK, NOT_FINAL, QUICK_CALLS, Call, asked_again, poll

if TYPE_CHECKING:
    from datetime import datetime

    from sim.apiserver.faults import Effect
    from tests.attach.bench import Bench, Engine


def both_at_once(bench: Bench, one: Engine, other: Engine, volume: str) -> list[bool]:
    """Publish a volume to two machines at the same moment; return which call said OK."""
    a, b, *_ = bench.machines
    racing = [Call(partial(one.publish, volume, a, 5.0)), Call(partial(other.publish, volume, b, 5.0))]
    errors = [call.error() for call in racing]
    assert all(error is None or isinstance(error, (InUse, *NOT_FINAL)) for error in errors), errors
    return [error is None for error in errors]


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("frozen", [False, True], ids=["watching", "frozen"])
def test_a_volume_is_never_published_to_two_machines(bench: Bench, processes: int, frozen: bool) -> None:
    """Of two publishes of one volume to two machines one is OK at most, whatever the caches show."""
    one = bench.engine()
    other = one if processes == 1 else bench.engine()
    for number in range(5):
        volume = f"pvc-{number}"
        bench.claim(volume)
        if frozen and number == 1:  # the caches have been filled, and hear nothing from now on
            bench.faults.freeze_watches(calls(user=bench.user))
        ok = both_at_once(bench, one, other, volume)
        assert ok.count(True) == 1
        winner = bench.machines[ok.index(True)]
        assert bench.is_ready(winner, volume)
        assert bench.holder(volume) == winner
        asked_again(partial(other.unpublish, volume, winner))
        assert bench.is_gone(winner, volume)


def test_an_old_cache_does_not_prove_a_new_attachment(bench: Bench) -> None:
    """A watch that froze while the disk was there does not make its next attachment look ready."""
    a, *_ = bench.machines
    bench.claim("pvc-1")
    engine, another = bench.engine(), bench.engine()
    engine.publish("pvc-1", a)
    bench.faults.freeze_watches(calls(user=bench.user))
    another.unpublish("pvc-1", a)
    bench.host.pause("handler")
    with pytest.raises(NOT_FINAL):
        engine.publish("pvc-1", a, 1.0)
    bench.host.resume("handler")
    engine.publish("pvc-1", a)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param("publish", "publish", id="attach-twice"),
        pytest.param("publish", "unpublish", id="attach-and-detach"),
        pytest.param("unpublish", "unpublish", id="detach-twice"),
    ],
)
@pytest.mark.parametrize("attached", [False, True], ids=["free", "attached"])
def test_two_processes_at_one_attachment(bench: Bench, first: str, second: str, attached: bool) -> None:
    """Any two calls for one volume and machine at once leave the volume so that both can be asked again."""
    a, *_ = bench.machines
    bench.claim("pvc-1")
    one, other = bench.engine(), bench.engine()
    if attached:
        one.publish("pvc-1", a)
    racing = {
        name: Call(partial(getattr(process, kind), "pvc-1", a, 5.0))
        for name, process, kind in [("first", one, first), ("second", other, second)]
    }
    errors = [error for call in racing.values() if (error := call.error()) is not None]
    assert all(isinstance(error, NOT_FINAL) for error in errors), errors
    asked_again(partial(one.unpublish, "pvc-1", a))
    assert bench.is_gone(a, "pvc-1")
    assert bench.holder("pvc-1") == ""
    asked_again(partial(other.publish, "pvc-1", a))
    assert bench.is_ready(a, "pvc-1")


def left_behind(bench: Bench, machine: str, since: datetime) -> Mark:
    """Return the mark of a process that died before it patched the machine."""
    uid = uid_of(bench.admin.get(MACHINES, machine, bench.namespace))
    return Mark(cluster=CLUSTER, attached_to=str(Holder(machine, uid, since)))


def test_the_mark_of_a_dead_process_is_taken_over_when_no_patch_can_be_left_of_it(bench: Bench) -> None:
    """A young mark holds the volume although its machine shows nothing; an old one does not."""
    a, b, *_ = bench.machines
    engine = bench.engine(patience=timedelta(seconds=3))
    bench.claim("pvc-1", mark=left_behind(bench, a, bench.now()))
    with pytest.raises(InUse, match=a):
        engine.publish("pvc-1", b)
    assert engine.attachments.holder(bench.read("pvc-1").name) == a
    with pytest.raises(Unavailable, match="may be on its way"):
        engine.unpublish("pvc-1", a)
    asked_again(partial(engine.publish, "pvc-1", b), also=InUse)
    assert bench.holder("pvc-1") == b


def test_a_patch_that_arrives_late_is_not_missed(bench: Bench) -> None:
    """While a patch with an unknown outcome may still arrive, a detach that sees nothing does not say OK."""
    a, *_ = bench.machines
    bench.claim("pvc-1")
    limits = replace(QUICK_CALLS, answer=0.6)
    engine, deadline = bench.engine(limits=limits, patience=timedelta(seconds=6)), Deadline(60)
    late = bench.faults.add(calls("patch", MACHINES), Delay(2.0))
    request = PublishRequest(VolumeId("pvc-1"), NodeId(a), DISK)
    publishing = Call(partial(engine.attachments.publish, request, deadline))
    poll(lambda: late.hits == 1)
    deadline.cancel()
    assert isinstance(publishing.error(), NOT_FINAL)
    with pytest.raises(NOT_FINAL):
        engine.unpublish("pvc-1", a)
    asked_again(partial(engine.unpublish, "pvc-1", a))
    poll(lambda: bench.server.requests.count("patch", MACHINES, bench.user) > 0)
    assert bench.is_gone(a, "pvc-1")


@pytest.mark.parametrize("resource", [CLAIMS, MACHINES], ids=["mark", "machine"])
@pytest.mark.parametrize(
    "effect",
    [
        LoseAnswer(),
        Refuse(),
        Fail(500, "InternalError", "etcd is slow"),
        Fail(429, "TooManyRequests", "slow"),
    ],
    ids=["answer-lost", "not-taken", "500", "429"],
)
def test_a_write_that_fails_is_made_good(bench: Bench, resource: object, effect: Effect) -> None:
    """Whether a write took place or not, the same call or the next one finishes what it began."""
    a, *_ = bench.machines
    bench.claim("pvc-1")
    engine = bench.engine()
    broken = calls("patch", resource, user=bench.user)  # type: ignore[arg-type]  # one of two kinds
    for call in (partial(engine.publish, "pvc-1", a), partial(engine.unpublish, "pvc-1", a)):
        rule = bench.faults.add(broken, effect)
        asked_again(call)
        assert rule.hits == 1
    assert bench.is_gone(a, "pvc-1")
    assert bench.holder("pvc-1") == ""


def test_a_list_that_fails_lets_nothing_happen(bench: Bench) -> None:
    """When it cannot be read who else holds the volume, no machine is patched."""
    a, *_ = bench.machines
    bench.claim("pvc-1", mark=Mark(cluster=CLUSTER))
    engine = bench.engine()
    for kind in ("virtualmachineinstances", "volumeattachments"):
        rule = bench.faults.add(
            lambda call, kind=kind: (
                call.verb == "list" and kind in call.path and call.user.name == bench.user
            ),  # type: ignore[misc]  # bound
            Fail(500, "InternalError", "overloaded"),
            times=None,
        )
        with pytest.raises(Unavailable, match="overloaded"):
            engine.publish("pvc-1", a)
        bench.faults.remove(rule)
    assert bench.template(a) == []
    assert bench.holder("pvc-1") is None


def test_who_has_lost_the_volume_while_waiting_does_not_plug_it(bench: Bench) -> None:
    """The mark is read once more before the commit: another process may have given the volume away."""
    a, b, *_ = bench.machines
    for name in ("first", "pvc-1"):
        bench.claim(name)
    one, other = bench.engine(), bench.engine()
    bench.host.profile = Profile(pod_start=4.0)
    first = Call(partial(one.publish, "first", a))
    bench.until(lambda: bench.template(a) == ["first"])
    waiting = Call(partial(one.publish, "pvc-1", a))
    bench.until(lambda: bench.holder("pvc-1") == a)
    asked_again(partial(other.unpublish, "pvc-1", a))
    asked_again(partial(other.publish, "pvc-1", b))
    first.result()
    assert isinstance(waiting.error(), Busy)
    assert bench.template(a) == ["first"]
    assert bench.is_ready(b, "pvc-1")


def test_who_has_lost_the_volume_at_the_end_does_not_say_ok(bench: Bench) -> None:
    """The mark is read once more before the answer."""
    a, *_ = bench.machines
    bench.claim("pvc-1")
    one, other = bench.engine(), bench.engine()
    reads = count(1)
    last = bench.faults.add(
        lambda call: calls("get", CLAIMS, name="pvc-1", user=bench.user)(call) and next(reads) == 3,
        Delay(1.0),
    )
    publishing = Call(partial(one.publish, "pvc-1", a))
    poll(lambda: last.hits == 1)
    other.unpublish("pvc-1", a)
    assert isinstance(publishing.error(), Busy)
    asked_again(partial(one.publish, "pvc-1", a))
    assert bench.is_ready(a, "pvc-1")
