"""JSON patch and merge patch as kube-apiserver applies them. Pure: the given document is not changed.

The traps, all read from a real server: `replace` of a missing member of a map adds it; a missing member
equals null in a `test`, a missing step on the way fails; a list takes negative positions; and 1 is not 1.0.
"""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Final

from sim.apiserver.failures import bad_request, unpatchable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kube.objects import Json, Object


def merge(target: Json, patch: Json) -> Json:
    """Apply a merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def apply(document: Object, operations: Json) -> Json:
    """Apply a JSON patch (RFC 6902). Raises Failure: 400 when it is no list, 422 when it does not apply."""
    if not isinstance(operations, list) or not all(isinstance(operation, dict) for operation in operations):
        raise bad_request(
            "error decoding patch: json: cannot unmarshal into Go value of type []handlers.jsonPatchOp"
        )
    root = {"": copy.deepcopy(document)}
    for operation in operations:
        try:
            _OPERATIONS[operation["op"]](root, operation)
        except (KeyError, IndexError, ValueError, TypeError):
            raise unpatchable() from None
    return root[""]


def _add(root: Json, operation: Object) -> None:
    parent, step = _reach(root, operation["path"])
    value = copy.deepcopy(operation.get("value"))
    if isinstance(parent, list):
        parent.insert(len(parent) if step == "-" else _position(step, len(parent) + 1), value)
    else:
        parent[step] = value


def _remove(root: Json, operation: Object) -> None:
    parent, step = _reach(root, operation["path"])
    if isinstance(parent, list):
        del parent[_position(step, len(parent))]
    else:
        del parent[step]


def _replace(root: Json, operation: Object) -> None:
    parent, step = _reach(root, operation["path"])
    value = copy.deepcopy(operation.get("value"))
    if isinstance(parent, list):
        parent[_position(step, len(parent))] = value
    else:
        parent[step] = value


def _test(root: Json, operation: Object) -> None:
    if not _same(_look(root, operation["path"]), operation.get("value")):
        raise ValueError(operation["path"])


def _move(root: Json, operation: Object) -> None:
    value = _look(root, operation["from"])
    _remove(root, {"path": operation["from"]})
    _add(root, {"path": operation["path"], "value": value})


def _copy(root: Json, operation: Object) -> None:
    _add(root, {"path": operation["path"], "value": _look(root, operation["from"])})


_OPERATIONS: Final[Mapping[str, Callable[[Json, Object], None]]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "test": _test,
    "move": _move,
    "copy": _copy,
}


def _reach(root: Json, pointer: str) -> tuple[Json, str]:
    """Return the map or list that holds what a pointer names, and the last step."""
    if pointer and not pointer.startswith("/"):
        raise ValueError(pointer)
    *way, last = ["", *(step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])]
    here = root
    for step in way:
        here = here[_position(step, len(here))] if isinstance(here, list) else here[step]
    if not isinstance(here, dict | list):
        raise TypeError(pointer)
    return here, last


def _look(root: Json, pointer: str) -> Json:
    parent, step = _reach(root, pointer)
    return parent[_position(step, len(parent))] if isinstance(parent, list) else parent.get(step)


def _position(step: str, length: int) -> int:
    position = int(step)
    if not -length <= position < length:
        raise IndexError(step)
    return position % length


def _same(one: Json, other: Json) -> bool:
    """Compare as JSON does: 1, 1.0 and true differ, the order of members does not count."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
