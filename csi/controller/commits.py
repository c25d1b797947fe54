"""The changes of all machines' disks: one committer each, made when it is first needed."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from csi.controller.committer import Committer, Gate, Pace
from csi.controller.tickets import Ticket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from csi.controller.commit_plan import Change
    from csi.controller.host import HostView
    from harvester.machines import MachineName


class Commits:
    """Where calls ask for changes. Thread-safe."""

    def __init__(
        self,
        host: HostView,
        gate: Gate,
        pace: Pace | None = None,
        *,
        memory: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`memory`: seconds for which to know of a mark what became of the change that it was taken for."""
        self._host = host
        self._gate = gate
        self._pace = pace or Pace()
        self._memory = memory
        self._clock = clock
        self._lock = threading.Lock()
        self._committers: dict[MachineName, Committer] = {}
        self._marks: dict[str, tuple[float, Ticket | None]] = {}

    @contextmanager
    def asking(self, machine: MachineName, change: Change, mark: str = "") -> Iterator[Ticket]:
        """Ask for a change, and withdraw what of it is not under way at the end of the block."""
        ticket = Ticket(change, mark)
        with self._lock:
            committer = self._committers.get(machine)
            if committer is None:
                committer = Committer(machine, self._host, self._gate, self._pace, self._clock)
                self._committers[machine] = committer
        self._remember(mark, ticket)
        committer.join(ticket)
        try:
            yield ticket
        finally:
            committer.leave(ticket)

    def announce(self, mark: str) -> None:
        """Say that a mark is about to be written; no patch is on its way until one is asked for under it."""
        self._remember(mark, None)

    def settled(self, mark: str) -> bool:
        """Tell whether it is known that no patch which was decided under the mark can arrive any more.

        Of a mark that another process wrote, or that one before a restart, nothing is known.
        """
        with self._lock:
            known = self._marks.get(mark)
        return known is not None and (known[1] is None or known[1].settled)

    def close(self) -> None:
        """End all threads; who waits is told so."""
        with self._lock:
            committers = list(self._committers.values())
        for committer in committers:
            committer.close()

    def _remember(self, mark: str, ticket: Ticket | None) -> None:
        now = self._clock()
        with self._lock:
            for old in [key for key, (since, _) in self._marks.items() if now - since > self._memory]:
                del self._marks[old]
            if mark:
                self._marks[mark] = (now, ticket)
