"""What the server itself makes of an object that is created, changed or deleted. Pure.

The traps: a write to the main path leaves the status alone and one to /status leaves all else; a deletion
only marks an object that has finalizers, or a pod that its node has to stop first; and what a client says
about the metadata that is the server's own is ignored in silence, but for uid and name.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from kube import resources as kube
from kube.objects import dig, is_terminating, mapping, name_of, namespace_of, strings, text
from kube.quantity import parse_bytes
from sim.apiserver.failures import invalid
from sim.apiserver.kinds import STATUS
from sim.apiserver.metadata import change_faults, metadata_faults, read_metadata, tidy
from sim.apiserver.schema import faults, pruned

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from kube.objects import Json, Object
    from kube.resources import Resource
    from sim.apiserver.kinds import Kind

_SERVERS_OWN: Final = ("namespace", "generateName", "creationTimestamp", "generation", "selfLink")
_LEAVING: Final = ("deletionTimestamp", "deletionGracePeriodSeconds")

DEFAULTS: Final[Mapping[Resource, Object]] = {
    kube.CLAIMS: {"spec": {"volumeMode": "Filesystem"}, "status": {"phase": "Pending"}},
    kube.VOLUMES: {
        "spec": {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"},
        "status": {"phase": "Pending"},
    },
    kube.NAMESPACES: {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}},
    kube.PODS: {
        "spec": {
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "schedulerName": "default-scheduler",
        },
        "status": {"phase": "Pending", "qosClass": "BestEffort"},
    },
    kube.SERVICES: {
        "spec": {"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster"},
        "status": {"loadBalancer": {}},
    },
    kube.SECRETS: {"type": "Opaque"},
    kube.STORAGE_CLASSES: {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
    kube.VOLUME_ATTACHMENTS: {"status": {"attached": False}},
}
_PROTECTION: Final[Mapping[Resource, str]] = {
    kube.CLAIMS: "kubernetes.io/pvc-protection",
    kube.VOLUMES: "kubernetes.io/pv-protection",
}
"""Finalizers that admission puts on (StorageObjectInUseProtection); a controller takes them off."""


@dataclass(frozen=True, slots=True)
class Birth:
    """What the server gives to a new object."""

    uid: str
    time: str
    suffix: str
    """Completes a generateName."""


def stamp(time: datetime) -> str:
    """Write a UTC time as the API does."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def newborn(kind: Kind, sent: Object, namespace: str, birth: Birth) -> Object:
    """Return what a create stores, before admission webhooks see it."""
    metadata = read_metadata(kind, sent, name_of(sent))
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = f"{metadata['generateName']}{birth.suffix}"
    for key in ("resourceVersion", "managedFields", "namespace", "generation", *_LEAVING):
        metadata.pop(key, None)
    metadata |= {"uid": birth.uid, "creationTimestamp": birth.time}
    if namespace:
        metadata["namespace"] = namespace
    if kind.counts_generations:
        metadata["generation"] = 1
    if guard := _PROTECTION.get(kind.resource):
        metadata["finalizers"] = list(dict.fromkeys([*metadata.get("finalizers", ()), guard]))
    if kind.resource == kube.NAMESPACES:
        metadata["labels"] = {**metadata.get("labels", {}), "kubernetes.io/metadata.name": metadata["name"]}
    body = _body(kind, sent)
    if STATUS in kind.subresources and not kind.registers_status:
        body.pop(STATUS, None)
    return {"metadata": metadata, **_filled(body, DEFAULTS.get(kind.resource, {}))}


def changed(kind: Kind, subresource: str, old: Object, sent: Object) -> Object:
    """Return what an update stores in place of `old`: it equals `old` when nothing is to be written."""
    metadata = read_metadata(kind, sent, name_of(old))
    known = mapping(old, "metadata")
    for key in _SERVERS_OWN:
        metadata.pop(key, None)
    for key in _LEAVING:
        metadata[key] = metadata.get(key) or known.get(key)
    metadata = {**{key: known[key] for key in ("uid", *_SERVERS_OWN) if key in known}, **metadata}
    new = {"metadata": tidy(metadata), **_body(kind, sent)}
    if subresource == STATUS:
        new = _only_status(kind, old, new)
    elif STATUS in kind.subresources:
        new = {**_without(new, STATUS), **{key: old[key] for key in (STATUS,) if key in old}}
    new["metadata"]["resourceVersion"] = known["resourceVersion"]
    if kind.counts_generations and _counted(kind, old) != _counted(kind, new):
        new["metadata"]["generation"] = known.get("generation", 0) + 1
    return new


def check_new(kind: Kind, obj: Object) -> None:
    """Raise Failure (422) when a new object breaks the rules."""
    if causes := [*metadata_faults(kind, obj), *faults(obj, kind.schema)]:
        raise invalid(kind.resource, name_of(obj), causes)


