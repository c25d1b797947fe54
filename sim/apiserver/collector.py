"""What controllers of every cluster do in the background: collect garbage, and empty dying namespaces.

A real API server has a controller manager beside it for that. An object goes when all its owners are gone,
also when they never were; owners are told apart by UID. The trap: it deletes as a client does, through
admission and finalizers, and by the version that it looked at.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Final

import structlog

from kube.objects import is_terminating, items, name_of, namespace_of, text, uid_of
from kube.resources import NAMESPACES
from sim.apiserver.calls import Call, User
from sim.apiserver.failures import Failure
from sim.apiserver.store import Feed
from sim.apiserver.writes import DeleteOptions

if TYPE_CHECKING:
    from kube.objects import Object
    from sim.apiserver.kinds import Kind, Kinds
    from sim.apiserver.store import Event, Key, Store
    from sim.apiserver.writes import Writer

COLLECTOR: Final = User("system:serviceaccount:kube-system:generic-garbage-collector", ("system:masters",))
EMPTIER: Final = User("system:serviceaccount:kube-system:namespace-controller", ("system:masters",))
PAUSE: Final = 0.5
"""Seconds until a deletion that was refused is tried again."""
_log = structlog.get_logger()


class Collector:
    """One thread that follows all objects from the first write on."""

    def __init__(self, store: Store, kinds: Kinds, writer: Writer) -> None:
        self._store = store
        self._kinds = kinds
        self._writer = writer
        self._living: set[str] = set()
        self._owned: defaultdict[str, dict[tuple[str, Key], Object]] = defaultdict(dict)
        """For each owner's UID what it owns, by where that is."""
        self._doomed: dict[tuple[str, Key], Object] = {}
        """Objects with no owner left, and namespaces that are being deleted."""
        self._feed: Feed[Event] = Feed(lambda event: event)
        self._thread = threading.Thread(target=self._run, name="apiserver-collector", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._store.follow("", self._feed, None)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._feed.end()
        self._thread.join()
        self._store.leave("", self._feed)

    def _run(self) -> None:
        while not self._feed.ended:
            for event in self._feed.take(PAUSE if self._doomed else None):
                self._see(event)
            for (place, key), obj in tuple(self._doomed.items()):
                if self._dispose(place, key, obj):
                    del self._doomed[place, key]

    def _see(self, event: Event) -> None:
        where = (event.place, event.key)
        if event.old is not None:
            for owner in _owners(event.old.object):
                self._owned[owner].pop(where, None)
        if event.new is not None:
            self._see_present(where, event.new.object)
        elif event.old is not None:
            self._doomed.pop(where, None)
            uid = uid_of(event.old.object)
            self._living.discard(uid)
            for place, obj in self._owned.pop(uid, {}).items():
                self._see_present(place, obj)

    def _see_present(self, where: tuple[str, Key], obj: Object) -> None:
        self._living.add(uid_of(obj))
        owners = _owners(obj)
        for owner in owners:
            self._owned[owner][where] = obj
        dying = where[0] == NAMESPACES.qualified and is_terminating(obj)
        if dying or (owners and self._living.isdisjoint(owners)):
            self._doomed[where] = obj
        else:
            self._doomed.pop(where, None)

    def _dispose(self, place: str, key: Key, obj: Object) -> bool:
        """Do away with one object; tell whether nothing is left to do."""
        try:
            if place == NAMESPACES.qualified and is_terminating(obj):
                return self._empty(obj)
            self._delete(self._kind(place), key, obj, COLLECTOR)
        except Failure as failure:
            if failure.code != 404:
                _log.info("not collected", place=place, name=key.name, error=failure.message)
            return failure.code == 404
        except Exception:  # noqa: BLE001 - the edge of the thread: one bad object must not end it
            _log.exception("collection failed", place=place, name=key.name)
            return True
        return True

    def _empty(self, namespace: Object) -> bool:
        """Delete what is in a dying namespace, and let it go when it is empty."""
        name, empty = name_of(namespace), True
        for place in {kind.place for kind in self._kinds if kind.resource.namespaced}:
            for key, stored in self._store.scan(place)[0]:
                if key.namespace == name:
                    empty = False
                    if not is_terminating(stored.object):
                        self._delete(self._kind(place), key, stored.object, EMPTIER)
        if empty:
            call = Call(EMPTIER, "update", "", NAMESPACES, name, name, "finalize")
            self._writer.update(self._kind(NAMESPACES.qualified), call, lambda old: {**old, "spec": {}})
        return empty

    def _delete(self, kind: Kind, key: Key, obj: Object, user: User) -> None:
        call = Call(user, "delete", "", kind.resource, namespace_of(obj), key.name)
        self._writer.delete(kind, call, DeleteOptions(uid=uid_of(obj)))

    def _kind(self, place: str) -> Kind:
        return next(kind for kind in self._kinds if kind.place == place)


def _owners(obj: Object) -> set[str]:
    return {text(owner, "uid") for owner in items(obj, "metadata", "ownerReferences")}
