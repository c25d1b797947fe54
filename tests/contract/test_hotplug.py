"""One attach and detach by the host's controllers, on either server: phases, their order, and the webhooks.

The real server asks the webhooks over HTTPS, the in-memory one as hooks; that is set when it starts, so that
it is one of its own here.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from harvester.kinds import INSTANCES, MACHINES
from kube.client import JsonPatch
from kube.config import connect, from_kubeconfig
from kube.errors import NotFound, Refused
from kube.objects import items, name_of, namespace_of, text
from kube.resources import CLAIMS, CLUSTER_ROLE_BINDINGS, NAMESPACES, VOLUMES
from sim.apiserver.server import ApiServer
from sim.host import world
from sim.host.admission import Admission
from sim.host.disks import GuestDisks, Images, PlainFiles
from sim.host.host import Host
from sim.host.releases import release
from sim.host.seed import seed
from sim.host.webhook import registered
from tests.contract.conftest import ACCOUNT
from tests.support.onhost import OnHost
from tests.support.watching import history, in_order

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kube.objects import Object
    from kube.resources import Resource
    from kube.rest import RestClient
    from tests.contract.conftest import Api

RELEASE = release("1.9")
ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Bench:
    """A host that runs, and an outsider who may change instances as far as the roles go."""

    on_host: OnHost
    outsider: RestClient
    machines: tuple[str, ...]


@pytest.fixture
def bench(api: Api, tmp_path: Path) -> Iterator[Bench]:
    """Run a host with two machines on the server that the environment asks for, and tidy up after it."""
    admission = Admission(controllers=ADMIN)
    with contextlib.ExitStack() as stack:
        if api.real:
            clients = api.client, api.connect(ACCOUNT.token)
        else:
            clients = in_memory(stack, admission, tmp_path)
        what = world.World(namespace=api.namespace, machines=2)
        objects = [*world.objects(what, RELEASE), (CLUSTER_ROLE_BINDINGS, outsiders_rights())]
        seed(clients[0], objects)
        stack.callback(clear, clients[0], objects)
        host = started(stack, clients[0], tmp_path, what, admission)
        on_host = OnHost(clients[0], api.namespace, host)
        stack.callback(end_machines, on_host, what)
        on_host.until(lambda: all(host.phase(machine) == "Running" for machine in what.machine_names))
        if api.real:
            stack.enter_context(registered(clients[0], admission.webhooks))
        yield Bench(on_host, clients[1], what.machine_names)


def in_memory(
    stack: contextlib.ExitStack, admission: Admission, directory: Path
) -> tuple[RestClient, RestClient]:
    """Start an in-memory server with the hooks; return the administrator's client and the outsider's."""
    server = stack.enter_context(ApiServer(hooks=[admission]))
    server.add_user(ACCOUNT.name, ACCOUNT.token, ACCOUNT.groups)
    clients: list[RestClient] = []
    for token in (server.admin_token, ACCOUNT.token):
        path = directory / f"{len(clients)}.kubeconfig"
        path.write_text(server.kubeconfig(token))
        clients.append(connect(from_kubeconfig(path)))
        stack.callback(clients[-1].close)
    return clients[0], clients[1]


def started(
    stack: contextlib.ExitStack, client: RestClient, directory: Path, what: world.World, admission: Admission
) -> Host:
    """Start the controllers."""
    disks, images = GuestDisks(directory / "nodes", PlainFiles()), Images(directory / "volumes")
    host = Host(client, disks, images, namespace=what.namespace, hosts=what.hosts, admission=admission)
    stack.callback(host.stop)
    host.start()
    return host


def outsiders_rights() -> Object:
    """Let the outsider do everything that roles can grant."""
    group = "rbac.authorization.k8s.io"
    _, _, namespace, name = ACCOUNT.name.split(":")
    return {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "outsider"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": name}],
    }


def end_machines(on_host: OnHost, what: world.World) -> None:
    """Delete the machines and their claims while there is somebody to let them go."""
    for machine in what.machine_names:
        on_host.host.delete_machine(machine)
    on_host.until(lambda: not on_host.api.list(MACHINES, on_host.namespace).items)
    for claim in on_host.api.list(CLAIMS, on_host.namespace).items:
        on_host.drop(name_of(claim))
    on_host.until(lambda: not volumes(on_host))


def volumes(on_host: OnHost) -> list[Object]:
    """Return the volumes of the guest's claims."""
    found = on_host.api.list(VOLUMES).items
    return [volume for volume in found if text(volume, "spec", "claimRef", "namespace") == on_host.namespace]