def check_change(kind: Kind, old: Object, new: Object) -> None:
    """Raise Failure (422) when an update breaks the rules."""
    causes = [*change_faults(old, new), *metadata_faults(kind, new), *faults(new, kind.schema)]
    if causes := [*causes, *_claim_faults(kind, old, new)]:
        raise invalid(kind.resource, name_of(old), causes)


def grace_of(kind: Kind, obj: Object, asked: int | None) -> int:
    """Return the seconds that the object's node gets before a deletion is done: none, but for a pod there."""
    ended = text(obj, "status", "phase") in ("Succeeded", "Failed")
    if kind.resource != kube.PODS or not text(obj, "spec", "nodeName") or ended:
        return 0
    wanted = asked if asked is not None else dig(obj, "spec", "terminationGracePeriodSeconds")
    return int(wanted if wanted is not None else 30)


def leaving(kind: Kind, obj: Object, now: datetime, grace: int) -> Object:
    """Return the object marked as being deleted; a repeat can only shorten the grace period."""
    metadata = dict(mapping(obj, "metadata"))
    if is_terminating(obj) and metadata.get("deletionGracePeriodSeconds", 0) <= grace:
        return obj
    if "generation" in metadata and not is_terminating(obj):
        metadata["generation"] += 1
    metadata["deletionTimestamp"] = stamp(now + timedelta(seconds=grace))
    marked = {**obj, "metadata": metadata}
    if kind.resource == kube.NAMESPACES:
        return {**marked, STATUS: {**mapping(obj, STATUS), "phase": "Terminating"}}
    metadata["deletionGracePeriodSeconds"] = grace
    return marked


def waits(kind: Kind, obj: Object) -> bool:
    """Tell whether something must still be done before the object may go."""
    emptied_later = kind.resource == kube.NAMESPACES and bool(strings(obj, "spec", "finalizers"))
    grace = mapping(obj, "metadata").get("deletionGracePeriodSeconds", 0)
    return bool(strings(obj, "metadata", "finalizers")) or emptied_later or grace > 0


def marks_first(kind: Kind) -> bool:
    """Tell whether watchers see the deletion mark even on an object that goes at once: a pod's do."""
    return kind.resource == kube.PODS


def _body(kind: Kind, sent: Object) -> Object:
    body = {key: value for key, value in sent.items() if key not in ("metadata", "apiVersion", "kind")}
    cleaned: Object = pruned(body, kind.schema) if kind.custom else _without_nulls(body)
    return cleaned


def _without_nulls(value: Json) -> Json:
    """Drop nulls: in a typed object a null field is a missing one."""
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def _filled(body: Object, defaults: Object) -> Object:
    filled = {**defaults, **body}
    for key, default in defaults.items():
        if isinstance(default, dict) and isinstance(body.get(key), dict):
            filled[key] = {**default, **body[key]}
    return filled


def _without(obj: Object, *keys: str) -> Object:
    return {key: value for key, value in obj.items() if key not in keys}


def _only_status(kind: Kind, old: Object, new: Object) -> Object:
    """Return what a write to /status changes: of a custom object the status alone, else the metadata too."""
    status = {STATUS: new[STATUS]} if STATUS in new else {}
    metadata = dict(mapping(old if kind.custom else new, "metadata"))
    return {**_without(old, STATUS, "metadata"), **status, "metadata": metadata}


def _counted(kind: Kind, obj: Object) -> Object:
    """Return the part whose changes metadata.generation counts."""
    return _without(obj, "metadata", *([STATUS] if STATUS in kind.subresources else []))


def _claim_faults(kind: Kind, old: Object, new: Object) -> Iterator[str]:
    """A claim's spec is fixed, but for its volume and class while it has none, and its size once bound."""
    if kind.resource != kube.CLAIMS:
        return
    free = ["volumeAttributesClassName", *(["resources"] if text(old, STATUS, "phase") == "Bound" else [])]
    free += [key for key in ("volumeName", "storageClassName") if dig(old, "spec", key) is None]
    if _without(mapping(old, "spec"), *free) != _without(mapping(new, "spec"), *free):
        yield (
            "spec: Forbidden: spec is immutable after creation except resources.requests and "
            "volumeAttributesClassName for bound claims"
        )
    size = parse_bytes(text(new, "spec", "resources", "requests", "storage")) or 0
    if size < (parse_bytes(text(old, STATUS, "capacity", "storage")) or 0):
        yield "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"


def belongs(obj: Object, namespace: str) -> bool:
    """Tell whether the object's own word about its namespace agrees with the path."""
    return namespace_of(obj) in ("", namespace)
