"""How long one call may wait, and what ends its waiting early.

A wait ends at the earliest of: the caller's deadline less 10 % (at least 0.5 s), `--max-wait`, the caller's
cancellation, the driver's stop. One value carries them all, so that no wait invents a time limit of its own.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from csi.errors import Cancelled, CsiError, TimedOut, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable


def seconds_to_wait(remaining: float | None, max_wait: float) -> float:
    """Return the seconds a call may wait; `remaining` is the caller's deadline, None when it sent none.

    Callers such as csi-sanity send no deadline, and grpc then reports an astronomical one.
    """
    if remaining is None:
        return max_wait
    return max(0.0, min(remaining - max(0.1 * remaining, 0.5), max_wait))


class Deadline:
    """The end of one call's waiting. Thread-safe; `interrupt` may come from any thread."""

    def __init__(self, seconds: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ends = clock() + seconds
        self._lock = threading.Lock()
        self._interruption: CsiError | None = None
        self._listeners: list[Callable[[], None]] = []

    def remaining(self) -> float:
        """Return the seconds left, 0 when over or interrupted."""
        if self._interruption is not None:
            return 0.0
        return max(0.0, self._ends - self._clock())

    def cancel(self) -> None:
        """The caller went away."""
        self._interrupt(Cancelled("the caller ended the call"))

    def stop(self) -> None:
        """The driver is stopping."""
        self._interrupt(Unavailable("the driver is stopping; call again"))

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` once when the call is interrupted (at once if it is); return how to stop listening."""
        with self._lock:
            if self._interruption is None:
                self._listeners.append(wake)
                return lambda: self._forget(wake)
        wake()
        return lambda: None

    def check(self, waiting_for: str) -> None:
        """Raise Cancelled, Unavailable or TimedOut (naming `waiting_for`) when the wait is over."""
        if self._interruption is not None:
            raise self._interruption
        if self.remaining() <= 0:
            raise TimedOut(
                f"the call's time is over while waiting for {waiting_for}; it is safe to call again"
            )

    def _interrupt(self, why: CsiError) -> None:
        with self._lock:
            if self._interruption is not None:
                return
            self._interruption = why
            listeners, self._listeners = self._listeners, []
        for wake in listeners:
            wake()

    def _forget(self, wake: Callable[[], None]) -> None:
        with self._lock:
            if wake in self._listeners:
                self._listeners.remove(wake)
