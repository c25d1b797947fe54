"""Volumes over the simulated host, with the guest's role: twice, killed anywhere, two processes at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from csi.controller.attachments import Attachments
from csi.controller.claims import HostClaims
from csi.controller.classes import HostClasses
from csi.controller.commits import Commits
from csi.controller.holders import Holders
from csi.controller.host import HostView
from csi.controller.host_attachments import HostAttachments
from csi.controller.machine_ids import MachinesByName
from csi.controller.ownership import Ownership
from csi.controller.volumes import Volumes
from csi.deadline import Deadline
from csi.errors import AlreadyExists, Busy, Exhausted, InUse, InvalidArgument, TimedOut, Unavailable
from csi.model import AccessMode, Capability, CreateRequest, NodeId, PublishRequest, VolumeId
from kube.config import connect, from_kubeconfig
from kube.objects import annotations_of, name_of, uid_of
from kube.resources import CLAIMS
from kube.rest import Limits
from sim.apiserver.faults import Fail, LoseAnswer
from sim.simulation import Simulation
from tests.volumes.killing import Killed, MortalClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kube.client import Client
    from kube.objects import Object
    from kube.rest import RestClient
    from sim.apiserver.calls import Call

GIB = 1 << 30
DISK = Capability(AccessMode.SINGLE_NODE_WRITER, fs_type="ext4")
NOT_FINAL = (Busy, TimedOut, Unavailable)
MOST_CALLS = 20
"""More requests than one call of Volumes makes."""


def request(name: str = "pvc-a", size: int = GIB, limit: int = 0, **parameters: str) -> CreateRequest:
    """Return a CreateVolume request."""
    return CreateRequest(name, size, limit, (DISK,), parameters)


@dataclass
class Process:
    """The controller's volumes and attachments, as one process composes them."""

    volumes: Volumes
    attachments: Attachments

    def create(self, asked: CreateRequest | None = None, seconds: float = 10.0) -> tuple[str, int]:
        """Call CreateVolume; return id and capacity."""
        made = self.volumes.create(asked or request(), Deadline(seconds))
        return made.id, made.capacity

    def delete(self, volume: str = "pvc-a") -> None:
        """Call DeleteVolume."""
        self.volumes.delete(VolumeId(volume), Deadline(10))

    def publish(self, volume: str, machine: str) -> None:
        """Call ControllerPublishVolume."""
        self.attachments.publish(PublishRequest(VolumeId(volume), NodeId(machine), DISK), Deadline(10))

    def unpublish(self, volume: str, machine: str) -> None:
        """Call ControllerUnpublishVolume."""
        self.attachments.unpublish(VolumeId(volume), NodeId(machine), Deadline(10))


class Bench:
    """A simulated host and what tests do there."""

    def __init__(self, simulation: Simulation, connect_as_guest: Callable[[], RestClient]) -> None:
        self.simulation = simulation
        self.namespace = simulation.namespace
        self.client = connect_as_guest()
        self._closing: list[Callable[[], None]] = [self.client.close]

    def process(self, client: Client | None = None, cluster: str = "cluster-1") -> Process:
        """Start one more process; its requests, watches aside, go through `client`."""
        through = client or self.client
        claims, classes = HostClaims(through, self.namespace), HostClasses(through)
        ownership = Ownership(None, cluster)
        view = HostView(self.client, self.namespace, claims)
        holders = Holders(through, claims, classes, ownership)
        commits = Commits(view, holders)
        released = HostAttachments(through, view.changes.patience)
        attachments = Attachments(view, claims, holders, commits, released, MachinesByName(), ownership)
        self._closing[:0] = [commits.close, view.close]
        return Process(Volumes(claims, classes, view, attachments, ownership), attachments)

    def claims(self) -> list[Object]:
        """Return the claims that volumes made: those that are there and do not go."""
        found = self.simulation.admin.list(CLAIMS, self.namespace).items
        return [c for c in found if "disk-0" not in name_of(c) and "deletionTimestamp" not in c["metadata"]]

    def put(self, name: str) -> Object:
        """Make a claim that is none of ours."""
        spec: Object = {
            "accessModes": ["ReadWriteMany"],
            "volumeMode": "Block",
            "resources": {"requests": {"storage": "1Gi"}},
        }
        body: Object = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}}
        self.simulation.admin.create(CLAIMS, {**body, "spec": spec}, self.namespace)
        bound = self.simulation.host.wait_until(lambda: self.phase(name) == "Bound", 10)
        assert bound
        return self.simulation.admin.get(CLAIMS, name, self.namespace)

    def phase(self, name: str) -> str:
        """Return the claim's phase."""
        claim = self.simulation.admin.get(CLAIMS, name, self.namespace)
        return str(claim.get("status", {}).get("phase", ""))

    def close(self) -> None:
        """End all processes."""
        for close in self._closing:
            close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Start a host whose disks are plain files: nobody here looks into a machine's kernel."""
    with Simulation(tmp_path / "host", nodes=1, disks=False) as simulation:
        kubeconfig = from_kubeconfig(tmp_path / "host" / "guest-role.kubeconfig")
        started = Bench(simulation, lambda: connect(kubeconfig, limits=Limits(connect=1.0, answer=2.0)))
        try:
            yield started
        finally:
            simulation.server.faults.clear()
            started.close()


