"""Custom kinds, their schemas and versions, and what the server says about all kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kube.client import MergePatch
from kube.errors import Invalid, NotFound
from kube.objects import items, mapping, name_of, text
from kube.resources import CRDS, Resource

from .shapes import DEFINITIONS, FREE, GADGETS, WIDGETS, definition, gadget, served, widget

if TYPE_CHECKING:
    from kube.objects import Json, Object

    from .conftest import Api

pytestmark = pytest.mark.usefixtures("widgets")


def spec(**fields: Json) -> Object:
    """Return a widget with these fields in its spec."""
    made = widget("a")
    return {**made, "spec": {**made["spec"], **fields}}


def test_unknown_fields_are_dropped(api: Api) -> None:
    """What the schema does not know goes, unless the schema says that it is kept."""
    sent = {**spec(junk=1, free={"any": [1]}, tags={"t": "u"}, parts=[{"name": "p", "junk": 1}]), "junk": 1}
    made = api.client.create(WIDGETS, sent, api.namespace)
    assert made["spec"] == {"size": 1, "free": {"any": [1]}, "tags": {"t": "u"}, "parts": [{"name": "p"}]}
    assert "junk" not in made
    kept = api.client.create(GADGETS, gadget("a", junk={"any": [1, None]}), api.namespace)
    assert kept["junk"] == {"any": [1, None]}


@pytest.mark.parametrize(
    ("sent", "cause"),
    [
        pytest.param({**widget("a"), "spec": None}, "spec: Required value", id="null-is-missing"),
        pytest.param({**widget("a"), "spec": {}}, "spec.size: Required value", id="missing"),
        pytest.param(
            spec(size="1"),
            'spec.size: Invalid value: "string": spec.size in body must be of type integer',
            id="type",
        ),
        pytest.param(
            spec(size=True),
            'spec.size: Invalid value: "boolean": spec.size in body must be of type',
            id="no-integer",
        ),
        pytest.param(spec(parts=[{}]), "spec.parts[0].name: Required value", id="in-a-list"),
        pytest.param(
            spec(mode="odd"),
            'spec.mode: Unsupported value: "odd": supported values: "fast", "slow"',
            id="enum",
        ),
        pytest.param(
            spec(parts=[{"name": "p"}] * 3),
            "spec.parts: Too many: 3: must have at most 2 items",
            id="too-many",
        ),
    ],
)
def test_a_wrong_field_is_named(api: Api, sent: Object, cause: str) -> None:
    """A create and an update are refused alike, with the field and the rule in the words."""
    with pytest.raises(Invalid) as caught:
        api.client.create(WIDGETS, sent, api.namespace)
    assert caught.value.code == 422
    assert caught.value.message.startswith('Widget.example.test "a" is invalid: ')
    assert cause in caught.value.message
    api.client.create(WIDGETS, widget("a"), api.namespace)
    with pytest.raises(Invalid) as caught:
        api.client.patch(
            WIDGETS, "a", MergePatch({"spec": sent["spec"] or None} | _size(sent)), api.namespace
        )
    assert cause in caught.value.message


def _size(sent: Object) -> Object:
    """Return what removes the size: a merge patch keeps what it does not name."""
    return {"spec": {"size": None}} if sent["spec"] == {} else {}


def test_status_is_apart_where_the_definition_says_so(api: Api) -> None:
    """With the subresource a status is written by /status only, and that writes nothing else."""
    api.client.create(WIDGETS, {**widget("a"), "status": {"x": 1}}, api.namespace)
    status = MergePatch({"status": {"x": 1}, "spec": {"size": 2}, "metadata": {"labels": {"l": "m"}}})
    written = api.client.patch(WIDGETS, "a", status, api.namespace, "status")
    assert (written["status"], written["spec"]) == ({"x": 1}, {"size": 1})
    assert "labels" not in written["metadata"]
    erased = api.client.replace(WIDGETS, {key: value for key, value in written.items() if key != "status"})
    assert erased["status"] == {"x": 1}


def test_without_the_subresource_a_put_can_erase_the_status(api: Api) -> None:
    """A status is a field like any other: there is no /status, and who drops it has erased it."""
    made = api.client.create(GADGETS, gadget("a", status={"x": 1}), api.namespace)
    assert made["status"] == {"x": 1}
    with pytest.raises(NotFound, match='"a" not found'):
        api.client.patch(GADGETS, "a", MergePatch({"status": {}}), api.namespace, "status")
    erased = api.client.replace(GADGETS, {key: value for key, value in made.items() if key != "status"})
    assert "status" not in erased
    assert erased["metadata"]["generation"] == 2


def test_a_custom_object_needs_its_kind_and_its_version(api: Api) -> None:
    """A PUT without a version, and an object without its kind, are refused."""
    made = api.client.create(WIDGETS, widget("a"), api.namespace)
    unversioned = {**made, "metadata": {"name": "a", "namespace": api.namespace}}
    answer = api.send("PUT", WIDGETS.path(api.namespace, "a"), unversioned)
    assert answer.code == 422
    assert "metadata.resourceVersion" in text(answer.body, "message")
    unnamed = api.send("POST", WIDGETS.path(api.namespace), {"metadata": {"name": "b"}, "spec": {"size": 1}})
    assert unnamed.code == 400
    assert "Object 'Kind' is missing" in text(unnamed.body, "message")


def test_a_definition_is_established(api: Api) -> None:
    """Its conditions say when its kind is served."""
    stored = api.client.get(CRDS, name_of(DEFINITIONS[0]))
    conditions = {text(each, "type"): text(each, "status") for each in items(stored, "status", "conditions")}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    assert mapping(stored, "status", "acceptedNames")["kind"] == "Widget"


def test_discovery_lists_groups_versions_and_kinds(api: Api) -> None:
    """A client finds every kind with its verbs, and the preferred version of its group."""
    groups = {text(each, "name"): each for each in api.send("GET", "/apis").body["groups"]}
    assert {"storage.k8s.io", "rbac.authorization.k8s.io", "coordination.k8s.io"} <= groups.keys()
    ours = groups["example.test"]
    assert [text(each, "version") for each in ours["versions"]] == ["v1", "v1beta1"]
    assert text(ours, "preferredVersion", "groupVersion") == "example.test/v1"
    listed = api.send("GET", "/apis/example.test/v1").body
    kinds = {text(each, "name"): each for each in listed["resources"]}
    assert kinds.keys() == {"widgets", "widgets/status", "gadgets"}
    assert set(kinds["widgets"]["verbs"]) >= {"create", "delete", "get", "list", "patch", "update", "watch"}
    core = {text(each, "name"): each for each in api.send("GET", "/api/v1").body["resources"]}
    assert core["persistentvolumeclaims"]["shortNames"] == ["pvc"]
    assert core["nodes"]["namespaced"] is False


def test_a_definition_that_goes_takes_its_kind_along(api: Api) -> None:
    """Afterwards the kind is not served; made again, it has none of the old objects."""
    resource = Resource("gone.test", "v1", "things", "Thing")
    sent = definition(resource, served("v1", FREE))

    def status(wanted: int) -> None:
        for _ in range(200):
            if api.send("GET", resource.path(api.namespace)).code == wanted:
                return
        pytest.fail(f"not {wanted}")

    thing = {"apiVersion": "gone.test/v1", "kind": "Thing", "metadata": {"name": "a"}}
    api.client.create(CRDS, sent)
    status(200)
    api.client.create(resource, thing, api.namespace)
    api.client.delete(CRDS, resource.qualified)
    status(404)
