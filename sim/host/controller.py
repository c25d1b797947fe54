"""One controller: a queue of keys, a thread, and the reconcile that it calls. It can be made to stand
still."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import structlog

from kube.backoff import Backoff
from kube.errors import ApiError
from kube.workqueue import WorkQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from kube.store import Key

log = structlog.get_logger()

AGAIN: Final = Backoff(first=0.01, limit=5.0)
"""A host that runs on one machine notices a lost race at once."""


class Controller:
    """Calls `reconcile` with one key at a time; what it returns is the seconds after which to look again."""

    def __init__(self, name: str, reconcile: Callable[[Key], float | None]) -> None:
        self.name = name
        self._reconcile = reconcile
        self._queue: WorkQueue[Key] = WorkQueue(AGAIN)
        self._lock = threading.Lock()
        self._paused = False
        self._held: set[Key] = set()
        self._delayed: set[Key] = set()
        self._hurries = 0
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to work on keys."""
        self._thread.start()

    def stop(self) -> None:
        """End after the key at hand."""
        self._queue.shutdown()
        if self._thread.ident is not None:
            self._thread.join()

    def add(self, key: Key) -> None:
        """Let the controller look at the key."""
        if not self._holds(key):
            self._queue.add(key)

    def hurry(self) -> None:
        """Look at once at the keys that were to be looked at later: the delays have changed."""
        with self._lock:
            self._hurries += 1
            delayed, self._delayed = self._delayed, set()
        for key in delayed:
            self._queue.add(key)

    def pause(self) -> None:
        """Let the controller stand still from the next key on; keys that come meanwhile are held."""
        with self._lock:
            self._paused = True

    def resume(self, *, drop: bool = False) -> None:
        """Let the controller go on, with the keys that came meanwhile or, with `drop`, without them."""
        with self._lock:
            self._paused = False
            held, self._held = self._held, set()
        for key in held if not drop else ():
            self._queue.add(key)

    def _run(self) -> None:
        while (key := self._queue.take()) is not None:
            try:
                if not self._holds(key):
                    self._look(key)
            except ApiError as error:
                # A lost race, a webhook's refusal, a server that stops: the next look decides anew.
                pause = self._queue.retry(key)
                log.debug("look failed", controller=self.name, key=key, error=error.message, pause=pause)
            except Exception:
                log.exception("look failed", controller=self.name, key=key, pause=self._queue.retry(key))
            finally:
                self._queue.done(key)

    def _holds(self, key: Key) -> bool:
        with self._lock:
            if self._paused:
                self._held.add(key)
            return self._paused

    def _look(self, key: Key) -> None:
        with self._lock:
            self._delayed.discard(key)
            hurries = self._hurries
        again = self._reconcile(key)
        self._queue.forget(key)
        if again is not None:
            with self._lock:
                hurried = self._hurries != hurries
                self._delayed |= set() if hurried else {key}
            self._queue.add_after(key, 0.0 if hurried else again)