def clear(client: RestClient, objects: list[tuple[Resource, Object]]) -> None:
    """Delete what was seeded; namespaces stay, since nothing would empty them."""
    for resource, obj in reversed(objects):
        if resource != NAMESPACES:
            with contextlib.suppress(NotFound):
                client.delete(resource, name_of(obj), namespace_of(obj) or None)


def volume_a(instance: Object) -> tuple[str, str, bool] | None:
    """Return (phase, target, has a pod's UID) of volume `a`, None without an entry."""
    for entry in items(instance, "status", "volumeStatus"):
        if text(entry, "name") == "a":
            uid = text(entry, "hotplugVolume", "attachPodUID")
            return text(entry, "phase"), text(entry, "target"), bool(uid)
    return None


def test_a_disk_comes_and_goes(bench: Bench) -> None:
    """A claim is bound, plugged by every phase in order, unplugged likewise, and deleted with its volume."""
    on_host, machine = bench.on_host, bench.machines[0]
    volume = on_host.bound("a")
    with history(on_host.api, INSTANCES, on_host.namespace, volume_a) as seen:
        on_host.plugged(machine, "a")
        assert on_host.attached("a") == ["host-1"]
        on_host.unplugged(machine, "a")
        on_host.until(lambda: in_order(seen, ("Ready", "sda", True), None))
    coming = (("AttachedToNode", "", False), ("AttachedToNode", "", True), ("MountedToPod", "", True))
    going = (("Ready", "", True), ("UnMountedFromPod", "", True), ("Detaching", "", True))
    assert in_order(seen, *coming, ("Ready", "sda", True), *going, None)
    assert on_host.pods() == {}
    on_host.drop("a")
    on_host.until(lambda: on_host.host.cache.volume(volume) is None)


def test_the_webhooks_refuse_in_the_hosts_words(bench: Bench) -> None:
    """Each refusal has the code and the words of Harvester 1.9, and names the webhook that said no."""
    on_host, (one, two) = bench.on_host, bench.machines
    on_host.bound("a")
    on_host.plugged(one, "a")
    harvester, machines = "validator.harvesterhci.io", "virtualmachine-validator.kubevirt.io"
    with pytest.raises(Refused, match="is already used by other VM") as refused:
        on_host.plug(two, "a")
    assert (refused.value.code, refused.value.webhook) == (422, harvester)
    with pytest.raises(Refused, match=f"attached to VM: {on_host.namespace}/{one}") as refused:
        on_host.drop("a")
    assert (refused.value.code, refused.value.webhook) == (409, harvester)
    with pytest.raises(Refused, match='"gold" not found') as refused:
        on_host.claim("b", storage_class="gold")
    assert (refused.value.code, refused.value.webhook) == (500, harvester)
    with pytest.raises(Refused, match="DNS_LABEL") as refused:
        on_host.plug(one, "a.b")
    assert (refused.value.code, refused.value.webhook) == (422, machines)
    spec = JsonPatch([{"op": "remove", "path": "/spec/volumes/0"}])
    with pytest.raises(Refused, match="update of VMI object is restricted") as refused:
        bench.outsider.patch(INSTANCES, one, spec, on_host.namespace)
    assert refused.value.code == 422
