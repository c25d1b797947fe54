"""Operations of a JSON patch (RFC 6902), as plain values. Pure.

The trap: `remove` and `replace` of a missing path, and `test` of one, all fail with the same words, and `add`
into a missing map fails too: create the map first, behind a `test` that it is still missing (value None).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kube.objects import Json, Object


def pointer(*steps: str | int) -> str:
    """Return the JSON pointer (RFC 6901): `/metadata/annotations/a~1b`; the step `-` is a list's end."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def test(path: str, value: Json) -> Object:
    """Let the whole patch fail (kube.errors.Conflict) unless `path` holds `value`.

    Kubernetes takes a missing path as null, but a missing parent as a failure.
    """
    return {"op": "test", "path": path, "value": value}


def add(path: str, value: Json) -> Object:
    """Set a member of a map, or insert into a list."""
    return {"op": "add", "path": path, "value": value}


def replace(path: str, value: Json) -> Object:
    """Replace what is there; fails where nothing is."""
    return {"op": "replace", "path": path, "value": value}


def remove(path: str) -> Object:
    """Remove what is there; fails where nothing is."""
    return {"op": "remove", "path": path}
