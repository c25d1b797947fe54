"""What becomes of objects that are created, replaced and deleted."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from kube.client import MergePatch
from kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound
from kube.objects import dig, is_terminating, mapping, name_of, strings, text, uid_of, version_of
from kube.resources import CLAIMS, CONFIG_MAPS, NODES, PODS, STORAGE_CLASSES, VOLUMES

from .shapes import WIDGETS, claim, config_map, pod, widget

if TYPE_CHECKING:
    from kube.objects import Json, Object

    from .conftest import Api

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
PROTECTION = "kubernetes.io/pvc-protection"


def release(api: Api, name: str) -> Object:
    """Take all finalizers off a claim."""
    return api.client.patch(CLAIMS, name, MergePatch({"metadata": {"finalizers": None}}), api.namespace)


def test_a_new_object_gets_what_is_the_servers_to_give(api: Api) -> None:
    """The server sets uid, version and time of creation, whatever a client says about them."""
    sent = config_map("a", uid="mine", creationTimestamp="2001-01-01T00:00:00Z", generation=7)
    made = api.client.create(CONFIG_MAPS, sent, api.namespace)
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", uid_of(made))
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", text(made, "metadata", "creationTimestamp"))
    assert not text(made, "metadata", "creationTimestamp").startswith("2001")
    assert version_of(made).isdigit()
    assert api.client.get(CONFIG_MAPS, "a", api.namespace) == made


def test_a_generated_name_begins_as_asked(api: Api) -> None:
    """With generateName the server completes the name, each time anew."""
    sent: Object = {"metadata": {"generateName": "job-"}}
    names = {name_of(api.client.create(CONFIG_MAPS, sent, api.namespace)) for _ in range(3)}
    assert len(names) == 3
    assert all(re.fullmatch(r"job-[a-z0-9]{5}", name) for name in names)


def test_a_name_is_taken_once(api: Api) -> None:
    """A second create of a name is answered with AlreadyExists, and the first object stays."""
    first = api.client.create(CONFIG_MAPS, config_map("a", {"x": "1"}), api.namespace)
    with pytest.raises(AlreadyExists, match='configmaps "a" already exists'):
        api.client.create(CONFIG_MAPS, config_map("a", {"x": "2"}), api.namespace)
    assert api.client.get(CONFIG_MAPS, "a", api.namespace) == first


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        pytest.param({"metadata": {}}, "name or generateName is required", id="no-name"),
        pytest.param(config_map("Bad_Name"), "a lowercase RFC 1123 subdomain must consist of", id="bad-name"),
        pytest.param(config_map("a", namespace="elsewhere"), "does not match the namespace", id="elsewhere"),
        pytest.param(config_map("a", annotations={"x": 1}), "metadata.annotations of type string", id="type"),
        pytest.param({**config_map("a"), "kind": "Pod"}, "cannot be handled as a ConfigMap", id="other-kind"),
    ],
)
def test_what_is_malformed_is_refused(api: Api, sent: Object, words: str) -> None:
    """An object that breaks the rules is not stored, and the answer names the rule."""
    with pytest.raises(Invalid, match=re.escape(words)):
        api.client.create(CONFIG_MAPS, sent, api.namespace)
    with pytest.raises(NotFound):
        api.client.get(CONFIG_MAPS, "a", api.namespace)


@pytest.mark.parametrize(
    ("metadata", "fault"),
    [
        pytest.param({"labels": {"x": "y" * 64}}, "metadata.labels: Invalid value", id="long-value"),
        pytest.param({"labels": {"x": "y z"}}, "metadata.labels: Invalid value", id="space-in-a-value"),
        pytest.param({"labels": {"y" * 64: ""}}, "metadata.labels: Invalid value", id="long-key"),
        pytest.param({"labels": {"X/y": ""}}, "metadata.labels: Invalid value", id="prefix-of-a-key"),
        pytest.param({"annotations": {"-x": ""}}, "metadata.annotations: Invalid value", id="annotation-key"),
        pytest.param({"ownerReferences": [{"name": "x"}]}, "ownerReferences.uid: Invalid value", id="owner"),
    ],
)
def test_labels_annotations_and_owners_have_rules(api: Api, metadata: Object, fault: str) -> None:
    """A label's value is short and plain, keys have a form, an owner is named in full."""
    with pytest.raises(Invalid, match=fault):
        api.client.create(CONFIG_MAPS, config_map("a", **metadata), api.namespace)
    annotations = {"example.test/X_y.z": "anything at all, " * 20}
    api.client.create(CONFIG_MAPS, config_map("a", labels={"x": ""}, annotations=annotations), api.namespace)
    with pytest.raises(Invalid, match=fault):
        api.client.patch(CONFIG_MAPS, "a", MergePatch({"metadata": metadata}), api.namespace)


