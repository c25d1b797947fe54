"""Requests to the Kubernetes API as values: what is asked, apart from the asking. Pure.

The trap: the API reads a path, not our intent. `DELETE .../claims/` deletes all claims, `.../claims/..` the
namespace, and a namespaced object without its namespace is answered 404, which would read as "gone". A name
that cannot be one is therefore refused here, before anything is sent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias
from urllib.parse import urlencode

from kube.client import EVERYTHING, JsonPatch, Selector
from kube.errors import Invalid
from kube.objects import name_of, namespace_of, version_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kube.client import Patch
    from kube.objects import Json, Object
    from kube.resources import Resource

Verb: TypeAlias = Literal["get", "list", "watch", "create", "update", "patch", "delete"]
"""The words of RBAC."""

JSON: Final = "application/json"
JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"

_SEGMENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*")
"""Wider than any name rule of Kubernetes (RBAC names have colons), yet always one segment of a path."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `path` includes the query; `body` None means none is sent."""

    verb: Verb
    resource: Resource
    path: str
    namespace: str | None = None
    subresource: str = ""
    body: Json = None
    content_type: str = JSON


def read(resource: Resource, name: str, namespace: str | None = None) -> Request:
    """Build the read of one object."""
    return Request("get", resource, _object_path(resource, name, namespace), namespace)


def collect(
    resource: Resource,
    namespace: str | None = None,
    selector: Selector = EVERYTHING,
    limit: int | None = None,
    proceed: str = "",
) -> Request:
    """Build the read of one page of a list, of all namespaces where `namespace` is None."""
    query = {**_narrow(selector), "limit": str(limit or ""), "continue": proceed}
    return Request("list", resource, _collection_path(resource, namespace, query), namespace)


def follow(resource: Resource, namespace: str | None, selector: Selector, resource_version: str) -> Request:
    """Build a watch with bookmarks."""
    query = {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": resource_version,
        **_narrow(selector),
    }
    return Request("watch", resource, _collection_path(resource, namespace, query), namespace)


def create(resource: Resource, obj: Object, namespace: str | None = None) -> Request:
    """Build a create, in `namespace` or else in the object's own."""
    where = _home(resource, namespace or namespace_of(obj))
    return Request("create", resource, _collection_path(resource, where, {}), where, body=obj)


def replace(resource: Resource, obj: Object, subresource: str | None = None) -> Request:
    """Build a PUT of the object. One without resourceVersion is refused: it would overwrite blindly."""
    if not version_of(obj):
        raise Invalid(f"{resource.kind} {name_of(obj)} has no resourceVersion: a PUT would overwrite blindly")
    namespace = namespace_of(obj) or None
    path = _object_path(resource, name_of(obj), namespace, subresource)
    return Request("update", resource, path, namespace, subresource or "", obj)


def patch(
    resource: Resource,
    name: str,
    change: Patch,
    namespace: str | None = None,
    subresource: str | None = None,
) -> Request:
    """Build a patch; a JSON patch stays a list whatever sequence it came as."""
    body: Json
    if isinstance(change, JsonPatch):
        body, content_type = list(change.operations), JSON_PATCH
    else:
        body, content_type = dict(change.body), MERGE_PATCH
    path = _object_path(resource, name, namespace, subresource)
    return Request("patch", resource, path, namespace, subresource or "", body, content_type)


def delete(
    resource: Resource,
    name: str,
    namespace: str | None = None,
    uid: str | None = None,
    resource_version: str | None = None,
) -> Request:
    """Build a delete, of the very incarnation and state that the preconditions name."""
    preconditions = {
        key: value
        for key, value in (("uid", uid), ("resourceVersion", resource_version))
        if value is not None
    }
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": preconditions}
    path = _object_path(resource, name, namespace)
    return Request("delete", resource, path, namespace, body=options if preconditions else None)


def _object_path(resource: Resource, name: str, namespace: str | None, subresource: str | None = None) -> str:
    _check(name, f"a {resource.kind}")
    return resource.path(_home(resource, namespace), name, subresource)


def _collection_path(resource: Resource, namespace: str | None, query: Mapping[str, str]) -> str:
    if namespace is not None:
        _check(namespace, "a namespace")
    asked = urlencode({key: value for key, value in query.items() if value})
    return resource.path(namespace) + (f"?{asked}" if asked else "")


def _home(resource: Resource, namespace: str | None) -> str | None:
    """Return the namespace that one object of the kind lives in, None for a cluster-scoped kind."""
    if not resource.namespaced:
        return None
    if not namespace:
        raise Invalid(f"a {resource.kind} lives in a namespace, and none was given")
    _check(namespace, "a namespace")
    return namespace


def _check(name: str, what: str) -> None:
    if not _SEGMENT.fullmatch(name):
        raise Invalid(f"{name!r} cannot be the name of {what}")


def _narrow(selector: Selector) -> dict[str, str]:
    return {"labelSelector": selector.labels, "fieldSelector": selector.fields}
