"""A simulation as a whole: what it writes, what a guest may do, and that nothing is left of it."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from harvester.kinds import INSTANCES, MACHINES, SETTINGS
from kube.client import MergePatch, Selector
from kube.config import connect, from_kubeconfig
from kube.errors import Forbidden
from kube.objects import name_of, text, version_of
from kube.resources import CLAIMS, NAMESPACES, NODES, PODS, STORAGE_CLASSES, VOLUME_ATTACHMENTS, VOLUMES
from sim.host import loops, words
from sim.host.host import WATCHED
from sim.host.profile import INSTANT, REALISTIC, Profile
from sim.simulation import MARKER, Simulation
from tests.support.onhost import OnHost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kube.rest import RestClient

ONE, TWO = "guest-a-node-1", "guest-a-node-2"
ROOT = os.geteuid() == 0


@pytest.fixture(scope="module")
def role(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestClient]:
    """Return a client with the guest's kubeconfig of a host that the tests of its rights share."""
    directory = tmp_path_factory.mktemp("host")
    with Simulation(directory, nodes=1, disks=False):
        client = connect(from_kubeconfig(directory / "guest-role.kubeconfig"))
        yield client
        client.close()


def test_kubeconfigs_are_private_and_name_the_namespace(simulation: Simulation) -> None:
    """Tokens can be read by the owner only, and kubectl needs no --namespace."""
    for path in simulation.directory.glob("*.kubeconfig"):
        assert path.stat().st_mode & 0o777 == 0o600
    guest = from_kubeconfig(simulation.directory / "guest-role.kubeconfig")
    assert (guest.server, guest.namespace) == (simulation.server.url, "guest-a")


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda role: role.list(MACHINES, "guest-a"), id="machines-at-home"),
        pytest.param(lambda role: role.list(INSTANCES, "guest-a"), id="instances-at-home"),
        pytest.param(lambda role: role.list(PODS, "guest-a"), id="pods-at-home"),
        pytest.param(lambda role: role.list(CLAIMS, "guest-a"), id="claims-at-home"),
        pytest.param(lambda role: role.list(STORAGE_CLASSES), id="classes"),
        pytest.param(lambda role: role.list(VOLUME_ATTACHMENTS), id="attachments"),
        pytest.param(lambda role: role.get(SETTINGS, "server-version"), id="server-version"),
        pytest.param(lambda role: role.get(SETTINGS, "csi-driver-config"), id="csi-driver-config"),
        pytest.param(
            lambda role: role.list(SETTINGS, selector=Selector(fields="metadata.name=csi-driver-config")),
            id="one-setting-by-list",
        ),
        pytest.param(
            lambda role: role.patch(MACHINES, ONE, MergePatch({"spec": {}}), "guest-a"), id="patch-a-machine"
        ),
    ],
)
def test_a_guest_may(role: RestClient, call: Callable[[RestClient], object]) -> None:
    """The role of a Harvester 1.9 guest grants what a driver needs."""
    call(role)


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda role: role.list(MACHINES), id="machines-anywhere"),
        pytest.param(lambda role: role.list(CLAIMS, "default"), id="claims-elsewhere"),
        pytest.param(lambda role: role.list(VOLUMES), id="volumes"),
        pytest.param(lambda role: role.list(NODES), id="nodes"),
        pytest.param(lambda role: role.list(NAMESPACES), id="namespaces"),
        pytest.param(lambda role: role.list(SETTINGS), id="all-settings"),
        pytest.param(lambda role: role.delete(MACHINES, ONE, "guest-a"), id="delete-a-machine"),
        pytest.param(
            lambda role: role.patch(INSTANCES, ONE, MergePatch({"spec": {}}), "guest-a"),
            id="patch-an-instance",
        ),
        pytest.param(lambda role: role.list(words.MIGRATIONS, "guest-a"), id="migrations"),
    ],
)
def test_a_guest_may_not(role: RestClient, call: Callable[[RestClient], object]) -> None:
    """What the role does not name is forbidden."""
    with pytest.raises(Forbidden):
        call(role)


