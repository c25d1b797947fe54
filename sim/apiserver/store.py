"""The objects, their versions, and what became of them: a small etcd.

The trap: objects are shared by every reader and every event, so nothing here or elsewhere ever changes one;
a write puts a new object in place of the old. There is one version counter for all, as in etcd.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from kube.objects import Object

HISTORY: Final = 5_000
"""Events that are kept per kind; a watch from before them is answered with 410."""

Line = TypeVar("Line")


class Key(NamedTuple):
    """Where an object is among its kind; `namespace` is "" for a cluster-scoped one."""

    namespace: str
    name: str


class TakenError(Exception):
    """There is an object of that name already."""


class ChangedError(Exception):
    """The object is not (or no longer) what the writer looked at."""


class ForgottenError(Exception):
    """That version is older than the history that is kept."""


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """One state of an object, without its kind and apiVersion: those depend on the version asked for."""

    object: Object
    version: int
    body: bytes
    """The object as JSON; it begins with `{"metadata":`."""

    def at(self, version: int) -> Stored:
        """Return the same state under another resourceVersion."""
        return _stored(self.object, version)


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """What became of one object: `old` None means it was made, `new` None that it went, as `gone`."""

    version: int
    place: str
    key: Key
    old: Stored | None
    new: Stored | None
    gone: Stored | None = None


class Follower(Protocol):
    """Somebody who is told of events, under the store's lock: be quick, and do not call the store."""

    def offer(self, event: Event) -> None:
        """Take in an event."""
        ...

    @property
    def caught_up(self) -> bool:
        """Whether every event so far was taken."""
        ...


class Feed(Generic[Line]):
    """What one watcher has yet to see. The store offers, one thread takes; a frozen feed gives nothing."""

    def __init__(self, translate: Callable[[Event], Line | None]) -> None:
        """Queue what `translate` makes of an event; None means that this watcher is not concerned."""
        self._translate = translate
        self._changed = threading.Condition()
        self._lines: deque[Line] = deque()
        self._frozen = False
        self.ended = False

    def offer(self, event: Event) -> None:
        """Take in an event."""
        if (line := self._translate(event)) is None:
            return
        with self._changed:
            self._lines.append(line)
            self._changed.notify()

    def take(self, timeout: float | None) -> list[Line]:
        """Wait for lines and take all; none after `timeout` seconds, or at the end. While frozen, wait on."""
        with self._changed:
            self._changed.wait_for(lambda: self.ended or (bool(self._lines) and not self._frozen), timeout)
            self._changed.wait_for(lambda: self.ended or not self._frozen)
            lines = [] if self.ended else list(self._lines)
            self._lines.clear()
            return lines

    @property
    def caught_up(self) -> bool:
        """Whether every event so far was taken."""
        return not self._lines

    def freeze(self, *, frozen: bool) -> None:
        """Let the feed give nothing, or again what it held back."""
        with self._changed:
            self._frozen = frozen
            self._changed.notify()

    def end(self) -> None:
        """Let the taker go home, frozen or not."""
        with self._changed:
            self.ended = True
            self._changed.notify()


@dataclass(slots=True)
class _Table:
    objects: dict[Key, Stored] = field(default_factory=dict)
    events: deque[Event] = field(default_factory=deque)
    forgotten: int = 0
    """Version of the newest event that is no longer kept."""


