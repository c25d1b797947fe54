"""The small values of kube: JSON patch, back-off, reduction, permissions."""

from __future__ import annotations

import pytest

from kube import json_patch
from kube.backoff import Backoff
from kube.objects import dig
from kube.permissions import Permission, Recorder, Right, compare
from kube.reduce import keep
from kube.resources import CLAIMS, NODES
from kube.rest import RequestRecord


@pytest.mark.parametrize(
    ("steps", "path"),
    [
        ((), ""),
        (("metadata", "annotations", "a.b/c"), "/metadata/annotations/a.b~1c"),
        (("a~b", "~/"), "/a~0b/~0~1"),
        (("spec", "disks", 3), "/spec/disks/3"),
        (("spec", "disks", "-"), "/spec/disks/-"),
        (("",), "/"),
    ],
)
def test_a_pointer_escapes_its_steps(steps: tuple[str | int, ...], path: str) -> None:
    """RFC 6901: a tilde becomes ~0 and a slash ~1, in that order."""
    assert json_patch.pointer(*steps) == path


def test_operations_have_the_members_of_the_rfc() -> None:
    """A null value is sent as null, not left out."""
    assert json_patch.test("/a", None) == {"op": "test", "path": "/a", "value": None}
    assert json_patch.add("/a", 1) == {"op": "add", "path": "/a", "value": 1}
    assert json_patch.replace("/a", 1) == {"op": "replace", "path": "/a", "value": 1}
    assert json_patch.remove("/a") == {"op": "remove", "path": "/a"}


@pytest.mark.parametrize(
    ("failures", "chance", "delay"),
    [
        (1, 0.0, 1.0),
        (2, 0.0, 2.0),
        (4, 0.0, 8.0),
        (5, 0.0, 10.0),
        (10**6, 0.0, 10.0),
        (2, 0.5, 1.5),
        (5, 1.0, 5.0),
    ],
)
def test_a_delay_doubles_up_to_its_limit_less_the_jitter(failures: int, chance: float, delay: float) -> None:
    """The jitter only shortens, so that the limit holds; no count of failures is too many."""
    assert Backoff(first=1.0, limit=10.0, jitter=0.5).delay(failures, lambda: chance) == delay


def test_keep_reduces_an_object_to_the_named_fields() -> None:
    """Metadata stays but for the managed fields; what is missing stays missing."""
    obj = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "uid": "u", "managedFields": [{}], "annotations": {"a/b.c": "d"}},
        "spec": {"nodeName": "k", "volumes": [{"name": "v"}], "containers": [{}]},
        "status": {"phase": "Running"},
    }
    assert keep("spec.nodeName", "spec.volumes", "status.reason", "data")(obj) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "uid": "u", "annotations": {"a/b.c": "d"}},
        "spec": {"nodeName": "k", "volumes": [{"name": "v"}]},
    }
    assert dig(obj, "metadata", "managedFields") == [{}]


def test_declared_and_used_rights_are_compared_one_by_one() -> None:
    """A verb too many on either side shows, and a subresource is a right of its own."""
    recorder = Recorder()
    for record in (RequestRecord("get", CLAIMS, "n", "", 200, 0.1),) * 2:
        recorder(record)
    recorder(RequestRecord("patch", CLAIMS, "n", "status", 409, 0.1))
    declared = [Permission(CLAIMS, ("get", "list")), Permission(NODES, ("get",), optional="no zones")]
    difference = compare(declared, recorder.used)
    assert difference.undeclared == {Right("patch", CLAIMS, "status")}
    assert difference.unused == {Right("list", CLAIMS), Right("get", NODES)}
    assert str(Right("patch", CLAIMS, "status")) == "patch persistentvolumeclaims/status"
