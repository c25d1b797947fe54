"""Reduce objects to what is read of them, so that a copy of many stays small. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube.objects import dig, mapping

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kube.objects import Json, Object

_UNREAD: Final = "managedFields"
"""The part of metadata that nobody reads, and often half of the object."""


def keep(*fields: str) -> Callable[[Object], Object]:
    """Return a transform that keeps kind, metadata and the named fields, such as `spec.volumeName`.

    A field that is missing or null stays missing; a step cannot go into a list.
    """
    paths = [field.split(".") for field in fields]

    def reduce(obj: Object) -> Object:
        reduced: Object = {key: obj[key] for key in ("apiVersion", "kind") if key in obj}
        reduced["metadata"] = {
            key: value for key, value in mapping(obj, "metadata").items() if key != _UNREAD
        }
        for path in paths:
            value = dig(obj, *path)
            if value is not None:
                _place(reduced, path, value)
        return reduced

    return reduce


def _place(obj: Object, path: Sequence[str], value: Json) -> None:
    for step in path[:-1]:
        obj = obj.setdefault(step, {})
    obj[path[-1]] = value
