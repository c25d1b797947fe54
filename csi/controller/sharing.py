"""One reading of the host for all who want one at the same time.

The trap: a reading that began before the question was asked does not answer it. Who comes while one runs
shares the next.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class SharedReading(Generic[T]):
    """Calls `read` for all that ask, one call at a time."""

    def __init__(self, read: Callable[[], T]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._next: Future[T] | None = None

    def __call__(self) -> T:
        """Return the result of a reading that began after this call; raises what the reading raised."""
        with self._lock:
            mine = self._next is None
            reading = self._next = self._next or Future()
        if mine:
            self._perform(reading)
        return reading.result()

    def _perform(self, reading: Future[T]) -> None:
        with self._turn:
            with self._lock:
                self._next = None
            try:
                reading.set_result(self._read())
            except BaseException as error:  # noqa: BLE001  # handed on to all who wait for it
                reading.set_exception(error)
