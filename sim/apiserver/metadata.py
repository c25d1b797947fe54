"""The metadata of objects: the form that it must have, and the rules that it must keep. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kube.objects import annotations_of, is_terminating, items, labels_of, name_of, strings, text, uid_of
from sim.apiserver.failures import bad_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kube.objects import Json, Object
    from sim.apiserver.kinds import Kind

_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    f"'{_SUBDOMAIN.pattern}')"
)
_NAME_LIMIT: Final = 253
_WORD: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_WORD_RULE: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    f"character (regex used for validation is '{_WORD.pattern}')"
)
_WORD_LIMIT: Final = 63
"""Bytes of a label's value, and of the name part of a key."""
_FREE_NAMES: Final = "rbac.authorization.k8s.io"
"""The group whose names may hold colons and capitals."""


def _texts(value: Json) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str | None) for each in value.values())


_FORMS: Final[Mapping[str, tuple[str, Callable[[Json], bool]]]] = {
    "labels": ("string", _texts),
    "annotations": ("string", _texts),
    "finalizers": (
        "[]string",
        lambda value: isinstance(value, list) and strings({"": value}, "") == (*value,),
    ),
    "ownerReferences": (
        "v1.OwnerReference",
        lambda value: isinstance(value, list) and items({"": value}, "") == value,
    ),
}
"""What the fields of an ObjectMeta must be, where a wrong form is likely."""


def read_metadata(kind: Kind, sent: Object, name: str) -> Object:
    """Return the metadata of a sent object as the server's types hold it: no null, and nothing empty.

    Raises Failure (400) when it has not the form of an ObjectMeta, or another name than the path.
    """
    metadata = sent.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise _undecodable(kind, f"{kind.resource.kind}.metadata of type v1.ObjectMeta")
    if (said := name_of(sent)) and said != name:
        raise bad_request(f"the name of the object ({said}) does not match the name on the URL ({name})")
    for key, (form, fits) in _FORMS.items():
        if metadata.get(key) is not None and not fits(metadata[key]):
            raise _undecodable(kind, f"ObjectMeta.metadata.{key} of type {form}")
    return tidy({**metadata, "managedFields": None})


def tidy(metadata: Object) -> Object:
    """Drop what is empty: in a typed object that is a missing field."""
    return {key: value for key, value in metadata.items() if value not in (None, "", {}, [])}


def _undecodable(kind: Kind, where: str) -> Exception:
    named = kind.resource.kind
    handled = f'{named} in version "{kind.resource.version}" cannot be handled as a {named}'
    return bad_request(f"{handled}: json: cannot unmarshal into Go struct field {where}")


def metadata_faults(kind: Kind, obj: Object) -> Iterator[str]:
    """Yield what is wrong with the metadata of an object that is to be stored."""
    yield from _name_faults(name_of(obj), free=kind.resource.group == _FREE_NAMES)
    for field, keys in (("labels", labels_of(obj)), ("annotations", annotations_of(obj))):
        yield from (f"metadata.{field}: {fault}" for key in keys for fault in _key_faults(key))
    for value in labels_of(obj).values():
        yield from (f"metadata.labels: {fault}" for fault in _word_faults(value) if value)
    for owner in items(obj, "metadata", "ownerReferences"):
        for key in ("apiVersion", "kind", "name", "uid"):
            if not text(owner, key):
                yield f'metadata.ownerReferences.{key}: Invalid value: "": must not be empty'


def _name_faults(name: str, *, free: bool) -> Iterator[str]:
    if not name:
        yield "metadata.name: Required value: name or generateName is required"
    elif len(name) > _NAME_LIMIT:
        yield f'metadata.name: Invalid value: "{name}": must be no more than {_NAME_LIMIT} characters'
    elif not free and not _SUBDOMAIN.fullmatch(name):
        yield f'metadata.name: Invalid value: "{name}": {_NAME_RULE}'


def _key_faults(key: str) -> Iterator[str]:
    prefix, slash, word = key.rpartition("/")
    if slash and not _SUBDOMAIN.fullmatch(prefix):
        yield f'Invalid value: "{key}": prefix part {_NAME_RULE}'
    yield from (fault.replace(f'"{word}": ', f'"{key}": name part ') for fault in _word_faults(word))


def _word_faults(word: str) -> Iterator[str]:
    if len(word.encode()) > _WORD_LIMIT:
        yield f'Invalid value: "{word}": must be no more than {_WORD_LIMIT} bytes'
    elif not _WORD.fullmatch(word):
        yield f'Invalid value: "{word}": {_WORD_RULE}'


def change_faults(old: Object, new: Object) -> Iterator[str]:
    """Yield what an update must not do to the metadata."""
    if uid_of(new) != uid_of(old):
        yield f'metadata.uid: Invalid value: "{uid_of(new)}": field is immutable'
    asked = text(new, "metadata", "deletionTimestamp")
    if asked != text(old, "metadata", "deletionTimestamp"):
        yield f'metadata.deletionTimestamp: Invalid value: "{asked}": field is immutable'
    known = strings(old, "metadata", "finalizers")
    added = [each for each in strings(new, "metadata", "finalizers") if each not in known]
    if added and is_terminating(old):
        shown = ", ".join(f'"{each}"' for each in added)
        yield (
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
            f"found new finalizers []string{{{shown}}}"
        )