def test_a_namespace_must_exist(api: Api) -> None:
    """Nothing is created where no namespace is."""
    with pytest.raises(NotFound, match='namespaces "nowhere" not found'):
        api.client.create(CONFIG_MAPS, config_map("a"), "nowhere")


@pytest.mark.parametrize("path", ["/apis/example.invalid/v1/nonsense", "/nonsense"])
def test_a_path_that_leads_nowhere(api: Api, path: str) -> None:
    """An unknown kind of another group, or an unknown page, is a 404 in plain text."""
    answer = api.send("GET", path)
    assert (answer.code, answer.body) == (404, "404 page not found\n")


def test_a_kind_that_the_core_group_does_not_have(api: Api) -> None:
    """An unknown kind of the core group is a 404 with a Status that names no object."""
    answer = api.send("GET", "/api/v1/namespaces/default/nonsense")
    words = "the server could not find the requested resource"
    assert (answer.code, text(answer.body, "message"), text(answer.body, "reason")) == (
        404,
        words,
        "NotFound",
    )


def test_a_stale_replace_is_a_conflict(api: Api) -> None:
    """A PUT of an older version is refused in the words that clients look for."""
    old = api.client.create(CONFIG_MAPS, config_map("a", {"x": "1"}), api.namespace)
    new = api.client.replace(CONFIG_MAPS, {**old, "data": {"x": "2"}})
    assert int(version_of(new)) > int(version_of(old))
    with pytest.raises(Conflict) as caught:
        api.client.replace(CONFIG_MAPS, {**old, "data": {"x": "3"}})
    assert caught.value.message == f'Operation cannot be fulfilled on configmaps "a": {MODIFIED}'
    assert dig(api.client.get(CONFIG_MAPS, "a", api.namespace), "data", "x") == "2"


def test_a_replace_that_changes_nothing_writes_nothing(api: Api) -> None:
    """The version stays as it is when there is nothing to write."""
    made = api.client.create(CONFIG_MAPS, config_map("a", {"x": "1"}), api.namespace)
    assert api.client.replace(CONFIG_MAPS, made) == made


def test_a_replace_is_of_the_named_object(api: Api) -> None:
    """A PUT may neither rename an object nor hit another incarnation of it."""
    made = api.client.create(CONFIG_MAPS, config_map("a"), api.namespace)
    path = CONFIG_MAPS.path(api.namespace, "a")
    renamed = api.send("PUT", path, {**made, "metadata": {**made["metadata"], "name": "b"}})
    assert renamed.code == 400
    words = "the name of the object (b) does not match the name on the URL (a)"
    assert text(renamed.body, "message") == words
    assert api.send("PUT", path, {"data": {"x": "y"}}).code == 400
    other = api.send("PUT", path, {**made, "metadata": {**made["metadata"], "uid": "other"}})
    assert other.code == 409
    assert f"UID in precondition: other, UID in object meta: {uid_of(made)}" in text(other.body, "message")


def test_a_missing_object_cannot_be_replaced_or_deleted(api: Api) -> None:
    """Both are answered with 404, in the words of a read."""
    gone = claim("a", namespace=api.namespace, resourceVersion="1")
    for attempt in (
        lambda: api.client.replace(CLAIMS, gone),
        lambda: api.client.delete(CLAIMS, "a", api.namespace),
        lambda: api.client.get(CLAIMS, "a", api.namespace),
    ):
        with pytest.raises(NotFound, match='persistentvolumeclaims "a" not found'):
            attempt()


