"""The changes of one machine's disks: collected while it is busy, then sent in one patch, one at a time.

A thread does this, and lives only while there is work, so that a commit depends on no call's deadline. What a
machine is doing is decided in csi.controller.rest_plan, what goes when in csi.controller.commit_plan.

The trap: the cache lags behind our own patch, and then a busy machine looks at rest. So the cache only says
that it may be time; what is sent is decided on a live look.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from csi.controller.commit_plan import Commit, Hold, plan_commit
from csi.controller.failures import failure
from csi.controller.host import machine_keys
from csi.controller.penalties import Penalties
from csi.controller.rest_plan import Rest, State, plan_rest, suspects
from csi.controller.tickets import Stage, Ticket
from csi.errors import Broken, CsiError, Unavailable
from csi.model import VolumeId
from harvester.hotplug_patch import hotplug_patch
from kube.backoff import Backoff
from kube.errors import ApiError, Conflict, Expired, Refused, TooManyRequests, Unauthorized, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from csi.controller.changes import Key
    from csi.controller.claims import HostClaim
    from csi.controller.commit_plan import CommitPlan
    from csi.controller.host import HostView
    from csi.controller.layers import MachineView
    from harvester.machines import Machine, MachineName

_UNKNOWN: Final = (Unreachable, TooManyRequests, Expired, Unauthorized)
"""Errors after which the same patch is tried again; of the first nobody knows whether it took place."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How machines are patched. Seconds."""

    collect: float = 0.05
    """At rest: wait for others that come at the same time."""
    admit: float = 20.0
    """For the last look at the claims: those that it did not come to wait for the next patch."""
    stuck: float = 60.0
    """After it left rest: look for a disk of ours that keeps the attachment pod from running."""
    first_penalty: float = 60.0
    """Such a disk is not tried again for so long; doubles with each time."""
    most_penalty: float = 600.0
    trouble: Backoff = field(default_factory=lambda: Backoff(first=0.1, limit=5.0))
    """After the host could not be read or patched."""
    wait_for_rest: bool = True
    """False patches at will: what the rule is good for shows without it."""


class Gate(Protocol):
    """What a committer asks about claims, live."""

    def admit(self, volume: VolumeId, mark: str) -> str:
        """Return the mark under which the volume may be plugged now; raises why it must not be."""
        ...

    def is_young(self, mark: str) -> bool:
        """Tell whether a patch may still be sent under the mark."""
        ...

    def held(self, volume: VolumeId, machine: MachineName) -> HostClaim | None:
        """Return the claim if its mark says that the machine holds it."""
        ...


def asked_key(machine: MachineName) -> Key:
    """Return what a committer listens to for its tickets."""
    return "asked", machine


def told_key(machine: MachineName) -> Key:
    """Return what calls listen to for the outcome of their tickets."""
    return "told", machine


