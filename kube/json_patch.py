"""Operations of a JSON patch (RFC 6902), as plain values. Pure.

The traps, tried on kube-apiserver 1.36: whatever fails, fails with the same words (kube.errors.Conflict);
`add` into a missing map fails: create the map first, behind a `test` that it is missing still (value None);
and `replace` sets a missing member as `add` does, other than the RFC says: only `test` proves what is there.
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

    A missing member passes as null, one of a missing map does not.
    """
    return {"op": "test", "path": path, "value": value}


def add(path: str, value: Json) -> Object:
    """Set a member of a map, or insert into a list."""
    return {"op": "add", "path": path, "value": value}


def replace(path: str, value: Json) -> Object:
    """Replace what is there."""
    return {"op": "replace", "path": path, "value": value}


def remove(path: str) -> Object:
    """Remove what is there; fails where nothing is."""
    return {"op": "remove", "path": path}
