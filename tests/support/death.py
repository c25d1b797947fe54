"""A process that dies at one of its calls to the host."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from sim.apiserver.wire import HangUp

if TYPE_CHECKING:
    from sim.apiserver.calls import Call
    from sim.apiserver.faults import Moment


class Death:
    """The end of a process as the host sees it: from one of its calls on nothing more comes.

    It dies before each of its calls, and after each write as well, when only the answer is lost. Between two
    writes nothing changes on the host, so that dying after a read is the same as dying before the next call.
    """

    def __init__(self, user: str, at: int) -> None:
        self.came = False
        self._user = user
        self._left = at
        self._lock = threading.Lock()

    def __call__(self, moment: Moment, call: Call) -> None:
        """Be at a crash point."""
        if call.user.name != self._user:
            return
        with self._lock:
            if moment == "before" or call.writes:
                self._left -= 1
            self.came = self._left < 0
        if self.came:
            raise HangUp