def test_uid_and_times_are_fixed(api: Api) -> None:
    """A patch of the uid or the time of deletion is refused; one of the time of creation is ignored."""
    made = api.client.create(CONFIG_MAPS, config_map("a"), api.namespace)
    for field, value in (("uid", "other"), ("deletionTimestamp", "2001-01-01T00:00:00Z")):
        with pytest.raises(Invalid, match=f"metadata.{field}: Invalid value: .*: field is immutable"):
            api.client.patch(CONFIG_MAPS, "a", MergePatch({"metadata": {field: value}}), api.namespace)
    for field in ("creationTimestamp", "namespace", "generateName"):
        same = api.client.patch(CONFIG_MAPS, "a", MergePatch({"metadata": {field: None}}), api.namespace)
        assert same == made


def test_a_dry_run_writes_nothing(api: Api) -> None:
    """dryRun=All answers as the real write would, and leaves everything as it was."""
    path, query = CLAIMS.path(api.namespace), "?dryRun=All"
    made = api.send("POST", path + query, claim("a"))
    assert (made.code, name_of(made.body), version_of(made.body)) == (201, "a", "")
    with pytest.raises(NotFound):
        api.client.get(CLAIMS, "a", api.namespace)
    api.client.create(CLAIMS, claim("a"), api.namespace)
    before = api.client.get(CLAIMS, "a", api.namespace)
    assert api.send("POST", path + query, claim("a")).code == 409
    patch = {"metadata": {"labels": {"x": "y"}}}
    form = "application/merge-patch+json"
    changed = api.send("PATCH", f"{path}/a{query}", patch, form=form)
    assert dig(changed.body, "metadata", "labels", "x") == "y"
    assert api.send("DELETE", f"{path}/a{query}").code == 200
    assert api.client.get(CLAIMS, "a", api.namespace) == before


def test_a_delete_is_of_the_incarnation_that_was_seen(api: Api) -> None:
    """The uid and the version that a delete names must be those of the object."""
    made = api.client.create(CONFIG_MAPS, config_map("a"), api.namespace)
    with pytest.raises(
        Conflict, match=r"the UID in the precondition \(other\) does not match the UID in record"
    ):
        api.client.delete(CONFIG_MAPS, "a", api.namespace, uid="other")
    with pytest.raises(Conflict, match=r"the ResourceVersion in the precondition \(1\) does not match"):
        api.client.delete(CONFIG_MAPS, "a", api.namespace, resource_version="1")
    api.client.delete(CONFIG_MAPS, "a", api.namespace, uid=uid_of(made), resource_version=version_of(made))
    with pytest.raises(NotFound):
        api.client.get(CONFIG_MAPS, "a", api.namespace)


def test_a_claim_waits_for_its_protection(api: Api) -> None:
    """A deleted claim is only marked until its last finalizer is off; a second delete changes nothing."""
    made = api.client.create(CLAIMS, claim("a"), api.namespace)
    assert strings(made, "metadata", "finalizers") == (PROTECTION,)
    api.client.delete(CLAIMS, "a", api.namespace)
    marked = api.client.get(CLAIMS, "a", api.namespace)
    assert is_terminating(marked)
    assert dig(marked, "metadata", "deletionGracePeriodSeconds") == 0
    api.client.delete(CLAIMS, "a", api.namespace)
    assert api.client.get(CLAIMS, "a", api.namespace) == marked
    assert release(api, "a")["metadata"]["name"] == "a"
    with pytest.raises(NotFound):
        api.client.get(CLAIMS, "a", api.namespace)


