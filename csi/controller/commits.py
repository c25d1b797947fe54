"""The changes of all machines' disks: one committer each, made when it is first needed."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from csi.controller.committer import Committer, Gate, Pace
from csi.controller.tickets import Ticket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from csi.controller.commit_plan import Change
    from csi.controller.host import HostView
    from harvester.machines import MachineName


MEMORY: Final = 900.0


class Commits:
    """Where calls ask for changes. Thread-safe."""

    def __init__(
        self,
        host: HostView,
        gate: Gate,
        pace: Pace | None = None,
        *,
        memory: float = MEMORY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`memory`: seconds for which to know what became of a change; more than a mark's patience."""
        self._host = host
        self._gate = gate
        self._pace = pace or Pace()
        self._memory = memory
        self._clock = clock
        self._lock = threading.Lock()
        self._committers: dict[MachineName, Committer] = {}
        self._known: dict[str, tuple[float, Ticket | None]] = {}
        """By mark: when it was written, and what was asked for under it. A ticket's own mark may be newer."""

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
            known = [
                ticket for _, ticket in self._known.values() if ticket is not None and ticket.mark == mark
            ]
            return all(ticket.settled for ticket in known) if known else mark in self._known

    def close(self) -> None:
        """End all threads; who waits is told so."""
        with self._lock:
            committers = list(self._committers.values())
        for committer in committers:
            committer.close()

    def _remember(self, mark: str, ticket: Ticket | None) -> None:
        now = self._clock()
        with self._lock:
            for old in [key for key, (since, _) in self._known.items() if now - since > self._memory]:
                del self._known[old]
            if mark:
                self._known[mark] = (now, ticket)