def is_write(verb: str) -> Callable[[Call], bool]:
    """Match the guest's writes of claims."""
    return lambda call: (
        call.verb == verb
        and call.resource is not None
        and call.resource.plural == "persistentvolumeclaims"
        and "serviceaccount" in call.user.name
    )


def test_every_call_may_come_twice(bench: Bench) -> None:
    """A repeated create returns the same volume and makes no second one; a repeated delete is done."""
    process = bench.process()
    assert process.create() == process.create() == ("pvc-a", GIB)
    (claim,) = bench.claims()
    assert uid_of(claim)
    process.delete()
    process.delete()
    assert not bench.claims()


def test_a_name_is_free_again_after_its_volume_is_deleted(bench: Bench) -> None:
    """A new volume of an old name is another incarnation."""
    process = bench.process()
    process.create()
    (first,) = bench.claims()
    process.delete()
    asked_again(process.create)
    (second,) = bench.claims()
    assert uid_of(first) != uid_of(second)


def asked_again(call: Callable[[], object]) -> None:
    """Call until it succeeds, as sidecars do after an error that is not final."""
    pause = threading.Event()
    for _ in range(200):
        try:
            call()
        except NOT_FINAL:
            pause.wait(0.02)
        else:
            return
    pytest.fail("the call never succeeded")


@pytest.mark.parametrize("sent", [False, True], ids=["before-the-call", "after-its-answer"])
def test_a_create_killed_anywhere_is_completed_by_the_next(bench: Bench, sent: bool) -> None:
    """Whatever request was the last of a dead process, asking again makes exactly one volume."""
    for dies_at in range(MOST_CALLS):
        mortal = MortalClient(bench.client, dies_at, sent)
        try:
            bench.process(mortal).create()
        except Killed:
            assert bench.process().create() == ("pvc-a", GIB)
            assert len(bench.claims()) == 1
            asked_again(bench.process().delete)
            assert bench.simulation.host.wait_until(lambda: not bench.claims(), 10)
        else:
            assert dies_at > 2
            return
    pytest.fail("a create makes more calls than are looked at")


@pytest.mark.parametrize("sent", [False, True], ids=["before-the-call", "after-its-answer"])
def test_a_delete_killed_anywhere_is_completed_by_the_next(bench: Bench, sent: bool) -> None:
    """Whatever request was the last of a dead process, asking again leaves nothing."""
    for dies_at in range(MOST_CALLS):
        asked_again(bench.process().create)
        mortal = MortalClient(bench.client, dies_at, sent)
        try:
            bench.process(mortal).delete()
        except Killed:
            asked_again(bench.process().delete)
            assert not bench.claims()
        else:
            assert dies_at > 2
            return
    pytest.fail("a delete makes more calls than are looked at")


def test_two_processes_create_one_volume(bench: Bench) -> None:
    """Of two that create the same volume at once both get it, and there is one."""
    processes = [bench.process() for _ in range(4)]
    barrier = threading.Barrier(4)

    def create(process: Process) -> tuple[str, int]:
        barrier.wait(10)
        return process.create()

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(create, processes)) == {("pvc-a", GIB)}
    assert len(bench.claims()) == 1


def test_a_create_and_a_delete_at_once_leave_all_or_nothing(bench: Bench) -> None:
    """After both have been repeated until they succeeded, a last delete leaves nothing."""
    bench.process().create()
    one, other = bench.process(), bench.process()
    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(asked_again, one.create), pool.submit(asked_again, other.delete)]
        for call in calls:
            call.result(20)
    asked_again(bench.process().delete)
    assert not bench.claims()