class Store:
    """All objects of all kinds. A `place` is a kind's plural with its group. Used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._version = 1
        self._forgotten = 0
        self._tables: dict[str, _Table] = {}
        self._followers: dict[str, list[Follower]] = {}

    @property
    def version(self) -> int:
        """The version of the newest write."""
        return self._version

    def get(self, place: str, key: Key) -> Stored | None:
        """Return the object as it is now."""
        table = self._tables.get(place)
        return table.objects.get(key) if table else None

    def scan(self, place: str, version: int | None = None) -> tuple[list[tuple[Key, Stored]], int]:
        """Return all objects of a kind in the order of their keys, and the version that the list stands for.

        A `version` asks for the list as it was then. Raises ForgottenError.
        """
        with self._lock:
            objects = self._tables[place].objects if place in self._tables else {}
            if version is not None:
                objects = self._as_it_was(place, version)
            return sorted(objects.items(), key=_by_key), version or self._version

    def create(self, place: str, key: Key, obj: Object) -> Stored:
        """Put in a new object. Raises TakenError."""
        with self._lock:
            if key in self._table(place).objects:
                raise TakenError
            new = _stored(obj, self._version + 1)
            self._commit(Event(new.version, place, key, None, new))
            return new

    def replace(self, place: str, key: Key, old: Stored, obj: Object) -> Stored:
        """Put a new state in place of the one that the writer looked at. Raises ChangedError."""
        with self._lock:
            self._expect(place, key, old)
            new = _stored(obj, self._version + 1)
            self._commit(Event(new.version, place, key, old, new))
            return new

    def remove(self, place: str, key: Key, old: Stored) -> Stored:
        """Take out the object in the state that the writer looked at. Raises ChangedError."""
        with self._lock:
            self._expect(place, key, old)
            gone = old.at(self._version + 1)
            self._commit(Event(gone.version, place, key, old, None, gone))
            return gone

    def follow(
        self, place: str, follower: Follower, since: int | None
    ) -> tuple[list[tuple[Key, Stored]], int]:
        """Offer all events after `since`, from now on until `leave`. The place "" means all kinds.

        Without `since` it begins now, and the present objects are returned, with their version.
        Raises ForgottenError.
        """
        with self._lock:
            table = self._tables.get(place, _Table())
            if since is not None and since < max(table.forgotten, self._forgotten):
                raise ForgottenError
            for event in table.events:
                if since is not None and event.version > since:
                    follower.offer(event)
            self._followers.setdefault(place, []).append(follower)
            present = sorted(table.objects.items(), key=_by_key) if since is None else []
            return present, self._version

    def leave(self, place: str, follower: Follower) -> None:
        """Offer nothing more."""
        with self._lock:
            self._followers[place].remove(follower)

    def caught_up(self, follower: Follower) -> int | None:
        """Return the present version when the follower has taken all events up to it, else None."""
        with self._lock:
            return self._version if follower.caught_up else None

    def forget_before(self, version: int) -> None:
        """Drop the history before a version, as etcd's compaction does."""
        with self._lock:
            self._forgotten = max(self._forgotten, version)

    def _as_it_was(self, place: str, version: int) -> dict[Key, Stored]:
        table = self._table(place)
        if version < max(table.forgotten, self._forgotten):
            raise ForgottenError
        objects = dict(table.objects)
        for event in reversed(table.events):
            if event.version <= version:
                break
            if event.old is None:
                del objects[event.key]
            else:
                objects[event.key] = event.old
        return objects

    def _table(self, place: str) -> _Table:
        return self._tables.setdefault(place, _Table())

    def _expect(self, place: str, key: Key, old: Stored) -> None:
        if self._table(place).objects.get(key) is not old:
            raise ChangedError

    def _commit(self, event: Event) -> None:
        table = self._table(event.place)
        self._version = event.version
        if event.new is None:
            del table.objects[event.key]
        else:
            table.objects[event.key] = event.new
        table.events.append(event)
        if len(table.events) > HISTORY:
            table.forgotten = table.events.popleft().version
        for follower in (*self._followers.get(event.place, ()), *self._followers.get("", ())):
            follower.offer(event)


def _by_key(item: tuple[Key, Stored]) -> Key:
    return item[0]


def _stored(obj: Object, version: int) -> Stored:
    metadata = {**obj["metadata"], "resourceVersion": str(version)}
    whole = {"metadata": metadata, **{key: value for key, value in obj.items() if key != "metadata"}}
    return Stored(whole, version, json.dumps(whole, separators=(",", ":"), ensure_ascii=False).encode())
