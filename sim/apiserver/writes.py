"""Writing: read, change, admit, and put in place if nobody wrote meanwhile, else once more from the start.

No lock is held on the way, since admission hooks may ask the server themselves. The trap: a repeat starts
from the stored object again, so that a patch's `test` is made against what the write really replaces.
"""

from __future__ import annotations

import random
import string
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from kube.objects import (
    annotations_of,
    dig,
    is_terminating,
    items,
    mapping,
    name_of,
    text,
    uid_of,
    version_of,
)
from kube.quantity import parse_bytes
from kube.resources import CLAIMS, CRDS, NAMESPACES, STORAGE_CLASSES
from sim.apiserver import lifecycle
from sim.apiserver.admission import AdmissionRequest, Allowed, Denied
from sim.apiserver.failures import (
    Failure,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    not_found,
    wrong_incarnation,
)
from sim.apiserver.store import ChangedError, Key, TakenError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from kube.objects import Object
    from sim.apiserver.admission import AdmissionHook, Operation
    from sim.apiserver.calls import Call
    from sim.apiserver.kinds import Kind, Kinds
    from sim.apiserver.store import Store, Stored

    Change: TypeAlias = Callable[[Object], Object]

TRIES: Final = 30
"""Writers that meet at one object before one of them is told so."""
_SUFFIX: Final = string.ascii_lowercase + string.digits
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """What a delete asks for beyond the name; "" means any."""

    uid: str = ""
    version: str = ""
    grace: int | None = None


