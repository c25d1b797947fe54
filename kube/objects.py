"""Raw Kubernetes objects and how to read them. The one module where an object is an untyped dict.

The trap: any field may be missing, and a missing map may be `null`. Read with `dig`, not chains of `[]`.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Object: TypeAlias = dict[str, Any]
"""A decoded JSON object: a Kubernetes object or a part of one."""

Json: TypeAlias = Any
"""Any decoded JSON value."""


def dig(obj: Object | None, *path: str) -> Json:
    """Return the value at `path`, or None where any step is missing or null."""
    here: Json = obj
    for step in path:
        if not isinstance(here, dict):
            return None
        here = here.get(step)
    return here


def text(obj: Object | None, *path: str) -> str:
    """Return the string at `path`, or "" where it is missing, null or no string."""
    value = dig(obj, *path)
    return value if isinstance(value, str) else ""


def mapping(obj: Object | None, *path: str) -> Object:
    """Return the map at `path`, or an empty one where it is missing or null. A copy is not made."""
    value = dig(obj, *path)
    return value if isinstance(value, dict) else {}


def items(obj: Object | None, *path: str) -> list[Object]:
    """Return the maps in the list at `path`; an empty list where it is missing or null."""
    value = dig(obj, *path)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def strings(obj: Object | None, *path: str) -> tuple[str, ...]:
    """Return the strings in the list at `path`; empty where it is missing or null."""
    value = dig(obj, *path)
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def name_of(obj: Object) -> str:
    """Return metadata.name, or ""."""
    return text(obj, "metadata", "name")


def namespace_of(obj: Object) -> str:
    """Return metadata.namespace, or "" for a cluster-scoped object."""
    return text(obj, "metadata", "namespace")


def uid_of(obj: Object) -> str:
    """Return metadata.uid, or ""."""
    return text(obj, "metadata", "uid")


def version_of(obj: Object) -> str:
    """Return metadata.resourceVersion, an opaque string, or ""."""
    return text(obj, "metadata", "resourceVersion")


def annotations_of(obj: Object) -> dict[str, str]:
    """Return metadata.annotations; empty where there are none."""
    return {
        key: value for key, value in mapping(obj, "metadata", "annotations").items() if isinstance(value, str)
    }


def labels_of(obj: Object) -> dict[str, str]:
    """Return metadata.labels; empty where there are none."""
    return {key: value for key, value in mapping(obj, "metadata", "labels").items() if isinstance(value, str)}


def is_terminating(obj: Object) -> bool:
    """Tell whether the object's deletion has begun (metadata.deletionTimestamp is set)."""
    return bool(text(obj, "metadata", "deletionTimestamp"))
