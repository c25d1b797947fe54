"""Strategic merge patch, as far as kubectl sends it for the built-in kinds that it is used on. Pure.

The trap: which lists merge, and by which key, is written in Kubernetes' types and nowhere in the patch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kube.objects import Json, Object

_MERGE_KEYS: Final[Mapping[str, str]] = {
    "status.conditions": "type",
    "status.addresses": "type",
    "spec.ports": "port",
    "spec.containers": "name",
    "spec.volumes": "name",
    "spec.imagePullSecrets": "name",
    "metadata.ownerReferences": "uid",
}
"""Lists of maps that merge element by element, by what they are told apart; all others are replaced."""
_SETS: Final = frozenset({"metadata.finalizers"})
"""Lists of strings to which a patch adds."""
_DELETE: Final = "$deleteFromPrimitiveList/"
_RETAIN: Final = "$retainKeys"


def merge(target: Json, patch: Object, path: str = "") -> Json:
    """Apply a strategic merge patch to a map."""
    if patch.get("$patch") == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    merged = dict(target) if isinstance(target, dict) else {}
    if _RETAIN in patch:
        merged = {key: value for key, value in merged.items() if key in patch[_RETAIN]}
    for key, value in patch.items():
        if key.startswith(_DELETE):
            gone, where = value, key.removeprefix(_DELETE)
            merged[where] = [each for each in merged.get(where, ()) if each not in gone]
        elif value is None:
            merged.pop(key, None)
        elif not key.startswith("$"):
            merged[key] = _merge_member(merged.get(key), value, f"{path}.{key}" if path else key)
    return merged


def _merge_member(target: Json, value: Json, path: str) -> Json:
    if isinstance(value, dict):
        return merge(target, value, path)
    if isinstance(value, list) and isinstance(target, list):
        if path in _SETS:
            return list(dict.fromkeys([*target, *value]))
        if key := _MERGE_KEYS.get(path):
            return _merge_list(target, value, key, path)
    return value


def _merge_list(target: list[Json], patch: list[Json], key: str, path: str) -> list[Json]:
    if any(each.get("$patch") == "replace" for each in patch):
        return [each for each in patch if "$patch" not in each]
    present = {each.get(key): each for each in target}
    gone = {each.get(key) for each in patch if each.get("$patch") == "delete"}
    sent = {each.get(key): each for each in patch if each.get(key) not in gone}
    order = _interleave(
        [each for each in present if each not in sent and each not in gone], [*sent], [*present]
    )
    return [
        merge(present.get(each), sent[each], f"{path}[]") if each in sent else present[each] for each in order
    ]


def _interleave(kept: list[Json], sent: list[Json], before: list[Json]) -> list[Json]:
    """Order elements as Kubernetes does: the patch's first, but for kept ones that stood before them."""
    order = []
    while kept and sent:
        first = sent[0] in before and before.index(kept[0]) < before.index(sent[0])
        order.append(kept.pop(0) if first else sent.pop(0))
    return [*order, *kept, *sent]
