"""How requests are built."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kube import requests
from kube.client import JsonPatch, MergePatch, Selector
from kube.errors import Invalid
from kube.resources import CLAIMS, CLUSTER_ROLES, NODES, Resource

if TYPE_CHECKING:
    from collections.abc import Callable

    from kube.requests import Request

MACHINES = Resource("kubevirt.io", "v1", "virtualmachines", "VirtualMachine")
HOME = "/api/v1/namespaces/n/persistentvolumeclaims"


def claim(**metadata: str) -> dict[str, dict[str, str]]:
    return {"metadata": metadata}


@pytest.mark.parametrize(
    ("request_", "path"),
    [
        (requests.read(CLAIMS, "c", "n"), f"{HOME}/c"),
        (requests.read(NODES, "k"), "/api/v1/nodes/k"),
        (
            requests.read(CLUSTER_ROLES, "system:node", "ignored"),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node",
        ),
        (requests.read(MACHINES, "a.b-c", "n"), "/apis/kubevirt.io/v1/namespaces/n/virtualmachines/a.b-c"),
        (requests.collect(CLAIMS), "/api/v1/persistentvolumeclaims"),
        (requests.collect(CLAIMS, "n"), HOME),
        (
            requests.collect(CLAIMS, "n", Selector(labels="a=b,c", fields="metadata.name=x"), 50, "to ken"),
            f"{HOME}?labelSelector=a%3Db%2Cc&fieldSelector=metadata.name%3Dx&limit=50&continue=to+ken",
        ),
        (
            requests.follow(CLAIMS, "n", Selector(), "5"),
            f"{HOME}?watch=true&allowWatchBookmarks=true&resourceVersion=5",
        ),
        (requests.create(CLAIMS, claim(name="c"), "n"), HOME),
        (requests.create(CLAIMS, claim(name="c", namespace="n")), HOME),
        (
            requests.replace(CLAIMS, claim(name="c", namespace="n", resourceVersion="1"), "status"),
            f"{HOME}/c/status",
        ),
        (requests.patch(CLAIMS, "c", MergePatch({}), "n", "status"), f"{HOME}/c/status"),
        (requests.delete(CLAIMS, "c", "n"), f"{HOME}/c"),
    ],
)
def test_a_path(request_: Request, path: str) -> None:
    """Each request goes to the place of its kind, object and subresource."""
    assert request_.path == path


def test_a_delete_carries_its_preconditions() -> None:
    """Only what was asked for is a precondition; without any there is no body."""
    both = requests.delete(CLAIMS, "c", "n", uid="u", resource_version="7")
    assert both.body["preconditions"] == {"uid": "u", "resourceVersion": "7"}
    assert requests.delete(CLAIMS, "c", "n", uid="u").body["preconditions"] == {"uid": "u"}
    assert requests.delete(CLAIMS, "c", "n").body is None


def test_a_json_patch_is_a_list() -> None:
    """The library turns any other body into a strategic merge."""
    built = requests.patch(CLAIMS, "c", JsonPatch(({"op": "remove", "path": "/a"},)), "n")
    assert built.body == [{"op": "remove", "path": "/a"}]
    assert built.content_type == "application/json-patch+json"


@pytest.mark.parametrize(
    "build",
    [
        lambda: requests.read(CLAIMS, "c"),
        lambda: requests.read(CLAIMS, "c", ""),
        lambda: requests.delete(CLAIMS, "c", None),
        lambda: requests.create(CLAIMS, claim(name="c")),
        lambda: requests.replace(CLAIMS, claim(name="c", resourceVersion="1")),
        lambda: requests.patch(CLAIMS, "c", MergePatch({})),
    ],
)
def test_one_object_without_its_namespace_is_not_asked_for(build: Callable[[], Request]) -> None:
    """The server would answer 404, which reads as a proof of absence."""
    with pytest.raises(Invalid, match="lives in a namespace"):
        build()


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/", "a?b", "a#b", "a%2f", "a b", "a\n", "ä"])
def test_what_is_no_name_never_becomes_a_path(name: str) -> None:
    """Neither as the name of an object nor as that of a namespace."""
    with pytest.raises(Invalid):
        requests.delete(CLAIMS, name, "n")
    with pytest.raises(Invalid):
        requests.delete(CLAIMS, "c", name)
    with pytest.raises(Invalid):
        requests.collect(CLAIMS, name)


def test_a_blind_put_is_refused() -> None:
    """A PUT without a resourceVersion would overwrite what others wrote."""
    with pytest.raises(Invalid, match="blindly"):
        requests.replace(CLAIMS, claim(name="c", namespace="n"))
