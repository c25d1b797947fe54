"""Waiting for a machine to show a volume as ready, or not to show it any more.

Both look at the cache when a watch has heard something, and live when it has been silent. What ends the
wait is always decided on a live look.

The trap: the outcome of a ticket must be read before the look that is judged by it, and once more after. A
look from before the commit shows a machine without the disk, and so does one from after our own committer
took it out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from csi.controller.attach_plan import Plug, plan_attach
from csi.controller.committer import told_key
from csi.controller.detach_plan import Unplug, plan_detach
from csi.controller.host import machine_keys
from csi.controller.layers import traces
from csi.controller.rest_plan import plan_rest
from csi.controller.steps import Done, Refuse, Wait
from csi.controller.tickets import Stage
from csi.errors import Busy

if TYPE_CHECKING:
    from collections.abc import Callable

    from csi.controller.attach_plan import AttachPlan
    from csi.controller.detach_plan import DetachPlan
    from csi.controller.host import HostView
    from csi.controller.layers import MachineView
    from csi.controller.tickets import Ticket
    from csi.deadline import Deadline
    from csi.model import VolumeId
    from harvester.machines import MachineName


class AttachWait:
    """Waits for one volume to be ready in one machine; `ticket` None where the template lists it already."""

    def __init__(self, host: HostView, volume: VolumeId, machine: MachineName, ticket: Ticket | None) -> None:
        self._host = host
        self._volume = volume
        self._machine = machine
        self._ticket = ticket
        self._what = f"VM {machine}"

    def wait(self, deadline: Deadline) -> MachineView:
        """Return the live look that shows the volume as ready."""
        keys = [*machine_keys(self._machine), told_key(self._machine)]
        return self._host.wait(keys, self._look, deadline, lambda: self._what)

    def _look(self, live: bool) -> MachineView | None:
        plugged = _is_done(self._ticket)
        view = self._host.look(self._machine) if live else self._host.seen(self._machine)
        step = plan_attach(self._volume, view, begun=True)
        if not live and self._ends(step, plugged=plugged):
            return self._look(True)
        match step:
            case Done():
                return view
            case Refuse(error):
                raise error
            case Wait(what):
                self._what = what
            case Plug() if plugged and _is_done(self._ticket):
                raise Busy(f"another call took volume {self._volume} out of VM {self._machine}; call again")
            case Plug():
                self._what = plan_rest(view).why or f"VM {self._machine} to be changed"
        return None

    def _ends(self, step: AttachPlan, *, plugged: bool) -> bool:
        return isinstance(step, Done | Refuse) or (isinstance(step, Plug) and plugged)


class DetachWait:
    """Waits until no layer of a machine shows a volume; `ask` makes the ticket if the template lists it."""

    def __init__(
        self, host: HostView, volume: VolumeId, machine: MachineName, ask: Callable[[], None]
    ) -> None:
        self.ticket: Ticket | None = None
        self.seen = False
        """Whether any look showed the volume."""
        self._host = host
        self._volume = volume
        self._machine = machine
        self._ask = ask
        self._what = f"VM {machine}"

    def wait(self, deadline: Deadline) -> None:
        """Return once a live look shows nothing."""
        if self._look(True) is None:
            keys = [*machine_keys(self._machine), told_key(self._machine)]
            self._host.wait(keys, self._look, deadline, lambda: self._what)

    def _look(self, live: bool) -> bool | None:
        unplugged = _is_done(self.ticket)
        view = self._host.look(self._machine) if live else self._host.seen(self._machine)
        step = plan_detach(self._volume, view)
        if not live and self._ends(step, unplugged=unplugged):
            return self._look(True)
        self.seen = self.seen or (live and bool(traces(view, self._volume)))
        match step:
            case Done():
                return True
            case Refuse(error):
                raise error
            case Wait(what):
                self._what = what
            case Unplug() if unplugged and _is_done(self.ticket):
                raise Busy(
                    f"volume {self._volume} was put into VM {self._machine} again meanwhile; call again"
                )
            case Unplug():
                self._what = plan_rest(view).why or f"VM {self._machine} to be changed"
                if self.ticket is None:
                    self._ask()
        return None

    def _ends(self, step: DetachPlan, *, unplugged: bool) -> bool:
        return isinstance(step, Done | Refuse) or (isinstance(step, Unplug) and unplugged)


def _is_done(ticket: Ticket | None) -> bool:
    """Tell whether the change is in the template; raises what the ticket ended in."""
    if ticket is not None and ticket.error is not None:
        raise ticket.error
    return ticket is not None and ticket.stage is Stage.DONE
