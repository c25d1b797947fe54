"""One call's wish that a machine's disks change, and what became of it.

The trap: a call may go away while its wish is being carried out. What is not yet under way is withdrawn then;
what is under way belongs to nobody, and only its outcome says whether it may still arrive at the host.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from csi.controller.commit_plan import Change
    from csi.errors import CsiError


class Stage(Enum):
    """How far a ticket is."""

    WAITING = auto()
    SENDING = auto()
    """In a patch that is on its way."""
    DONE = auto()
    """The template is as asked."""
    FAILED = auto()
    WITHDRAWN = auto()


@dataclass(slots=True, eq=False)
class Ticket:
    """A wish. Written by its machine's committer only, read by the call that asked."""

    change: Change
    mark: str = ""
    """For an add: the value of `attached-to` under which it was decided."""
    stage: Stage = Stage.WAITING
    error: CsiError | None = None
    """Why it failed; also why a disk that was added was taken out again."""
    in_doubt: bool = False
    """A patch for it was sent, and nobody knows whether it will arrive."""

    @property
    def settled(self) -> bool:
        """Whether no patch for it can arrive at the host any more."""
        return not self.in_doubt and self.stage in {Stage.DONE, Stage.FAILED, Stage.WITHDRAWN}

    def fail(self, error: CsiError) -> None:
        """Note why the wish does not come, or has not come, true."""
        self.stage, self.error = Stage.FAILED, error