def test_a_host_at_rest_writes_nothing(simulation: Simulation, on_host: OnHost) -> None:
    """With all machines running the controllers have nothing to do: what is looked at again stays as it
    is."""
    on_host.bound("a")
    on_host.plugged(ONE, "a")

    on_host.bound("b")
    before = versions(simulation)
    simulation.host.look_again()
    on_host.plugged(
        TWO, "b"
    )  # each controller takes its keys in order, so it has looked at all others by then
    after = versions(simulation)
    assert {key: after.get(key) for key in before} == before


def versions(simulation: Simulation) -> dict[tuple[str, str], str]:
    """Return the resourceVersion of every object that is not the second machine's."""
    return {
        (kind.plural, name_of(obj)): version_of(obj)
        for kind in WATCHED
        for obj in simulation.admin.list(kind).items
        if name_of(obj) != TWO
    }


def test_nothing_is_left(tmp_path: Path) -> None:
    """After the end there is no thread and no loop device of the simulation, with disks plugged in."""
    before = set(threading.enumerate())
    with Simulation(tmp_path / "host", nodes=1) as simulation:
        on_host = OnHost(simulation.admin, simulation.namespace, simulation.host)
        on_host.bound("a")
        on_host.plugged(ONE, "a")
    assert {thread.name for thread in threading.enumerate() if thread not in before} == set()
    if ROOT:
        assert loops.drained(tmp_path)


def test_without_loop_devices_a_disk_is_a_link(tmp_path: Path) -> None:
    """Without root the machine's device is the image itself; the sysfs entries are the same."""
    with Simulation(tmp_path / "host", nodes=1, disks=False) as simulation:
        on_host = OnHost(simulation.admin, simulation.namespace, simulation.host)
        volume = on_host.bound("a")
        on_host.plugged(ONE, "a")
        root = simulation.node_root(ONE)
        assert (root / "dev/sda").resolve() == (tmp_path / f"host/volumes/{volume}.img").resolve()
        assert (root / "sys/block/sda/device/vpd_pg83").read_bytes().endswith(b"drive-ua-a")


@pytest.mark.kernel
@pytest.mark.skipif(not ROOT, reason="needs root")
def test_what_a_crash_left_is_cleared_away(tmp_path: Path) -> None:
    """A new simulation in the directory of one that was killed releases its loop devices and images."""
    image = tmp_path / "host/volumes/pvc-old.img"
    image.parent.mkdir(parents=True)
    (tmp_path / "host" / MARKER).touch()  # what says that the directory was a simulation's
    image.write_bytes(bytes(1 << 20))
    loops.attach(image)
    with Simulation(tmp_path / "host", nodes=1):
        assert loops.drained(tmp_path)
        assert not image.exists()


def test_an_unknown_release_is_refused(tmp_path: Path) -> None:
    """Only what is simulated can be asked for; the words name it."""
    with pytest.raises(ValueError, match=r"Harvester 1\.3 is not simulated; there are 1\.9"):
        Simulation(tmp_path, harvester="1.3")


def test_machines_run_at_once_and_delays_count_afterwards(tmp_path: Path) -> None:
    """Even with slow machines the block begins with all of them running; then the profile holds."""
    with Simulation(tmp_path / "host", nodes=1, profile=Profile(boot=3600, pod_start=3600)) as simulation:
        on_host = OnHost(simulation.admin, simulation.namespace, simulation.host)
        on_host.bound("a")
        on_host.plug(ONE, "a")
        on_host.until(lambda: on_host.phase(ONE, "a") == "AttachedToNode")
        (pod,) = on_host.pods()
        shown = simulation.admin.get(PODS, pod, simulation.namespace)
        assert text(shown, "status", "phase") == "Pending"
        simulation.host.profile = INSTANT
        on_host.until(lambda: on_host.phase(ONE, "a") == "Ready")


def test_a_profile_is_scaled() -> None:
    """All delays of a profile are multiplied."""
    assert REALISTIC.scaled(0.5) == Profile(bind=0.5, pod_start=1.5, detach=1.0, boot=2.5, migrate=2.0)
