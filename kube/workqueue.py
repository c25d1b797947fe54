"""A queue of keys to reconcile: a key never runs twice at once, and adds meanwhile become one re-run.

The keys are names, not events: whoever takes one looks at the present state, so that adds may be folded and,
at shutdown, forgotten.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections import Counter, deque
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import structlog

from kube.backoff import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

K = TypeVar("K", bound="Hashable")

_FAILED_KEYS: Final = Backoff(first=0.5, limit=300.0)
_log = structlog.get_logger()


class WorkQueue(Generic[K]):
    """Keys in the order of their adds, some of them later. Used from any number of threads."""

    def __init__(self, backoff: Backoff = _FAILED_KEYS, clock: Callable[[], float] = time.monotonic) -> None:
        """Delay failed keys by `backoff`; `clock` counts seconds and never goes back."""
        self._backoff = backoff
        self._clock = clock
        self._changed = threading.Condition()
        self._ready: deque[K] = deque()
        self._wanted: set[K] = set()
        """Keys to run: those in `_ready`, and those that were added while they run."""
        self._running: set[K] = set()
        self._later: list[tuple[float, int, K]] = []
        """A heap of (due, number of the entry, key); an entry that `_due` does not confirm is void."""
        self._due: dict[K, float] = {}
        self._entries = 0
        self._failures: Counter[K] = Counter()
        self._closed = False
        self._workers: list[threading.Thread] = []

    def add(self, key: K) -> None:
        """Let the key run as soon as a worker is free; once more, if it runs just now."""
        with self._changed:
            self._want(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Let the key run in `seconds`. Of several delayed adds of one key the earliest counts."""
        with self._changed:
            due = self._clock() + seconds
            if seconds <= 0:
                self._want(key)
            elif due < self._due.get(key, float("inf")):
                self._due[key] = due
                self._entries += 1
                heapq.heappush(self._later, (due, self._entries, key))
                self._changed.notify_all()  # each waiting worker must know: the one told may soon be busy

    def retry(self, key: K) -> float:
        """Let a key that failed run again after its back-off, and return the delay in seconds."""
        with self._changed:
            self._failures[key] += 1
            delay = self._backoff.delay(self._failures[key])
        self.add_after(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """Let the next failure of the key be its first."""
        with self._changed:
            self._failures.pop(key, None)

    def take(self, timeout: float | None = None) -> K | None:
        """Wait for a key and take it; `done` must follow. None after `timeout` seconds or at shutdown."""
        end = None if timeout is None else self._clock() + timeout
        with self._changed:
            while not self._closed:
                now = self._clock()
                pause = self._wake(now)
                if self._ready:
                    return self._begin()
                if end is not None:
                    if now >= end:
                        return None
                    pause = end - now if pause is None else min(pause, end - now)
                self._changed.wait(pause)
            return None

    def done(self, key: K) -> None:
        """Give back a key; it is queued again if it was added meanwhile."""
        with self._changed:
            self._running.discard(key)
            if key in self._wanted:
                self._enqueue(key)

    def run_workers(self, count: int, work: Callable[[K], None]) -> None:
        """Start `count` threads that call `work` with one key after another until shutdown.

        A key whose work raises is logged and tried again after its back-off; one that ends well is forgotten.
        """
        for number in range(count):
            worker = threading.Thread(target=self._work, args=(work,), name=f"worker-{number}", daemon=True)
            self._workers.append(worker)
            worker.start()

    def shutdown(self, timeout: float = 5.0) -> bool:
        """Hand out nothing more and wait for running work; tell whether it ended within `timeout` seconds."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        end = time.monotonic() + timeout
        for worker in self._workers:
            worker.join(max(0.0, end - time.monotonic()))
        return not any(worker.is_alive() for worker in self._workers)

    def __len__(self) -> int:
        """Return how many keys wait for a worker now."""
        with self._changed:
            self._wake(self._clock())
            return len(self._ready)

    def _work(self, work: Callable[[K], None]) -> None:
        while (key := self.take()) is not None:
            try:
                work(key)
            except Exception:  # noqa: BLE001 - the thread's edge
                delay = self.retry(key)
                _log.exception("work failed", key=key, retry_in=round(delay, 1))
            else:
                self.forget(key)
            finally:
                self.done(key)

    def _want(self, key: K) -> None:
        if key in self._wanted:
            return
        self._wanted.add(key)
        if key not in self._running:
            self._enqueue(key)

    def _enqueue(self, key: K) -> None:
        self._ready.append(key)
        self._changed.notify()

    def _begin(self) -> K:
        key = self._ready.popleft()
        self._wanted.discard(key)
        self._running.add(key)
        return key

    def _wake(self, now: float) -> float | None:
        """Queue the keys that are due, and return the seconds to the next one, None where there is none."""
        while self._later:
            due, _, key = self._later[0]
            if self._due.get(key) == due:
                if due > now:
                    return due - now
                del self._due[key]
                self._want(key)
            heapq.heappop(self._later)
        return None