def test_what_is_dying_gets_no_new_finalizer(api: Api) -> None:
    """A finalizer put on a marked object is refused; the mark itself cannot be taken off."""
    api.client.create(CLAIMS, claim("a"), api.namespace)
    api.client.delete(CLAIMS, "a", api.namespace)
    more = MergePatch({"metadata": {"finalizers": [PROTECTION, "example.test/late"]}})
    words = "no new finalizers can be added if the object is being deleted, found new finalizers"
    with pytest.raises(Invalid, match=words):
        api.client.patch(CLAIMS, "a", more, api.namespace)
    unmark = MergePatch({"metadata": {"deletionTimestamp": None, "labels": {"x": "y"}}})
    assert is_terminating(api.client.patch(CLAIMS, "a", unmark, api.namespace))
    release(api, "a")


def test_a_claim_is_completed_by_the_server(api: Api) -> None:
    """Mode and phase have defaults, and a status that comes with a create is dropped."""
    made = api.client.create(CLAIMS, {**claim("a"), "status": {"phase": "Bound"}}, api.namespace)
    assert (text(made, "spec", "volumeMode"), made["status"]) == ("Filesystem", {"phase": "Pending"})


def test_a_claim_without_a_class_gets_the_default_one(api: Api) -> None:
    """The default class is written into a claim that names none, but not into one that names ""."""
    mark = {"storageclass.kubernetes.io/is-default-class": "true"}
    default: Object = {
        "metadata": {"name": api.namespace, "annotations": mark},
        "provisioner": "example.test/x",
    }
    api.client.create(STORAGE_CLASSES, default)
    try:
        chosen = api.client.create(CLAIMS, claim("a"), api.namespace)
        assert text(chosen, "spec", "storageClassName") == api.namespace
        none = claim("b")
        none["spec"]["storageClassName"] = ""
        assert api.client.create(CLAIMS, none, api.namespace)["spec"]["storageClassName"] == ""
    finally:
        api.client.delete(STORAGE_CLASSES, api.namespace)


def test_the_spec_of_a_claim_is_fixed(api: Api) -> None:
    """A claim's mode stays; its volume is named once; its size grows once it is bound, and never shrinks."""
    growing: Object = {"metadata": {"name": api.namespace}, "provisioner": "example.test/x"}
    api.client.create(STORAGE_CLASSES, {**growing, "allowVolumeExpansion": True})
    bound = claim("a")
    bound["spec"]["storageClassName"] = api.namespace
    api.client.create(CLAIMS, bound, api.namespace)

    def patch(body: Json, subresource: str | None = None) -> Object:
        return api.client.patch(CLAIMS, "a", MergePatch(body), api.namespace, subresource)

    def size(quantity: str) -> Object:
        return {"spec": {"resources": {"requests": {"storage": quantity}}}}

    for forbidden in ({"spec": {"volumeMode": "Block"}}, size("2Gi")):
        with pytest.raises(Invalid, match="spec is immutable after creation except"):
            patch(forbidden)
    patch({"spec": {"volumeName": "pv-1"}})
    with pytest.raises(Invalid, match="spec is immutable after creation"):
        patch({"spec": {"volumeName": "pv-2"}})
    patch({"status": {"phase": "Bound", "capacity": {"storage": "2Gi"}}}, "status")
    assert text(patch(size("3Gi")), "spec", "resources", "requests", "storage") == "3Gi"
    with pytest.raises(
        Invalid, match=r"spec.resources.requests.storage: Forbidden: field can not be less than"
    ):
        patch(size("1Gi"))
    api.client.delete(STORAGE_CLASSES, api.namespace)
    with pytest.raises(Forbidden, match="the storageclass that provisions the pvc must support resize"):
        patch(size("4Gi"))


def test_spec_and_status_are_written_apart(api: Api) -> None:
    """The main path leaves the status alone, /status the spec; labels of a built-in kind go with both."""
    api.client.create(CLAIMS, claim("a"), api.namespace)
    both = MergePatch(
        {"metadata": {"labels": {"x": "y"}}, "status": {"phase": "Bound"}, "spec": {"volumeName": "v"}}
    )
    main = api.client.patch(CLAIMS, "a", both, api.namespace)
    assert (text(main, "status", "phase"), text(main, "spec", "volumeName")) == ("Pending", "v")
    more = MergePatch(
        {"metadata": {"labels": {"x": "z"}}, "status": {"phase": "Bound"}, "spec": {"volumeName": "w"}}
    )
    status = api.client.patch(CLAIMS, "a", more, api.namespace, "status")
    assert (text(status, "status", "phase"), text(status, "spec", "volumeName")) == ("Bound", "v")
    assert mapping(status, "metadata", "labels") == {"x": "z"}


