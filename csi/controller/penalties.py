"""Disks that kept a machine's attachment pod from running: why, and until when they are not tried again.

What is remembered here only spares the machine new starts; after a restart of the driver a disk is tried
again at once, and has its minute like the first time.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from csi.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from csi.model import VolumeId


@dataclass(frozen=True, slots=True)
class _Penalty:
    why: str
    delay: float
    until: float


class Penalties:
    """The penalties of one machine's disks. Times in seconds; each doubles the one before. Thread-safe."""

    def __init__(self, first: float, most: float, clock: Callable[[], float]) -> None:
        self._first = first
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._penalties: dict[VolumeId, _Penalty] = {}

    def punish(self, volume: VolumeId, why: str) -> Unavailable:
        """Keep the disk away for a while; returns what to tell whoever wants it."""
        with self._lock:
            before = self._penalties.get(volume)
            delay = min(2 * before.delay, self._most) if before else self._first
            self._penalties[volume] = penalty = _Penalty(why, delay, self._clock() + delay)
        return self._error(penalty)

    def standing(self, volume: VolumeId) -> Unavailable | None:
        """Return what to tell whoever wants the disk now, None when it may be tried."""
        with self._lock:
            penalty = self._penalties.get(volume)
        return self._error(penalty) if penalty and penalty.until > self._clock() else None

    def known(self, volume: VolumeId) -> bool:
        """Tell whether the disk has made trouble, so that it is tried alone."""
        with self._lock:
            return volume in self._penalties

    def forgive(self, volume: VolumeId) -> None:
        """Forget what the disk did: it has arrived."""
        with self._lock:
            self._penalties.pop(volume, None)

    def _error(self, penalty: _Penalty) -> Unavailable:
        left = penalty.until - self._clock()
        return Unavailable(f"{penalty.why}; it is tried again in {left:.0f} s")