class Writer:
    """All writes. Each returns the object as it stands after the write, or as it stood when it went."""

    def __init__(
        self, store: Store, kinds: Kinds, hooks: Sequence[AdmissionHook], clock: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._kinds = kinds
        self._hooks = hooks
        self._clock = clock

    def create(self, kind: Kind, call: Call, sent: Object, *, dry_run: bool = False) -> Object:
        """Make a new object."""
        self._check_home(kind, call, sent)
        new = self._newborn(kind, call, sent)
        key = Key(call.namespace, name_of(new))
        new = self._admit("CREATE", kind, call, key, new, None, dry_run=dry_run)
        lifecycle.check_new(kind, new)
        if dry_run:
            if self._store.get(kind.place, key):
                raise already_exists(kind.resource, key.name)
            return new
        try:
            stored = self._store.create(kind.place, key, new)
        except TakenError:
            raise already_exists(kind.resource, key.name) from None
        self._learn(kind)
        return stored.object

    def update(self, kind: Kind, call: Call, change: Change, *, dry_run: bool = False) -> Object:
        """Put what `change` makes of the object in its place; the last finalizer gone, a dying one goes."""
        key = self._key(kind, call)
        for _ in range(TRIES):
            old = self._find(kind, key)
            sent = change(kind.whole(old.object))
            if (said := version_of(sent)) and said != str(old.version):
                break
            new = lifecycle.changed(kind, call.subresource, old.object, sent)
            new = self._admit("UPDATE", kind, call, key, new, old, dry_run=dry_run)
            lifecycle.check_change(kind, old.object, new)
            self._check_growth(kind, old.object, new)
            try:
                return new if dry_run else self._put(kind, key, old, new)
            except ChangedError:
                continue
        raise conflict(kind.resource, key.name)

    def replace(self, kind: Kind, call: Call, sent: Object, *, dry_run: bool = False) -> Object:
        """Put an object in place of the stored one."""
        if kind.custom and not version_of(sent):
            cause = "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
            raise invalid(kind.resource, call.name, [cause])
        if not name_of(sent):
            about = f"the name of the object ({call.name} based on URL) was undeterminable"
            raise bad_request(f"{about}: name must be provided")

        def change(old: Object) -> Object:
            if uid_of(sent) and uid_of(sent) != uid_of(old):
                found = f"UID in precondition: {uid_of(sent)}, UID in object meta: {uid_of(old)}"
                raise conflict(kind.resource, call.name, f"Precondition failed: {found}")
            return sent

        return self.update(kind, call, change, dry_run=dry_run)

    def delete(
        self, kind: Kind, call: Call, options: DeleteOptions, *, dry_run: bool = False
    ) -> Object | None:
        """Delete an object; return it while it still waits for something, None when it is gone."""
        key = self._key(kind, call)
        for _ in range(TRIES):
            old = self._find(kind, key)
            _check_preconditions(kind, old, options)
            self._admit("DELETE", kind, call, key, None, old, dry_run=dry_run)
            grace = lifecycle.grace_of(kind, old.object, options.grace)
            marked = lifecycle.leaving(kind, old.object, self._clock(), grace)
            if dry_run:
                return marked
            try:
                return self._let_go(kind, key, old, marked)
            except ChangedError:
                continue
        raise conflict(kind.resource, key.name)

    def _let_go(self, kind: Kind, key: Key, old: Stored, marked: Object) -> Object | None:
        waits = lifecycle.waits(kind, marked)
        if (waits or lifecycle.marks_first(kind)) and marked is not old.object:
            old = self._store.replace(kind.place, key, old, marked)
        if waits:
            return old.object
        self._remove(kind, key, old)
        return None

    def _put(self, kind: Kind, key: Key, old: Stored, new: Object) -> Object:
        if is_terminating(new) and not lifecycle.waits(kind, new):
            self._remove(kind, key, old)
            return new
        if new == old.object:
            return old.object
        stored = self._store.replace(kind.place, key, old, new)
        self._learn(kind)
        return stored.object

    def _remove(self, kind: Kind, key: Key, old: Stored) -> None:
        self._store.remove(kind.place, key, old)
        if kind.resource == CRDS:  # the definition's name is the place where its objects are
            for each, stored in self._store.scan(key.name)[0]:
                self._store.remove(key.name, each, stored)
        self._learn(kind)

    def _learn(self, kind: Kind) -> None:
        if kind.resource == CRDS:
            self._kinds.define(stored.object for _, stored in self._store.scan(kind.place)[0])

    def _newborn(self, kind: Kind, call: Call, sent: Object) -> Object:
        suffix = "".join(random.choices(_SUFFIX, k=5))
        birth = lifecycle.Birth(str(uuid.uuid4()), lifecycle.stamp(self._clock()), suffix)
        new = lifecycle.newborn(kind, sent, call.namespace, birth)
        if kind.resource == CLAIMS and dig(new, "spec", "storageClassName") is None:
            spec = {**mapping(new, "spec"), **self._default_class()}
            return {**new, "spec": spec}
        if kind.resource == CRDS:
            return {**new, "status": _established(new, birth.time)}
        return new

    def _default_class(self) -> Object:
        """Return what admission (DefaultStorageClass) adds to a claim that names no class."""
        classes = [stored.object for _, stored in self._store.scan(STORAGE_CLASSES.qualified)[0]]
        defaults = [each for each in classes if annotations_of(each).get(_DEFAULT_CLASS) == "true"]
        newest = max(defaults, key=lambda each: text(each, "metadata", "creationTimestamp"), default=None)
        return {"storageClassName": name_of(newest)} if newest else {}

    def _check_growth(self, kind: Kind, old: Object, new: Object) -> None:
        """Refuse what admission (PersistentVolumeClaimResize) refuses: growth of a class that has none."""
        if kind.resource != CLAIMS or _requested(new) <= _requested(old):
            return
        place = Key("", text(new, "spec", "storageClassName"))
        found = self._store.get(STORAGE_CLASSES.qualified, place)
        if found is None or dig(found.object, "allowVolumeExpansion") is not True:
            why = (
                "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc"
            )
            message = f'{kind.resource.qualified} "{name_of(new)}" is forbidden: {why} must support resize'
            raise forbidden(message, kind.resource, name_of(new))

    def _check_home(self, kind: Kind, call: Call, sent: Object) -> None:
        if not kind.resource.namespaced:
            return
        if not call.namespace:
            raise bad_request("an empty namespace may not be set during creation")
        if not lifecycle.belongs(sent, call.namespace):
            words = "the namespace of the provided object does not match the namespace sent on the request"
            raise bad_request(words)
        home = self._store.get(NAMESPACES.qualified, Key("", call.namespace))
        if home is None:
            raise not_found(NAMESPACES, call.namespace)
        if is_terminating(home.object):
            why = f"unable to create new content in namespace {call.namespace} because it is being terminated"
            cause = {"reason": "NamespaceTerminating", "field": "metadata.namespace"}
            message = f'{kind.resource.qualified} "{name_of(sent)}" is forbidden: {why}'
            raise forbidden(message, kind.resource, name_of(sent), {"causes": [cause]})

    def _admit(
        self,
        operation: Operation,
        kind: Kind,
        call: Call,
        key: Key,
        new: Object | None,
        old: Stored | None,
        *,
        dry_run: bool,
    ) -> Object:
        for hook in self._hooks:
            request = AdmissionRequest(
                operation,
                kind.resource,
                call.subresource,
                key.namespace,
                key.name,
                call.user.name,
                call.user.groups,
                None if new is None else kind.whole(new),
                None if old is None else kind.whole(old.object),
                dry_run,
            )
            match hook.review(request):
                case Denied() as denied:
                    raise Failure(denied.code, denied.reason, denied.words, {})
                case Allowed(object) if object is not None:
                    new = {
                        field: value for field, value in object.items() if field not in ("apiVersion", "kind")
                    }
        return new or {}

    def _key(self, kind: Kind, call: Call) -> Key:
        return Key(call.namespace if kind.resource.namespaced else "", call.name)

    def _find(self, kind: Kind, key: Key) -> Stored:
        if (stored := self._store.get(kind.place, key)) is None:
            raise not_found(kind.resource, key.name)
        return stored


def _requested(claim: Object) -> int:
    return parse_bytes(text(claim, "spec", "resources", "requests", "storage")) or 0


def _check_preconditions(kind: Kind, old: Stored, options: DeleteOptions) -> None:
    name, uid = name_of(old.object), uid_of(old.object)
    if options.uid and options.uid != uid:
        why = f"the UID in the precondition ({options.uid}) does not match the UID in record ({uid})."
        raise wrong_incarnation(
            kind.resource, name, f"{why} The object might have been deleted and then recreated"
        )
    if options.version and options.version != str(old.version):
        why = f"the ResourceVersion in the precondition ({options.version}) does not match"
        found = f"the ResourceVersion in record ({old.version}). The object might have been modified"
        raise wrong_incarnation(kind.resource, name, f"{why} {found}")


def _established(definition: Object, time: str) -> Object:
    """Return the status of a definition whose kinds are served: ours are, as soon as they are stored."""
    versions = [text(each, "name") for each in items(definition, "spec", "versions") if each.get("storage")]
    conditions = [
        {"type": kind, "status": "True", "reason": reason, "message": "", "lastTransitionTime": time}
        for kind, reason in (("NamesAccepted", "NoConflicts"), ("Established", "InitialNamesAccepted"))
    ]
    accepted = mapping(definition, "spec", "names")
    return {"conditions": conditions, "acceptedNames": accepted, "storedVersions": versions}
