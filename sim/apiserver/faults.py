"""What can go wrong between a client and the server, on demand, and what was asked.

A test adds rules; each says which calls it hits, how often, and with what effect. The trap: the effects are
part of the answer, so a rule hits one call of one client at a time, in the order of arrival.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from sim.apiserver.failures import Failure
from sim.apiserver.wire import HangUp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kube.resources import Resource
    from sim.apiserver.calls import Call
    from sim.apiserver.watches import WatchFeed

    Matches: TypeAlias = Callable[[Call], bool]

LOGGED: Final = 50_000
"""Requests that the log holds."""

Moment: TypeAlias = Literal["before", "after"]
"""When a crash point is reached: before a call is applied, or after, when its answer is not sent yet."""


@dataclass(frozen=True, slots=True)
class Delay:
    """Apply the call after some seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Fail:
    """Answer with an error, and apply nothing."""

    code: int
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """Close the connection, and apply nothing."""


@dataclass(frozen=True, slots=True)
class LoseAnswer:
    """Apply the call, then close the connection without an answer."""


@dataclass(frozen=True, slots=True)
class Stale:
    """Answer a get or a list as of this resourceVersion."""

    version: str


Effect: TypeAlias = Delay | Fail | Refuse | LoseAnswer | Stale


@dataclass(slots=True, eq=False)
class Rule:
    """One fault that was asked for."""

    matches: Matches
    effect: Effect
    left: int | None
    """How many calls it still hits; None means all."""
    hits: int = 0


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request that was answered, with its HTTP status; 0 when the connection was closed instead."""

    call: Call
    code: int


class RequestLog:
    """What was asked, in the order in which the answers were ready. A watch stands there once it is open."""

    def __init__(self) -> None:
        self._records: deque[RequestRecord] = deque(maxlen=LOGGED)

    def add(self, call: Call, code: int) -> None:
        """Note a request."""
        self._records.append(RequestRecord(call, code))

    def all(self) -> list[RequestRecord]:
        """Return all requests since the start, or since `clear`."""
        return list(self._records)

    def count(self, verb: str = "", resource: Resource | None = None, user: str = "") -> int:
        """Return how many requests there were, of one verb, resource and user where they are given."""
        matches = calls(verb, resource, user=user)
        return sum(matches(record.call) for record in self.all())

    def clear(self) -> None:
        """Forget all requests."""
        self._records.clear()


def calls(
    verb: str = "",
    resource: Resource | None = None,
    *,
    name: str = "",
    namespace: str = "",
    subresource: str | None = None,
    user: str = "",
) -> Matches:
    """Return a predicate for calls; what is left out may be anything."""
    wanted = {"verb": verb, "name": name, "namespace": namespace}
    wanted = {field: value for field, value in wanted.items() if value}

    def matches(call: Call) -> bool:
        return (
            all(getattr(call, field) == value for field, value in wanted.items())
            and (resource is None or call.resource == resource)
            and (subresource is None or call.subresource == subresource)
            and (not user or call.user.name == user)
        )

    return matches


class Faults:
    """The switchboard. Tests write to it, the server asks it; used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rules: list[Rule] = []
        self._crash_points: list[Callable[[Moment, Call], None]] = []
        self._frozen: list[Matches] = []
        self._watches: dict[WatchFeed, Call] = {}
        self.stopped = threading.Event()

    def add(self, matches: Matches, effect: Effect, times: int | None = 1) -> Rule:
        """Let the next `times` matching calls meet an effect; None means all until `remove` or `clear`."""
        rule = Rule(matches, effect, times)
        with self._lock:
            self._rules.append(rule)
        return rule

    def remove(self, rule: Rule) -> None:
        """End a rule."""
        with self._lock:
            self._rules = [each for each in self._rules if each is not rule]

    def clear(self) -> None:
        """End all rules and crash points, and thaw the watches."""
        with self._lock:
            self._rules, self._crash_points = [], []
        self.thaw()

    def at_crash_points(self, callback: Callable[[Moment, Call], None]) -> None:
        """Call back on each call before and after it is applied; HangUp closes the connection there."""
        with self._lock:
            self._crash_points.append(callback)

    def reach(self, moment: Moment, call: Call) -> None:
        """Be at a crash point."""
        for callback in tuple(self._crash_points):
            callback(moment, call)

    def meet(self, call: Call) -> list[Effect]:
        """Let a call meet its effects: wait, fail or hang up here; return those that concern its answer."""
        effects = [rule.effect for rule in self._hit(call)]
        for effect in effects:
            match effect:
                case Delay(seconds):
                    self.stopped.wait(seconds)
                case Fail(code, reason, message):
                    raise Failure(code, reason, message)
                case Refuse():
                    raise HangUp
                case _:
                    continue
        return effects

    def freeze_watches(self, matches: Matches) -> None:
        """Let matching watches, open or to come, give nothing, not even bookmarks, until `thaw`."""
        with self._lock:
            self._frozen.append(matches)
            for feed, call in self._watches.items():
                if matches(call):
                    feed.freeze(frozen=True)

    def thaw(self) -> None:
        """Let all watches go on with what they held back."""
        with self._lock:
            self._frozen = []
            for feed in self._watches:
                feed.freeze(frozen=False)

    def opened(self, feed: WatchFeed, call: Call) -> None:
        """Take a watch under control. One that opens while the server stops ends at once."""
        with self._lock:
            if self.stopped.is_set():
                feed.end()
            self._watches[feed] = call
            feed.freeze(frozen=any(matches(call) for matches in self._frozen))

    def closed(self, feed: WatchFeed) -> None:
        """Let go of a watch."""
        with self._lock:
            self._watches.pop(feed, None)

    def end_watches(self, matches: Matches = lambda _: True) -> int:
        """End matching watches, as a server does from time to time; return how many."""
        with self._lock:
            ending = [feed for feed, call in self._watches.items() if matches(call)]
        for feed in ending:
            feed.end()
        return len(ending)

    @property
    def open_watches(self) -> Iterable[Call]:
        """The calls whose watches are open."""
        with self._lock:
            return tuple(self._watches.values())

    def _hit(self, call: Call) -> list[Rule]:
        with self._lock:
            hit = [rule for rule in self._rules if rule.left != 0 and rule.matches(call)]
            for rule in hit:
                rule.hits += 1
                rule.left = None if rule.left is None else rule.left - 1
            return hit
