"""The changes of one machine: together, at rest, and nobody starved."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from csi.deadline import Deadline
from csi.errors import InUse, TimedOut, Unavailable
from csi.model import NodeId, PublishRequest, VolumeId
from harvester.kinds import GOLDEN_IMAGE, MACHINES
from kube.client import MergePatch
from kube.resources import CLAIMS
from sim.apiserver.faults import Delay, calls
from sim.host.profile import Profile
from tests.attach.bench import DISK, QUICK, Call, asked_again, poll

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.attach.bench import Bench, Engine

IMPATIENT = replace(QUICK, stuck=0.5, first_penalty=0.4)


def patches(bench: Bench) -> int:
    """Return how often machines were patched by the guest."""
    return bench.server.requests.count("patch", MACHINES, bench.user)


def publishes(engine: Engine, names: list[str], machine: str) -> list[Call[Mapping[str, str]]]:
    """Publish many volumes to one machine at once."""
    return [Call(partial(engine.publish, name, machine)) for name in names]


def test_changes_that_come_together_share_one_patch(bench: Bench) -> None:
    """What waits while a machine is busy goes in one patch once it is at rest, adds and removes alike."""
    a, *_ = bench.machines
    names = [f"pvc-{number}" for number in range(6)]
    for name in ("first", "second", *names):
        bench.claim(name)
    engine = bench.engine()
    engine.publish("first", a)
    bench.host.profile = Profile(pod_start=0.5)
    slow = Call(lambda: engine.publish("second", a))
    bench.until(lambda: "second" in bench.template(a))
    before = patches(bench)
    waiting = publishes(engine, names, a)
    leaving = Call(lambda: engine.unpublish("first", a))
    slow.result()
    leaving.result()
    for call in waiting:
        call.result()
    assert bench.template(a) == ["second", *names]
    assert patches(bench) - before == 1


@pytest.mark.parametrize("wait_for_rest", [True, False])
def test_a_steady_stream_of_publishes_does_not_starve(bench: Bench, wait_for_rest: bool) -> None:
    """One publish every 2 s to one machine for a minute, a pod that takes 8 s, 30 s for each call; here 1:10.

    All of them succeed. Patching at will they do not: each change throws the pod away that the ones before
    wait for (kubevirt#16937).
    """
    a, *_ = bench.machines
    names = [f"pvc-{number}" for number in range(30)]
    for name in names:
        bench.claim(name)
    bench.host.profile = Profile(pod_start=0.8)
    engine = bench.engine(replace(QUICK, wait_for_rest=wait_for_rest))
    stream = []
    pause = threading.Event()
    for name in names:
        stream.append(Call(partial(engine.publish, name, a, 3.0)))
        pause.wait(0.2)
    errors = [error for call in stream if (error := call.error()) is not None]
    assert (not errors) is wait_for_rest, errors
    assert all(isinstance(error, TimedOut) for error in errors)


def test_a_refused_change_does_not_take_the_others_with_it(bench: Bench) -> None:
    """Of a refused patch each change is sent alone: only the guilty call fails, in the host's words."""
    a, *_ = bench.machines
    names = ["pvc-1", "golden", "pvc-2"]
    for name in ("first", *names):
        bench.claim(name)
    golden = MergePatch({"metadata": {"annotations": {GOLDEN_IMAGE: "true"}}})
    bench.admin.patch(CLAIMS, "golden", golden, bench.namespace)
    engine = bench.engine()
    bench.host.profile = Profile(pod_start=0.3)
    first = Call(lambda: engine.publish("first", a))
    bench.until(lambda: "first" in bench.template(a))
    one, guilty, two = publishes(engine, names, a)
    for call in (first, one, two):
        call.result()
    error = guilty.error()
    assert isinstance(error, InUse)
    assert "golden image" in error.message
    assert sorted(bench.template(a)) == ["first", "pvc-1", "pvc-2"]


def test_a_disk_that_keeps_the_pod_pending_is_taken_out(bench: Bench) -> None:
    """After a minute it makes way for those that wait, its own call fails with the pod's reason."""
    a, *_ = bench.machines
    bad = bench.claim("bad")
    bench.claim("good")
    bench.host.break_volume(bad.volume_name, "volume is faulted")
    engine = bench.engine(IMPATIENT)
    stuck = Call(lambda: engine.publish("bad", a))
    bench.until(lambda: "bad" in bench.template(a))
    engine.publish("good", a)
    error = stuck.error()
    assert isinstance(error, Unavailable)
    assert "attachment pod hp-volume-" in error.message
    assert bench.template(a) == ["good"]


def test_a_disk_that_was_taken_out_is_tried_again_alone_and_later(bench: Bench) -> None:
    """Until its time has come a call for it is told so at once; when it is mended it is attached."""
    a, *_ = bench.machines
    bad = bench.claim("bad")
    bench.host.break_volume(bad.volume_name, "volume is faulted")
    engine = bench.engine(IMPATIENT)
    with pytest.raises(Unavailable, match="attachment pod"):
        engine.publish("bad", a)
    before = patches(bench)
    with pytest.raises(Unavailable, match="it is tried again in"):
        engine.publish("bad", a)
    assert patches(bench) == before
    bench.host.mend_volume(bad.volume_name)
    asked_again(lambda: engine.publish("bad", a))
    assert bench.is_ready(a, "bad")


def test_it_is_taken_out_even_when_nobody_waits(bench: Bench) -> None:
    """A call that has gone does not leave its disk behind to block the machine."""
    a, *_ = bench.machines
    bad = bench.claim("bad")
    bench.host.break_volume(bad.volume_name, "volume is faulted")
    engine = bench.engine(IMPATIENT)
    with pytest.raises(TimedOut):
        engine.publish("bad", a, 0.3)
    bench.until(lambda: bench.template(a) == [])


def test_a_foreign_disk_is_never_taken_out(bench: Bench) -> None:
    """What a person plugged blocks the machine until the person mends it; who waits is told pod and disk."""
    a, *_ = bench.machines
    foreign = bench.claim("foreign")
    bench.claim("pvc-1")
    bench.host.break_volume(foreign.volume_name, "volume is faulted")
    bench.plug(a, "my-disk", "foreign")
    engine = bench.engine(IMPATIENT)
    with pytest.raises(Unavailable, match=r"my-disk.*attachment pod hp-volume-"):
        engine.publish("pvc-1", a)
    assert bench.template(a) == ["my-disk"]


def test_what_is_not_yet_committed_is_withdrawn(bench: Bench) -> None:
    """A call that gives up while the machine is busy leaves nothing to be plugged later."""
    a, *_ = bench.machines
    for name in ("pvc-1", "pvc-2", "pvc-3"):
        bench.claim(name)
    engine = bench.engine()
    bench.host.profile = Profile(pod_start=2.0)
    first = Call(lambda: engine.publish("pvc-1", a))
    bench.until(lambda: bench.template(a) == ["pvc-1"])
    with pytest.raises(TimedOut, match="to come to rest"):
        engine.publish("pvc-2", a, 0.8)
    engine.unpublish("pvc-2", a)
    assert bench.holder("pvc-2") == ""
    first.result()
    engine.publish("pvc-3", a)
    assert bench.template(a) == ["pvc-1", "pvc-3"]


def test_a_commit_outlives_the_call_that_asked_for_it(bench: Bench) -> None:
    """Once it is under way the patch belongs to no call; the next one finds the disk on its way."""
    a, *_ = bench.machines
    bench.claim("pvc-1")
    engine, deadline = bench.engine(), Deadline(60)
    rule = bench.faults.add(calls("patch", MACHINES), Delay(0.4))
    request = PublishRequest(VolumeId("pvc-1"), NodeId(a), DISK)
    call = Call(lambda: engine.attachments.publish(request, deadline))
    poll(lambda: rule.hits == 1)
    deadline.cancel()
    assert call.error() is not None
    bench.until(lambda: bench.template(a) == ["pvc-1"])
    engine.publish("pvc-1", a)


def test_a_change_of_somebody_else_in_between_is_kept(bench: Bench) -> None:
    """The patch says what it stands on: where a person's disk came meanwhile it is decided anew."""
    a, *_ = bench.machines
    for name in ("pvc-1", "backup"):
        bench.claim(name)
    engine = bench.engine()
    rule = bench.faults.add(calls("patch", MACHINES), Delay(0.4))
    call = Call(lambda: engine.publish("pvc-1", a))
    poll(lambda: rule.hits == 1)
    bench.plug(a, "my-disk", "backup")
    call.result()
    assert bench.template(a) == ["my-disk", "pvc-1"]


def test_a_machines_thread_lives_only_while_there_is_work(bench: Bench) -> None:
    """After the last call has its answer and the machine is at rest nothing runs for it."""
    a, *_ = bench.machines
    bench.claim("pvc-1")
    engine = bench.engine()
    engine.publish("pvc-1", a)
    engine.unpublish("pvc-1", a)
    poll(lambda: f"committer-{a}" not in {thread.name for thread in threading.enumerate()})


def test_a_machine_that_hangs_is_not_looked_at_all_the_time(bench: Bench) -> None:
    """Once it is known to be stuck it is looked at when a watch tells of it, and else as rarely as before."""
    a, *_ = bench.machines
    bench.claim("pvc-1")
    bench.host.pause("handler")
    engine = bench.engine(replace(QUICK, stuck=0.1))
    with pytest.raises(TimedOut):
        engine.publish("pvc-1", a, 2.0)
    assert bench.server.requests.count("get", MACHINES, bench.user) < 15
