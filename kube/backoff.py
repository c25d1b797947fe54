"""How long to wait before the next try. A value: it neither waits nor counts."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_EXPONENT_LIMIT: Final = 64
"""Beyond it every sensible delay has met its limit, and the power would overflow a float one day."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential delays in seconds, `first` to `limit`, each shortened by up to the share `jitter`.

    The jitter keeps the clients of a server that comes back from asking all at once.
    """

    first: float = 0.2
    limit: float = 30.0
    factor: float = 2.0
    jitter: float = 0.5

    def delay(self, failures: int, chance: Callable[[], float] = random.random) -> float:
        """Return the seconds to wait after `failures` (1 or more) in a row; `chance` yields [0, 1)."""
        full = min(self.limit, self.first * self.factor ** min(failures - 1, _EXPONENT_LIMIT))
        return full * (1 - self.jitter * chance())
