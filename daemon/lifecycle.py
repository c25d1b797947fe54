"""How a daemon ends: a signal or a request says why, running work is given time, then the process leaves."""

from __future__ import annotations

import os
import queue
import signal
import sys
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from types import FrameType

DRAIN_LIMIT: Final = 25.0
"""Seconds that running work gets after a stop: less than the 30 s that a kubelet waits before it kills."""


class Stop:
    """The wish that the process ends; the first reason counts.

    A SimpleQueue and no Event: a signal handler runs inside whatever the main thread does just then, and
    `Event.set` deadlocks inside `Event.wait`. `SimpleQueue.put` is re-entrant.
    """

    def __init__(self) -> None:
        self._reasons: queue.SimpleQueue[str] = queue.SimpleQueue()

    def on_signals(self) -> None:
        """Take SIGTERM and SIGINT as the wish to end. Call from the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def request(self, reason: str) -> None:
        """Wish the end, from any thread."""
        self._reasons.put(reason)

    def wait(self) -> str:
        """Block until the end is wished, and return why."""
        return self._reasons.get()

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self.request(signal.Signals(number).name)


def leave(code: int) -> NoReturn:
    """End the process now, its output flushed.

    Threads that still wait (a call stuck in the kernel) must not hold the process, and the interpreter's own
    exit would join them.
    """
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)