@pytest.mark.parametrize("verb", ["create", "delete"])
def test_a_lost_answer_is_not_final_and_is_made_good(bench: Bench, verb: str) -> None:
    """Where nobody knows whether a write took place, the error says call again; the repeat completes it."""
    process = bench.process()
    if verb == "delete":
        process.create()
    bench.simulation.server.faults.add(is_write(verb), LoseAnswer(), 1)
    call = process.create if verb == "create" else process.delete
    with pytest.raises(Unavailable):
        call()
    asked_again(call)
    assert len(bench.claims()) == (1 if verb == "create" else 0)


def test_a_claim_that_is_not_ours_stays_as_it_is(bench: Bench) -> None:
    """Neither create nor delete of its name changes a claim of somebody else."""
    before = bench.put("pvc-a")
    process = bench.process()
    with pytest.raises(AlreadyExists, match="left alone"):
        process.create()
    with pytest.raises(InUse, match="left alone"):
        process.delete()
    assert bench.simulation.admin.get(CLAIMS, "pvc-a", bench.namespace) == before


def test_a_volume_of_another_cluster_stays_as_it_is(bench: Bench) -> None:
    """Two clusters in one namespace do not touch each other's volumes, even of one name."""
    bench.process(cluster="cluster-2").create()
    (before,) = bench.claims()
    process = bench.process()
    with pytest.raises(AlreadyExists, match="left alone"):
        process.create()
    with pytest.raises(InUse, match="left alone"):
        process.delete()
    assert bench.claims() == [before]


def test_an_attached_volume_is_not_deleted(bench: Bench) -> None:
    """A delete names the machine that has the disk, and deletes once it is free."""
    process = bench.process()
    process.create()
    (machine,) = bench.simulation.machines
    process.publish("pvc-a", machine)
    with pytest.raises(InUse, match=machine):
        process.delete()
    process.unpublish("pvc-a", machine)
    asked_again(process.delete)
    assert not bench.claims()


def test_the_same_name_asked_otherwise_is_refused(bench: Bench) -> None:
    """A repeat with another size is ALREADY_EXISTS, and the volume stays."""
    process = bench.process()
    process.create()
    with pytest.raises(AlreadyExists, match="exists with"):
        process.create(request(size=2 * GIB))
    assert len(bench.claims()) == 1


def test_a_claim_is_marked_as_free_and_ours(bench: Bench) -> None:
    """A new claim says whose it is, and that nobody holds it, so that a holder can be tested for."""
    bench.process().create()
    (claim,) = bench.claims()
    marks = annotations_of(claim)
    assert marks["companion.harvesterhci.io/attached-to"] == ""
    assert marks["companion.harvesterhci.io/cluster"] == "cluster-1"


def test_a_missing_class_is_refused_before_anything_is_made(bench: Bench) -> None:
    """The words name the class that was asked for and those that there are."""
    with pytest.raises(InvalidArgument, match=r"gold does not exist; the host has: .*harvester-longhorn"):
        bench.process().create(request(hostStorageClass="gold"))
    assert not bench.claims()


def test_a_volume_that_waits_for_its_consumer_is_answered_at_once(bench: Bench) -> None:
    """On a wait-for-first-consumer class nothing binds before an attach, so nothing is waited for."""
    assert bench.process().create(request(hostStorageClass="lvm")) == ("pvc-a", GIB)
    (claim,) = bench.claims()
    assert claim["status"]["phase"] == "Pending"
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]


def test_a_claim_that_does_not_bind_times_out_in_words(bench: Bench) -> None:
    """The error is not final, and says what can be seen and where the reason stands."""
    bench.simulation.host.pause("claims")
    process = bench.process()
    with pytest.raises(TimedOut, match=r"is Pending, not Bound.*kubectl -n guest-a describe pvc pvc-a"):
        process.create(seconds=0.5)
    bench.simulation.host.resume("claims")
    asked_again(process.create)
    assert len(bench.claims()) == 1


def test_a_used_up_quota_says_so(bench: Bench) -> None:
    """RESOURCE_EXHAUSTED with the host's words; nothing is made."""
    words = 'persistentvolumeclaims "pvc-a" is forbidden: exceeded quota: default, requested: storage=1Gi'
    bench.simulation.server.faults.add(is_write("create"), Fail(403, "Forbidden", words))
    with pytest.raises(Exhausted, match="exceeded quota"):
        bench.process().create()
    assert not bench.claims()