def test_a_node_registers_with_its_status(api: Api) -> None:
    """A Node keeps the status that it is created with, and later changes it by /status only."""
    addresses = [{"type": "Hostname", "address": "n"}]
    sent: Object = {"metadata": {"name": api.namespace}, "status": {"addresses": addresses}}
    assert api.client.create(NODES, sent)["status"]["addresses"] == addresses
    none = MergePatch({"status": {"addresses": None}})
    assert api.client.patch(NODES, api.namespace, none)["status"]["addresses"] == addresses
    assert "addresses" not in api.client.patch(NODES, api.namespace, none, None, "status")["status"]
    api.client.delete(NODES, api.namespace)


def test_a_volume_is_protected_too(api: Api) -> None:
    """A PersistentVolume gets its finalizer and defaults."""
    csi = {"driver": "example.test", "volumeHandle": "h"}
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "csi": csi}
    made = api.client.create(VOLUMES, {"metadata": {"name": api.namespace}, "spec": spec})
    assert strings(made, "metadata", "finalizers") == ("kubernetes.io/pv-protection",)
    assert text(made, "spec", "persistentVolumeReclaimPolicy") == "Retain"
    api.client.patch(VOLUMES, api.namespace, MergePatch({"metadata": {"finalizers": None}}))
    api.client.delete(VOLUMES, api.namespace)


@pytest.mark.parametrize(
    ("spec", "phase", "waits"),
    [
        pytest.param({}, "", False, id="on-no-node"),
        pytest.param({"nodeName": "n"}, "", True, id="on-a-node"),
        pytest.param({"nodeName": "n", "terminationGracePeriodSeconds": 0}, "", False, id="without-grace"),
        pytest.param({"nodeName": "n"}, "Succeeded", False, id="ended"),
    ],
)
def test_a_pod_on_a_node_is_given_time(api: Api, spec: Object, phase: str, waits: bool) -> None:
    """A delete marks a pod that its node has to stop, and removes any other; grace 0 ends the wait."""
    api.client.create(PODS, pod("a", **spec), api.namespace)
    if phase:
        api.client.patch(PODS, "a", MergePatch({"status": {"phase": phase}}), api.namespace, "status")
    api.client.delete(PODS, "a", api.namespace)
    if waits:
        marked = api.client.get(PODS, "a", api.namespace)
        assert dig(marked, "metadata", "deletionGracePeriodSeconds") == 30
        path = PODS.path(api.namespace, "a")
        assert api.send("DELETE", path, {"gracePeriodSeconds": 0}).code == 200
    with pytest.raises(NotFound):
        api.client.get(PODS, "a", api.namespace)


@pytest.mark.usefixtures("widgets")
def test_generations_count_what_is_asked_for(api: Api) -> None:
    """Of a custom object, changes outside of metadata and status count, and the mark of a deletion."""

    def generation(body: Json, subresource: str | None = None) -> int:
        patched = api.client.patch(WIDGETS, "a", MergePatch(body), api.namespace, subresource)
        return int(patched["metadata"]["generation"])

    assert api.client.create(WIDGETS, widget("a"), api.namespace)["metadata"]["generation"] == 1
    assert generation({"metadata": {"labels": {"x": "y"}, "finalizers": ["example.test/f"]}}) == 1
    assert generation({"status": {"x": 1}}, "status") == 1
    assert generation({"spec": {"size": 2}}) == 2
    assert generation({"spec": {"size": 2}}) == 2
    api.client.delete(WIDGETS, "a", api.namespace)
    assert api.client.get(WIDGETS, "a", api.namespace)["metadata"]["generation"] == 3
    api.client.patch(WIDGETS, "a", MergePatch({"metadata": {"finalizers": None}}), api.namespace)
