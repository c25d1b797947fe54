"""Watches: what a client is told of the changes of one kind, from a version on.

The trap: a selector is applied to both states of an object, so one that ceases to match is told as DELETED.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from sim.apiserver.failures import expired
from sim.apiserver.store import Feed, ForgottenError

if TYPE_CHECKING:
    from sim.apiserver.calls import Call
    from sim.apiserver.kinds import Kind
    from sim.apiserver.selectors import Test
    from sim.apiserver.store import Event, Key, Store, Stored
    from sim.apiserver.wire import Connection

Line: TypeAlias = "tuple[str, Stored]"
WatchFeed: TypeAlias = Feed[Line]

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
NEVER: Final = 1e9


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """What the client asked for. Times are in seconds."""

    since: int | None
    """None begins with all present objects as ADDED."""
    bookmarks: bool
    marks_initial_end: bool
    """Whether a bookmark tells the end of these."""
    timeout: float


class ObjectWatch:
    """One watch. It follows from the moment it is made."""

    def __init__(self, store: Store, kind: Kind, call: Call, matches: Test, options: WatchOptions) -> None:
        """Begin to follow; raises Failure (410) when the version is too old."""
        self._store = store
        self._kind = kind
        self._namespace = call.namespace
        self._name = call.name
        self._matches = matches
        self._options = options
        self.feed: WatchFeed = Feed(self._translate)
        try:
            present, self._version = store.follow(kind.place, self.feed, options.since)
        except ForgottenError:
            raise expired("The resourceVersion for the provided watch is too old.") from None
        self._present = [stored for key, stored in present if self._within(key) and matches(stored.object)]

    def close(self) -> None:
        """Cease to follow."""
        self._store.leave(self._kind.place, self.feed)

    def serve(self, connection: Connection, bookmark_interval: float) -> None:
        """Send events until the client goes, the feed ends or the time is over."""
        connection.begin_stream()
        connection.send(b"".join(self._line("ADDED", stored) for stored in self._present))
        if self._options.marks_initial_end:
            connection.send(self._bookmark(self._version, {INITIAL_EVENTS_END: "true"}))
        now = time.monotonic()
        end = now + self._options.timeout
        bookmark = now + (bookmark_interval if self._options.bookmarks else NEVER)
        while not self.feed.ended and now < end:
            lines = self.feed.take(min(bookmark, end) - now)
            connection.send(b"".join(self._line(*line) for line in lines))
            now = time.monotonic()
            if now >= bookmark and (version := self._store.caught_up(self.feed)):
                connection.send(self._bookmark(version, {}))
                bookmark = now + bookmark_interval
        connection.end_stream()

    def _within(self, key: Key) -> bool:
        """Tell by the key alone what can concern this watch: with many watches, most events end here."""
        return self._namespace in ("", key.namespace) and self._name in ("", key.name)

    def _translate(self, event: Event) -> Line | None:
        if not self._within(event.key):
            return None
        new, old = event.new, event.old
        matched = old is not None and self._matches(old.object)
        if new is not None and self._matches(new.object):
            return ("MODIFIED" if matched else "ADDED"), new
        if old is not None and matched:
            return "DELETED", event.gone or old.at(event.version)
        return None

    def _line(self, kind: str, stored: Stored) -> bytes:
        return b'{"type":"%b","object":%b}\n' % (kind.encode(), self._kind.wire(stored.body))

    def _bookmark(self, version: int, annotations: dict[str, str]) -> bytes:
        metadata = {"resourceVersion": str(version), **({"annotations": annotations} if annotations else {})}
        body = json.dumps({"metadata": metadata}).encode()
        return b'{"type":"BOOKMARK","object":%b}\n' % self._kind.wire(body)
