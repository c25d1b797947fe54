"""Delays that a controller keeps between two reconciles: begun at the first look, over at a later one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Timers:
    """Named timers of one controller. Tokens are UIDs, so that a new incarnation begins anew."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun: dict[str, float] = {}

    def left(self, token: str, delay: float) -> float:
        """Return the seconds until `delay` is over since the first call for the token; 0.0 when it is."""
        begun = self._begun.setdefault(token, self._clock())
        return max(0.0, begun + delay - self._clock())

    def forget(self, token: str) -> None:
        """Drop the token; the next call begins anew."""
        self._begun.pop(token, None)
