"""Waiting for the host: threads that wait for objects are woken when a watch hears of them.

The trap: a watch can fall silent without ending. So a waiter that hears nothing looks by itself, live, and
looks live once more before it says that its time is over.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from csi.errors import TimedOut

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from csi.deadline import Deadline

Key: TypeAlias = tuple[str, str]
"""What may change: a kind of thing (plural of the API, or a word of ours) and its name."""

T = TypeVar("T")

Look: TypeAlias = "Callable[[bool], T | None]"
"""Looks at the host, live if True, else at what the watches have heard; returns None to go on waiting."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a waiter bears what. Seconds."""

    silence: float = 5.0
    """Nothing heard: look live. Doubles while that shows nothing either."""
    stall: float = 90.0
    """The words of what is waited for stay the same: give up."""


class Changes:
    """Who waits for what. Any thread rings, any thread waits."""

    def __init__(
        self, patience: Patience | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.patience = patience or Patience()
        self._clock = clock
        self._lock = threading.Lock()
        self._bells: defaultdict[Key, set[threading.Event]] = defaultdict(set)

    def ring(self, *keys: Key) -> None:
        """Wake all who listen to one of the keys."""
        with self._lock:
            bells = {bell for key in keys for bell in self._bells.get(key, ())}
        for bell in bells:
            bell.set()

    def ring_all(self) -> None:
        """Wake everybody."""
        with self._lock:
            bells = {bell for each in self._bells.values() for bell in each}
        for bell in bells:
            bell.set()

    @contextmanager
    def listening(self, keys: Collection[Key]) -> Iterator[threading.Event]:
        """Yield an event that is set whenever one of the keys is rung."""
        bell = threading.Event()
        with self._lock:
            for key in keys:
                self._bells[key].add(bell)
        try:
            yield bell
        finally:
            with self._lock:
                for key in keys:
                    self._bells[key].discard(bell)
                    if not self._bells[key]:
                        del self._bells[key]

    def wait(self, keys: Collection[Key], look: Look[T], deadline: Deadline, what: Callable[[], str]) -> T:
        """Return what `look` finds, once it finds something; what it raises ends the wait.

        `what` says what is being waited for, and on which state; when that stays the same for too long, the
        wait is over. Raises TimedOut, Cancelled or Unavailable with these words.
        """
        with self.listening(keys) as bell:
            unlisten = deadline.listen(bell.set)
            try:
                return self._wait(bell, look, deadline, what)
            finally:
                unlisten()

    def _wait(self, bell: threading.Event, look: Look[T], deadline: Deadline, what: Callable[[], str]) -> T:
        live, silence = False, self.patience.silence
        state, since = "", self._clock()
        while True:
            bell.clear()
            if (found := look(live)) is not None:
                return found
            if what() != state:
                state, since = what(), self._clock()
            left = min(deadline.remaining(), since + self.patience.stall - self._clock())
            if left <= 0:
                return self._last_look(look, deadline, what, looked=live)
            live = not bell.wait(min(silence, left))
            silence = 2 * silence if live else self.patience.silence

    def _last_look(self, look: Look[T], deadline: Deadline, what: Callable[[], str], *, looked: bool) -> T:
        """Look once more, live, unless nobody wants the answer any more; then say why the wait is over."""
        try:
            deadline.check(what())
            over = TimedOut(
                f"nothing has changed for {self.patience.stall:.0f} s while waiting for {what()}; call again"
            )
        except TimedOut as error:
            over = error
        if not looked and (found := look(True)) is not None:
            return found
        raise over
