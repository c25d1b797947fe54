"""What goes by itself: dependants of what is gone, and what is in a dying namespace."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Protocol

import pytest

from kube.client import EVERYTHING, MergePatch
from kube.errors import Forbidden, NotFound
from kube.objects import is_terminating, name_of, uid_of
from kube.resources import CLAIMS, CONFIG_MAPS, NAMESPACES
from sim.apiserver.admission import Allowed, Denied
from sim.apiserver.server import ApiServer
from tests.contract.shapes import claim, config_map

from .raw import send

if TYPE_CHECKING:
    from kube.objects import Object
    from kube.resources import Resource
    from kube.rest import RestClient
    from sim.apiserver.admission import AdmissionRequest, Verdict

    from .conftest import Connect

HOME = "default"


class Gone(Protocol):
    """Waits until an object is gone."""

    def __call__(self, resource: Resource, name: str, namespace: str | None = HOME) -> None: ...


@pytest.fixture
def gone(client: RestClient) -> Gone:
    """Return what waits, by a watch, until an object is gone."""

    def wait(resource: Resource, name: str, namespace: str | None = HOME) -> None:
        version = client.list(resource, namespace).resource_version
        watch = client.watch(resource, namespace, EVERYTHING, resource_version=version, read_limit=10.0)
        try:
            try:
                client.get(resource, name, namespace)
            except NotFound:
                return
            next(e for e in watch if e.type == "DELETED" and name_of(e.object) == name)
        finally:
            watch.close()

    return wait


def owned(name: str, *owners: Object) -> Object:
    """Return a config map with owners."""
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": name_of(owner), "uid": uid_of(owner)}
        for owner in owners
    ]
    return config_map(name, ownerReferences=references)


def test_a_dependant_goes_with_its_owner_and_so_on(client: RestClient, gone: Gone) -> None:
    """Ownership is followed down."""
    top = client.create(CONFIG_MAPS, config_map("top"), HOME)
    middle = client.create(CONFIG_MAPS, owned("middle", top), HOME)
    client.create(CONFIG_MAPS, owned("leaf", middle), HOME)
    client.create(CONFIG_MAPS, config_map("other"), HOME)
    client.delete(CONFIG_MAPS, "top", HOME)
    gone(CONFIG_MAPS, "leaf")
    assert [name_of(each) for each in client.list(CONFIG_MAPS, HOME).items] == ["other"]


def test_one_living_owner_is_enough(client: RestClient, gone: Gone) -> None:
    """A dependant goes with the last of its owners."""
    one, two = (client.create(CONFIG_MAPS, config_map(name), HOME) for name in ("one", "two"))
    client.create(CONFIG_MAPS, owned("both", one, two), HOME)
    client.create(CONFIG_MAPS, owned("single", one), HOME)
    client.delete(CONFIG_MAPS, "one", HOME)
    gone(CONFIG_MAPS, "single")
    assert client.get(CONFIG_MAPS, "both", HOME)
    client.delete(CONFIG_MAPS, "two", HOME)
    gone(CONFIG_MAPS, "both")


def test_an_owner_of_the_same_name_is_not_the_owner(client: RestClient, gone: Gone) -> None:
    """Owners are told apart by UID: a dependant of one that is gone already goes at once."""
    first = client.create(CONFIG_MAPS, config_map("a"), HOME)
    client.delete(CONFIG_MAPS, "a", HOME)
    client.create(CONFIG_MAPS, config_map("a"), HOME)
    client.create(CONFIG_MAPS, owned("orphan", first), HOME)
    gone(CONFIG_MAPS, "orphan")


def test_finalizers_hold_a_dependant_too(client: RestClient, gone: Gone) -> None:
    """Collection is a delete like any other: it marks, and who holds the object lets it go."""
    owner = client.create(CONFIG_MAPS, config_map("owner"), HOME)
    reference = owned("x", owner)["metadata"]["ownerReferences"]
    client.create(CLAIMS, claim("held", ownerReferences=reference), HOME)
    client.create(CONFIG_MAPS, owned("free", owner), HOME)
    client.delete(CONFIG_MAPS, "owner", HOME)
    gone(CONFIG_MAPS, "free")
    with closing(client.watch(CLAIMS, HOME, EVERYTHING, resource_version="0")) as watch:
        marked = next(event for event in watch if is_terminating(event.object))
    assert name_of(marked.object) == "held"
    client.patch(CLAIMS, "held", MergePatch({"metadata": {"finalizers": None}}), HOME)
    gone(CLAIMS, "held")


def test_a_namespace_is_emptied_before_it_goes(client: RestClient, gone: Gone) -> None:
    """Its objects are deleted, nothing new is let in, and it waits for what is held."""
    client.create(NAMESPACES, {"metadata": {"name": "n"}})
    client.create(CONFIG_MAPS, config_map("a"), "n")
    client.create(CLAIMS, claim("held"), "n")
    client.delete(NAMESPACES, "n")
    gone(CONFIG_MAPS, "a", "n")
    assert is_terminating(client.get(NAMESPACES, "n"))
    with pytest.raises(Forbidden, match="unable to create new content in namespace n because it is being"):
        client.create(CONFIG_MAPS, config_map("b"), "n")
    client.patch(CLAIMS, "held", MergePatch({"metadata": {"finalizers": None}}), "n")
    gone(NAMESPACES, "n", None)


def test_a_refused_collection_is_tried_again(connect_to: Connect) -> None:
    """A webhook can hold a dependant; the collector asks again, in its own name."""
    users: list[str] = []

    class Twice:
        def review(self, request: AdmissionRequest) -> Verdict:
            if request.operation != "DELETE" or request.name != "leaf":
                return Allowed()
            users.append(request.user)
            return Denied("v", "no") if len(users) < 3 else Allowed()

    with ApiServer(hooks=[Twice()]) as server:
        client = connect_to(server, server.admin_token)
        owner = client.create(CONFIG_MAPS, config_map("owner"), HOME)
        client.create(CONFIG_MAPS, owned("leaf", owner), HOME)
        watch = client.watch(CONFIG_MAPS, HOME, EVERYTHING, resource_version=server.version)
        client.delete(CONFIG_MAPS, "owner", HOME)
        next(e for e in watch if e.type == "DELETED" and name_of(e.object) == "leaf")
        watch.close()
    assert users == ["system:serviceaccount:kube-system:generic-garbage-collector"] * 3


def test_other_ways_to_cascade_are_refused(server: ApiServer, client: RestClient) -> None:
    """What is not simulated says so, and deletes nothing."""
    made = client.create(CONFIG_MAPS, config_map("a"), HOME)
    path = CONFIG_MAPS.path(HOME, "a")
    for policy in ("Orphan", "Foreground"):
        code, answer = send(server, "DELETE", path, {"propagationPolicy": policy})
        assert (code, f"{policy} is not simulated" in answer["message"]) == (400, True)
    assert client.get(CONFIG_MAPS, "a", HOME) == made
