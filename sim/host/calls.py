"""API calls that several controllers make in the same way."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kube.client import MergePatch
from kube.errors import NotFound
from kube.objects import is_terminating, name_of, namespace_of, strings, uid_of, version_of
from kube.store import Key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kube.client import Client
    from kube.objects import Json, Object
    from kube.resources import Resource


def key_of(obj: Object) -> Key:
    """Return the key of an object."""
    return Key(namespace_of(obj), name_of(obj))


def find(api: Client, resource: Resource, key: Key) -> Object | None:
    """Read one object, live; None when it is not there."""
    try:
        return api.get(resource, key.name, key.namespace or None)
    except NotFound:
        return None


def amend(
    api: Client, resource: Resource, obj: Object, body: Mapping[str, Json], subresource: str | None = None
) -> Object:
    """Merge `body` into the object as it was read: Conflict when somebody wrote in between."""
    metadata = {**body.get("metadata", {}), "resourceVersion": version_of(obj)}
    patch = MergePatch({**body, "metadata": metadata})
    return api.patch(resource, name_of(obj), patch, namespace_of(obj) or None, subresource)


def remove(api: Client, resource: Resource, obj: Object) -> None:
    """Delete this incarnation of the object; done when it is gone or going."""
    if is_terminating(obj):
        return
    with contextlib.suppress(NotFound):
        api.delete(resource, name_of(obj), namespace_of(obj) or None, uid=uid_of(obj))


def release(api: Client, resource: Resource, obj: Object, finalizer: str) -> None:
    """Take our finalizer off, so that a deletion can end."""
    held = strings(obj, "metadata", "finalizers")
    if finalizer in held:
        left = [each for each in held if each != finalizer]
        with contextlib.suppress(NotFound):
            amend(api, resource, obj, {"metadata": {"finalizers": left}})


def now() -> str:
    """Return the time as the API writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
