"""Patches: what they do, and how they fail. Each rule was read from a real server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kube import json_patch
from kube.client import JsonPatch, MergePatch
from kube.errors import Conflict, Invalid, NotFound
from kube.objects import dig, mapping, version_of
from kube.resources import CLAIMS, CONFIG_MAPS, NODES, SERVICES

from .shapes import GADGETS, WIDGETS, claim, config_map, gadget, widget

if TYPE_CHECKING:
    from kube.objects import Json, Object

    from .conftest import Api

LOST = "the server rejected our request due to an error in our request"
STRATEGIC = "application/strategic-merge-patch+json"


@pytest.fixture
def spec(api: Api, widgets: None) -> Object:
    """Make a gadget, whose spec any JSON may be, and return it."""
    del widgets
    made: Object = {"a": 1, "list": [1, 2, 3], "map": {"x": {"y": "z"}}, "null": None}
    api.client.create(GADGETS, gadget("g", spec=made), api.namespace)
    return made


@pytest.mark.parametrize(
    ("operations", "changes"),
    [
        pytest.param([{"op": "add", "path": "/spec/b", "value": 2}], {"b": 2}, id="add-member"),
        pytest.param([{"op": "add", "path": "/spec/a", "value": 2}], {"a": 2}, id="add-over"),
        pytest.param(
            [{"op": "add", "path": "/spec/list/-", "value": 4}], {"list": [1, 2, 3, 4]}, id="append"
        ),
        pytest.param(
            [{"op": "add", "path": "/spec/list/3", "value": 4}], {"list": [1, 2, 3, 4]}, id="at-end"
        ),
        pytest.param(
            [{"op": "add", "path": "/spec/list/0", "value": 0}], {"list": [0, 1, 2, 3]}, id="insert"
        ),
        pytest.param([{"op": "remove", "path": "/spec/list/1"}], {"list": [1, 3]}, id="remove-element"),
        pytest.param([{"op": "remove", "path": "/spec/list/-1"}], {"list": [1, 2]}, id="remove-last"),
        pytest.param([{"op": "replace", "path": "/spec/new", "value": 1}], {"new": 1}, id="replace-missing"),
        pytest.param([{"op": "test", "path": "/spec/nope", "value": None}], {}, id="test-missing-is-null"),
        pytest.param([{"op": "test", "path": "/spec/list", "value": [1, 2, 3]}], {}, id="test-list"),
        pytest.param(
            [{"op": "move", "from": "/spec/map/x", "path": "/spec/x"}],
            {"map": {}, "x": {"y": "z"}},
            id="move",
        ),
        pytest.param([{"op": "copy", "from": "/spec/a", "path": "/spec/b"}], {"b": 1}, id="copy"),
        pytest.param([{"op": "add", "path": "/spec/s~1l~0t", "value": 1}], {"s/l~t": 1}, id="escapes"),
        pytest.param([], {}, id="nothing"),
    ],
)
def test_a_json_patch_applies(api: Api, spec: Object, operations: list[Object], changes: Object) -> None:
    """What RFC 6902 says, and what kube-apiserver makes of it where it is more lenient."""
    patched = api.client.patch(GADGETS, "g", JsonPatch(operations), api.namespace)
    assert patched["spec"] == {**spec, **changes}


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param({"op": "test", "path": "/spec/a", "value": 2}, id="test-differs"),
        pytest.param({"op": "test", "path": "/spec/a", "value": 1.0}, id="test-float-for-int"),
        pytest.param({"op": "test", "path": "/spec/nope/x", "value": None}, id="test-missing-parent"),
        pytest.param({"op": "test", "path": "/spec/list/7", "value": None}, id="test-beyond-the-end"),
        pytest.param({"op": "remove", "path": "/spec/nope"}, id="remove-missing"),
        pytest.param({"op": "remove", "path": "/spec/list/7"}, id="remove-beyond-the-end"),
        pytest.param({"op": "replace", "path": "/spec/list/7", "value": 1}, id="replace-beyond-the-end"),
        pytest.param({"op": "replace", "path": "/spec/nope/x", "value": 1}, id="replace-missing-parent"),
        pytest.param({"op": "add", "path": "/spec/nope/x", "value": 1}, id="add-missing-parent"),
        pytest.param({"op": "add", "path": "/spec/list/9", "value": 1}, id="add-beyond-the-end"),
        pytest.param({"op": "bogus", "path": "/spec/a", "value": 1}, id="no-such-operation"),
    ],
)
def test_a_json_patch_that_does_not_apply_changes_nothing(api: Api, spec: Object, operation: Object) -> None:
    """All ways to fail have one answer, a 422 in words that name none of them, and nothing is written."""
    before = {"op": "add", "path": "/spec/before", "value": 1}
    with pytest.raises(Conflict, match=LOST) as caught:
        api.client.patch(GADGETS, "g", JsonPatch([before, operation]), api.namespace)
    assert caught.value.code == 422
    assert api.client.get(GADGETS, "g", api.namespace)["spec"] == spec


def test_a_json_patch_is_a_list(api: Api) -> None:
    """Anything else is malformed, which is told apart from a lost test."""
    api.client.create(CONFIG_MAPS, config_map("a"), api.namespace)
    path, form = CONFIG_MAPS.path(api.namespace, "a"), "application/json-patch+json"
    assert api.send("PATCH", path, {"op": "remove"}, form=form).code == 400


def test_a_test_guards_a_builtin_kind_too(api: Api) -> None:
    """An annotation is set only where it is still missing; empty maps count as missing in typed objects."""
    api.client.create(CLAIMS, claim("a", annotations={}), api.namespace)
    mark = [
        json_patch.test("/metadata/annotations", None),
        json_patch.add("/metadata/annotations", {"m": "1"}),
    ]
    first = api.client.patch(CLAIMS, "a", JsonPatch(mark), api.namespace)
    assert mapping(first, "metadata", "annotations") == {"m": "1"}
    with pytest.raises(Conflict, match=LOST):
        api.client.patch(CLAIMS, "a", JsonPatch(mark), api.namespace)
    emptied = api.client.patch(
        CLAIMS, "a", JsonPatch([json_patch.remove("/metadata/annotations/m")]), api.namespace
    )
    assert "annotations" not in emptied["metadata"]
    stale = json_patch.test("/metadata/resourceVersion", version_of(first))
    with pytest.raises(Conflict, match=LOST):
        api.client.patch(CLAIMS, "a", JsonPatch([stale]), api.namespace)


def test_a_merge_patch_merges_maps_and_replaces_the_rest(api: Api, spec: Object) -> None:
    """Maps merge, null removes, lists and scalars are replaced."""
    body = {"spec": {"map": {"x": {"y": None, "n": 1}}, "list": [9], "a": None, "new": {"k": None, "v": 1}}}
    patched = api.client.patch(GADGETS, "g", MergePatch(body), api.namespace)
    wanted = {**spec, "map": {"x": {"n": 1}}, "list": [9], "new": {"v": 1}}
    del wanted["a"]
    assert patched["spec"] == wanted


def test_a_merge_patch_with_a_version_is_of_that_version(api: Api) -> None:
    """A stale resourceVersion in a merge patch is a conflict; the present one is not."""
    made = api.client.create(CONFIG_MAPS, config_map("a"), api.namespace)

    def patch(version: str, value: str) -> Object:
        body = {"metadata": {"resourceVersion": version}, "data": {"x": value}}
        return api.client.patch(CONFIG_MAPS, "a", MergePatch(body), api.namespace)

    patch(version_of(made), "1")
    with pytest.raises(Conflict, match="the object has been modified"):
        patch(version_of(made), "2")
    assert dig(api.client.get(CONFIG_MAPS, "a", api.namespace), "data", "x") == "1"


def test_a_missing_object_cannot_be_patched(api: Api) -> None:
    """It is answered with 404, whatever the patch would do."""
    with pytest.raises(NotFound, match='configmaps "a" not found'):
        api.client.patch(CONFIG_MAPS, "a", JsonPatch([json_patch.remove("/nope")]), api.namespace)


def test_a_patch_is_named_by_its_media_type(api: Api, widgets: None) -> None:
    """Plain JSON is no patch, and custom kinds know no strategic merge."""
    del widgets
    api.client.create(WIDGETS, widget("a"), api.namespace)
    path = WIDGETS.path(api.namespace, "a")
    for form in ("application/json", STRATEGIC):
        assert api.send("PATCH", path, {"spec": {"size": 2}}, form=form).code == 415


def test_a_strategic_patch_merges_lists_by_their_key(api: Api) -> None:
    """Conditions of a Node merge by type, as a kubelet or a cloud provider sends them."""
    ready, full = {"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "False"}
    api.client.create(NODES, {"metadata": {"name": api.namespace}})
    path = NODES.path(name=api.namespace, subresource="status")

    def conditions(*sent: Json) -> list[tuple[str, str, str]]:
        patched = api.send("PATCH", path, {"status": {"conditions": list(sent)}}, form=STRATEGIC).body
        return [(c["type"], c["status"], c.get("reason", "")) for c in patched["status"]["conditions"]]

    assert conditions(ready) == [("Ready", "True", "")]
    assert conditions(full) == [("DiskPressure", "False", ""), ("Ready", "True", "")]
    expected = [("DiskPressure", "False", ""), ("Ready", "True", "Because")]
    assert conditions({"type": "Ready", "reason": "Because"}) == expected
    assert conditions({"type": "Ready", "$patch": "delete"}) == expected[:1]
    api.client.delete(NODES, api.namespace)


def test_a_strategic_patch_of_a_service(api: Api) -> None:
    """Ports merge by number, in the patch's order; finalizers add up; a directive removes."""
    ports = [{"name": "a", "port": 80}, {"name": "c", "port": 82}]
    api.client.create(SERVICES, {"metadata": {"name": "s"}, "spec": {"ports": ports}}, api.namespace)
    path = SERVICES.path(api.namespace, "s")

    def patch(body: Json) -> Object:
        patched: Object = api.send("PATCH", path, body, form=STRATEGIC).body
        return patched

    more = patch({"spec": {"ports": [{"name": "b", "port": 81}, {"name": "aa", "port": 80}]}})
    assert [(p["name"], p["port"]) for p in more["spec"]["ports"]] == [("b", 81), ("aa", 80), ("c", 82)]
    for finalizer in ("example.test/x", "example.test/y"):
        more = patch({"metadata": {"finalizers": [finalizer]}})
    assert sorted(more["metadata"]["finalizers"]) == ["example.test/x", "example.test/y"]
    fewer = patch({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.test/x"]}})
    assert fewer["metadata"]["finalizers"] == ["example.test/y"]
    patch({"metadata": {"finalizers": None}})


def test_an_invalid_outcome_is_no_conflict(api: Api, widgets: None) -> None:
    """A patch that applies but breaks the schema is Invalid, with the field in the words."""
    del widgets
    api.client.create(WIDGETS, widget("a"), api.namespace)
    wrong = JsonPatch([json_patch.add("/spec/size", "large")])
    with pytest.raises(Invalid, match=r"spec.size in body must be of type integer"):
        api.client.patch(WIDGETS, "a", wrong, api.namespace)
