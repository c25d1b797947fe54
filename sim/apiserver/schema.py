"""Custom objects against the schema of their definition: unknown fields go, wrong ones are named. Pure.

Of OpenAPI it knows what our definitions use; a keyword that it does not know changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube.objects import mapping

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kube.objects import Json, Object

_KEEPS: Final = "x-kubernetes-preserve-unknown-fields"
_EITHER: Final = "x-kubernetes-int-or-string"
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}
_ALWAYS: Final = frozenset({"apiVersion", "kind", "metadata"})


def pruned(value: Json, schema: Object, *, top: bool = True) -> Json:
    """Return the value without the fields that the schema does not know, and with its defaults."""
    if isinstance(value, list):
        return [pruned(each, mapping(schema, "items"), top=False) for each in value]
    if not isinstance(value, dict):
        return value
    known, more = mapping(schema, "properties"), schema.get("additionalProperties")
    keeps = bool(schema.get(_KEEPS) or more)
    kept = {}
    for key, each in value.items():
        if top and key in _ALWAYS:
            kept[key] = each
        elif key in known:
            kept[key] = pruned(each, known[key], top=False)
        elif isinstance(more, dict):
            kept[key] = pruned(each, more, top=False)
        elif keeps:
            kept[key] = each
    defaults = {key: each["default"] for key, each in known.items() if "default" in each and key not in kept}
    return {**kept, **defaults}


def faults(value: Json, schema: Object, path: str = "") -> Iterator[str]:
    """Yield what the schema forbids, as `field: Kind of fault: words`."""
    kind = schema.get("type")
    if kind is None or schema.get(_EITHER) or (value is None and schema.get("nullable")):
        return
    if not _is(value, str(kind)):
        shown = _SHOWN.get(type(value), "null")
        yield f'{path or "<nil>"}: Invalid value: "{shown}": {path} in body must be of type {kind}: "{shown}"'
    elif isinstance(value, dict):
        yield from _member_faults(value, schema, path)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from faults(each, mapping(schema, "items"), f"{path}[{index}]")
        if len(value) > schema.get("maxItems", len(value)):
            yield f"{path}: Too many: {len(value)}: must have at most {schema['maxItems']} items"
    elif value not in schema.get("enum", [value]):
        allowed = ", ".join(f'"{each}"' for each in schema["enum"])
        yield f'{path}: Unsupported value: "{value}": supported values: {allowed}'


def _member_faults(value: Object, schema: Object, path: str) -> Iterator[str]:
    for key in schema.get("required", ()):
        if value.get(key) is None:
            yield f"{path}{'.' if path else ''}{key}: Required value"
    for key, each in value.items():
        if key in (known := mapping(schema, "properties")) and (path or key not in _ALWAYS):
            missing = each is None and key in schema.get("required", ())
            yield from () if missing else faults(each, known[key], f"{path}{'.' if path else ''}{key}")


def _is(value: Json, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES.get(kind, (object,)))


_SHOWN: Final[Mapping[type, str]] = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
}
