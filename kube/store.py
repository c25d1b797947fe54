"""The objects that an informer knows, by key and by index, and what became of them as they change.

The trap: the objects are shared by all readers and must not be changed.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kube.objects import name_of, namespace_of, uid_of, version_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kube.objects import Object

Indexer: TypeAlias = "Callable[[Object], Iterable[str]]"
"""Returns the values under which an object is to be found."""


class Key(NamedTuple):
    """Where an object is; `namespace` is "" for a cluster-scoped one."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one object: added (`old` is None), gone (`new` is None), or changed."""

    old: Object | None
    new: Object | None


class Store:
    """A set of objects with indexes. Written by one informer, read by any thread."""

    def __init__(self, indexers: Mapping[str, Indexer] | None = None) -> None:
        self._lock = threading.Lock()
        self._objects: dict[Key, Object] = {}
        self._indexes = {name: _Index(find) for name, find in (indexers or {}).items()}

    def get(self, name: str, namespace: str = "") -> Object | None:
        """Return the object, or None where none is known, which proves nothing."""
        with self._lock:
            return self._objects.get(Key(namespace, name))

    def list(self) -> tuple[Object, ...]:
        """Return all objects."""
        with self._lock:
            return tuple(self._objects.values())

    def by_index(self, index: str, value: str) -> tuple[Object, ...]:
        """Return the objects that the indexer named `index` files under `value`."""
        with self._lock:
            return tuple(self._objects[key] for key in sorted(self._indexes[index].keys(value)))

    def put(self, obj: Object) -> Sequence[Change]:
        """Take in an object as it is now, and return what is new about it."""
        with self._lock:
            return self._set(_key(obj), obj)

    def discard(self, obj: Object) -> Sequence[Change]:
        """Take in that an object is gone."""
        with self._lock:
            return self._set(_key(obj), None)

    def replace(self, objects: Iterable[Object]) -> Sequence[Change]:
        """Take in that these are all objects that there are."""
        present = {_key(obj): obj for obj in objects}
        with self._lock:
            gone = dict.fromkeys(key for key in self._objects if key not in present)
            return [change for key, new in (gone | present).items() for change in self._set(key, new)]

    def _set(self, key: Key, new: Object | None) -> Sequence[Change]:
        old = self._objects.get(key)
        changes = _changes(old, new)
        if changes:
            for index in self._indexes.values():
                index.file(key, new)
            if new is None:
                del self._objects[key]
            else:
                self._objects[key] = new
        return changes


class _Index:
    """Where objects are filed by one indexer."""

    def __init__(self, find: Indexer) -> None:
        self._find = find
        self._keys: dict[str, set[Key]] = {}
        self._values: dict[Key, frozenset[str]] = {}

    def keys(self, value: str) -> Iterable[Key]:
        return self._keys.get(value, ())

    def file(self, key: Key, obj: Object | None) -> None:
        new = frozenset() if obj is None else frozenset(self._find(obj))
        old = self._values.pop(key, frozenset())
        if new:
            self._values[key] = new
        for value in old - new:
            self._keys[value].discard(key)
            if not self._keys[value]:
                del self._keys[value]
        for value in new - old:
            self._keys.setdefault(value, set()).add(key)


def _changes(old: Object | None, new: Object | None) -> Sequence[Change]:
    """Tell what happened between two looks; another UID means that one object went and another came."""
    if old is None or new is None:
        return [] if old is new else [Change(old, new)]
    if uid_of(old) != uid_of(new):
        return [Change(old, None), Change(None, new)]
    return [] if version_of(old) == version_of(new) else [Change(old, new)]


def _key(obj: Object) -> Key:
    return Key(namespace_of(obj), name_of(obj))