class Committer:
    """Changes one machine. `join` and `leave` may come from any thread."""

    def __init__(
        self, machine: MachineName, host: HostView, gate: Gate, pace: Pace, clock: Callable[[], float]
    ) -> None:
        self._machine = machine
        self._host = host
        self._gate = gate
        self._pace = pace
        self._clock = clock
        self._lock = threading.Lock()
        self._tickets: list[Ticket] = []
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._penalties = Penalties(pace.first_penalty, pace.most_penalty, clock)
        self._busy_since: float | None = None
        self._watching = False
        """A change of ours, or a disk of ours that hangs, is followed until the machine is at rest."""
        self._patched_from = ""
        """The resourceVersion that our last patch replaced: a cache that still shows it tells nothing."""
        self._failures = 0
        self._log = structlog.get_logger().bind(machine=machine)

    def join(self, ticket: Ticket) -> None:
        """Take a wish in; a disk under penalty fails at once, one that had a penalty goes alone."""
        volume = ticket.change.volume
        if ticket.change.add and (standing := self._penalties.standing(volume)):
            ticket.fail(standing)
            return
        if ticket.change.add and self._penalties.known(volume):
            ticket.change = replace(ticket.change, alone=True)
        with self._lock:
            self._tickets.append(ticket)
            if self._thread is None:
                self._busy_since = None
                self._thread = threading.Thread(
                    target=self._run, name=f"committer-{self._machine}", daemon=True
                )
                self._thread.start()
        self._host.changes.ring(asked_key(self._machine))

    def leave(self, ticket: Ticket) -> None:
        """Let a call go: a wish that is not under way is withdrawn."""
        with self._lock:
            if ticket.stage is Stage.WAITING:
                ticket.stage = Stage.WITHDRAWN
            if ticket in self._tickets:
                self._tickets.remove(ticket)
        self._host.changes.ring(asked_key(self._machine))

    def close(self) -> None:
        """End the thread; wishes that wait fail."""
        self._stop.set()
        self._host.changes.ring(asked_key(self._machine))
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()

    # --- the thread ---

    def _run(self) -> None:
        changes = self._host.changes
        live = False
        try:
            with changes.listening([asked_key(self._machine), *machine_keys(self._machine)]) as bell:
                while self._has_work():
                    bell.clear()
                    pause = self._round(live=live)
                    live = not bell.wait(pause)
        except Exception:  # noqa: BLE001 - the edge of the thread
            structlog.get_logger().exception("committer failed", machine=self._machine)
            self._end(Broken(f"the driver failed while changing VM {self._machine}; its log says how"))

    def _has_work(self) -> bool:
        """Tell whether to go on; the thread is over, for whoever joins next, when the answer is no."""
        with self._lock:
            if not self._stop.is_set() and (self._tickets or self._watching):
                return True
            self._thread = None
        if self._stop.is_set():
            self._end(Unavailable("the driver is stopping; call again"))
        return False

    def _end(self, error: CsiError) -> None:
        with self._lock:
            self._thread = None
            left = [ticket for ticket in self._tickets if ticket.stage in {Stage.WAITING, Stage.SENDING}]
        self._fail(left, error)

    def _round(self, *, live: bool) -> float:
        """Look once, and commit if it is time; return the seconds after which to look live."""
        try:
            if self._is_time(live=live) and not self._stop.wait(self._pace.collect):
                self._commit()
        except CsiError as error:
            return self._trouble(error)
        self._failures = 0
        return self._patience()

    def _is_time(self, *, live: bool) -> bool:
        view = self._host.look(self._machine) if live else self._host.seen(self._machine)
        stale = view.machine is not None and view.machine.resource_version == self._patched_from
        return not (stale and not live) and isinstance(self._decide(view), Commit)

    def _trouble(self, error: CsiError) -> float:
        self._failures += 1
        self._log.warning("machine cannot be changed now", why=error.message)
        return self._pace.trouble.delay(self._failures)

    def _patience(self) -> float:
        silence = self._host.changes.patience.silence
        stuck = 0.0 if self._busy_since is None else self._busy_since + self._pace.stuck - self._clock()
        return min(silence, stuck) if stuck > 0 else silence

    # --- observe, plan ---

    def _decide(self, view: MachineView) -> CommitPlan:
        rest = plan_rest(view)
        self._note(view, rest)
        culprits = self._culprits(view, rest)
        with self._lock:
            asked = [ticket.change for ticket in self._tickets if ticket.stage is Stage.WAITING]
        if not self._pace.wait_for_rest and rest.state is State.MOVING:
            rest = Rest(State.AT_REST)
        return plan_commit(rest, asked, culprits)

    def _note(self, view: MachineView, rest: Rest) -> None:
        """Keep in mind since when the machine is busy, and forgive disks that have arrived."""
        if rest.state is State.MOVING:
            self._watching = self._watching or bool(suspects(view, rest))
            self._busy_since = self._clock() if self._busy_since is None else self._busy_since
            return
        self._busy_since, self._watching = None, False
        if rest.state is State.AT_REST and view.live is not None:
            for volume in view.live.volumes:
                self._penalties.forgive(VolumeId(volume.claim))

    def _culprits(self, view: MachineView, rest: Rest) -> frozenset[VolumeId]:
        """Return the disks of ours that keep the pod from running, once it has been so for too long.

        Whoever waits is told when there is none: a foreign disk, or none at all, is not ours to mend.
        """
        if self._busy_since is None or self._clock() - self._busy_since < self._pace.stuck:
            return frozenset()
        held = [self._gate.held(volume, self._machine) for volume in sorted(suspects(view, rest))]
        ours = [claim for claim in held if claim is not None]
        unbound = [claim for claim in ours if not claim.bound]
        culprits = frozenset(claim.name for claim in unbound or ours)
        if not culprits:
            self._watching = False
            words = f"waited too long for {rest.why}; the platform team can see why on the host"
            self._fail(self._waiting(), Unavailable(words))
        return culprits

    # --- act ---

    def _commit(self) -> None:
        view = self._host.look(self._machine)
        plan = self._decide(view)
        if isinstance(plan, Hold):
            return
        tickets = self._admitted(self._taken(plan))
        if view.machine is None:
            self._done(tickets)
        elif plan.expelled:
            self._expel(view, view.machine, tickets, plan.expelled)
        elif tickets:
            self._send(view.machine, tickets)

    def _taken(self, plan: Commit) -> list[Ticket]:
        """Take the tickets of the plan under way: from here on they cannot be withdrawn."""
        with self._lock:
            taken = [t for t in self._tickets if t.stage is Stage.WAITING and t.change in plan.changes]
            for ticket in taken:
                ticket.stage = Stage.SENDING
        return taken

    def _admitted(self, tickets: Sequence[Ticket]) -> list[Ticket]:
        """Read the claim of each disk that is to come; what may not come fails."""
        begun = self._clock()
        admitted: list[Ticket] = []
        for ticket in tickets:
            if self._clock() - begun > self._pace.admit:
                self._again([ticket])
                continue
            try:
                if ticket.change.add:
                    ticket.mark = self._gate.admit(ticket.change.volume, ticket.mark)
            except CsiError as error:
                self._fail([ticket], error)
            else:
                admitted.append(ticket)
        return self._still_young(admitted)

    def _still_young(self, tickets: Sequence[Ticket]) -> list[Ticket]:
        """Put back those whose mark has aged while the others were admitted: it is renewed the next time."""
        old = [t for t in tickets if t.change.add and not self._gate.is_young(t.mark)]
        self._again(old)
        return [ticket for ticket in tickets if ticket not in old]

    def _send(
        self, machine: Machine, tickets: Sequence[Ticket], expelled: Collection[VolumeId] = ()
    ) -> Machine:
        """Patch the machine for all tickets; where that is refused, for each alone.

        Returns the machine as it is then, as far as is known.
        """
        adds = {ticket.change.volume for ticket in tickets if ticket.change.add}
        removes = {ticket.change.volume for ticket in tickets if not ticket.change.add} | set(expelled)
        operations = hotplug_patch(machine, adds, removes)
        try:
            after = self._host.patch_machine(self._machine, operations) if operations else machine
        except Refused as error:
            if len(tickets) + len(expelled) > 1:
                return self._send_each(machine, tickets, expelled)
            self._fail(tickets, failure(error, self._doing(adds, removes)))
        except Conflict:
            self._again(tickets)
        except _UNKNOWN as error:
            self._again(tickets, in_doubt=isinstance(error, Unreachable))
            raise failure(error, self._doing(adds, removes)) from error
        except ApiError as error:
            self._fail(tickets, failure(error, self._doing(adds, removes)))
        else:
            if operations:
                self._busy_since, self._watching = self._clock(), True
                self._patched_from = machine.resource_version
                self._log.info("machine patched", added=sorted(adds), removed=sorted(removes))
            self._done(tickets)
            return after
        return machine

    def _send_each(
        self, machine: Machine, tickets: Sequence[Ticket], expelled: Collection[VolumeId]
    ) -> Machine:
        for volume in expelled:
            machine = self._send(machine, [], [volume])
        for ticket in tickets:
            machine = self._send(machine, [ticket])
        return machine

    def _doing(self, adds: Collection[VolumeId], removes: Collection[VolumeId]) -> str:
        words = [f"plug {', '.join(sorted(adds))} into"] if adds else []
        words += [f"unplug {', '.join(sorted(removes))} from"] if removes else []
        return f"{' and '.join(words)} VM {self._machine}"

    def _expel(
        self, view: MachineView, machine: Machine, tickets: Sequence[Ticket], expelled: Collection[VolumeId]
    ) -> None:
        """Send the tickets and take out the disks that hold the machine up.

        Calls that wait for such a disk must not see it missing before they are told why.
        """
        with self._lock:
            waiting = [t for t in self._tickets if t.stage is Stage.DONE and t.change.volume in expelled]
            for ticket in waiting:
                ticket.stage = Stage.SENDING
        after = machine
        try:
            after = self._send(machine, tickets, expelled)
        finally:
            for volume in sorted(expelled):
                wanted = [ticket for ticket in waiting if ticket.change.volume == volume]
                if after.volume_of(volume) is None:
                    self._fail(wanted, self._punished(volume, plan_rest(view).why))
                else:
                    self._done(wanted)

    def _punished(self, volume: VolumeId, why: str) -> CsiError:
        self._log.warning("disk taken out", volume=volume, why=why)
        told = f"volume {volume} was taken out of VM {self._machine} after waiting too long for {why}"
        return self._penalties.punish(volume, told)

    # --- outcomes ---

    def _waiting(self) -> list[Ticket]:
        with self._lock:
            return [ticket for ticket in self._tickets if ticket.stage is Stage.WAITING]

    def _done(self, tickets: Sequence[Ticket]) -> None:
        for ticket in tickets:
            ticket.stage, ticket.in_doubt = Stage.DONE, False
        self._host.changes.ring(told_key(self._machine))

    def _fail(self, tickets: Sequence[Ticket], error: CsiError) -> None:
        for ticket in tickets:
            ticket.fail(error)
        self._host.changes.ring(told_key(self._machine))

    def _again(self, tickets: Sequence[Ticket], *, in_doubt: bool = False) -> None:
        """Put tickets back; those whose call has gone meanwhile are withdrawn."""
        with self._lock:
            for ticket in tickets:
                ticket.in_doubt = ticket.in_doubt or in_doubt
                ticket.stage = Stage.WAITING if ticket in self._tickets else Stage.WITHDRAWN
        self._host.changes.ring(asked_key(self._machine))
