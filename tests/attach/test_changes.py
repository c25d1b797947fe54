"""Waiting for the host: who is woken, who looks, and when a wait is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from csi.controller.changes import Changes, Patience
from csi.deadline import Deadline
from csi.errors import Cancelled, TimedOut, Unavailable
from tests.attach.bench import Call, poll

if TYPE_CHECKING:
    from csi.controller.changes import Key

A: Key = ("virtualmachines", "vm-a")
B: Key = ("virtualmachines", "vm-b")
SILENT = Patience(silence=0.05, stall=60)
DEAF = Patience(silence=60, stall=60)


class Host:
    """What a waiter looks at: `cached` is what the watches have heard, `live` what is so."""

    def __init__(self, cached: str = "", live: str = "", words: str = "the host") -> None:
        self.cached = cached
        self.live = live
        self.words = words
        self.looks: list[bool] = []

    def look(self, live: bool) -> str | None:
        """Look, and note how."""
        self.looks.append(live)
        return (self.live if live else self.cached) or None

    def what(self) -> str:
        """Say what is waited for."""
        return self.words


def test_what_is_so_already_is_not_waited_for() -> None:
    """The first look is enough when it finds what is wanted."""
    host = Host(cached="ready")
    assert Changes(DEAF).wait([A], host.look, Deadline(60), host.what) == "ready"
    assert host.looks == [False]


def test_a_change_of_what_is_listened_to_wakes() -> None:
    """A waiter looks again when one of its keys is rung, and not for the keys of others."""
    host, changes = Host(), Changes(DEAF)
    call = Call(lambda: changes.wait([A], host.look, Deadline(60), host.what))
    poll(lambda: len(host.looks) == 1)
    changes.ring(B)
    host.cached = "ready"
    changes.ring(A)
    assert call.result() == "ready"
    assert host.looks == [False, False]


def test_silence_is_not_trusted() -> None:
    """A waiter whose watch is frozen finds by itself what has come true."""
    host = Host(cached="", live="ready")
    assert Changes(SILENT).wait([A], host.look, Deadline(60), host.what) == "ready"
    assert host.looks == [False, True]


def test_at_the_end_of_the_time_there_is_one_more_live_look() -> None:
    """What came true unheard is found before the answer is given."""
    host = Host(cached="", live="ready")
    assert Changes(DEAF).wait([A], host.look, Deadline(0.05), host.what) == "ready"
    assert host.looks == [False, True]


def test_the_words_of_a_wait_that_timed_out_say_what_it_waited_for() -> None:
    """The reader learns what was missing, and that it is safe to call again."""
    host = Host(words="the disk of VM vm-a")
    with pytest.raises(TimedOut, match="waiting for the disk of VM vm-a; it is safe to call again"):
        Changes(DEAF).wait([A], host.look, Deadline(0.05), host.what)


def test_what_does_not_change_is_not_waited_for_for_ever() -> None:
    """The same state for too long ends the wait, however often it is told."""
    host, changes = Host(words="phase Pending"), Changes(Patience(silence=60, stall=0.2))
    call = Call(lambda: changes.wait([A], host.look, Deadline(60), host.what))
    for _ in range(3):
        changes.ring(A)
    error = call.error()
    assert isinstance(error, TimedOut)
    assert "nothing has changed" in error.message


def test_a_state_that_changes_is_waited_for() -> None:
    """Each new state begins the time anew."""
    now = [0.0]
    host = Host(words="phase Pending")
    changes = Changes(Patience(silence=60, stall=90), clock=lambda: now[0])
    call = Call(lambda: changes.wait([A], host.look, Deadline(60), host.what))
    poll(lambda: len(host.looks) == 1)
    now[0], host.words = 80.0, "phase AttachedToNode"
    changes.ring(A)
    poll(lambda: len(host.looks) == 2)
    now[0] = 160.0
    changes.ring(A)
    poll(lambda: len(host.looks) == 3)
    host.cached = "ready"
    changes.ring(A)
    assert call.result() == "ready"


@pytest.mark.parametrize(("end", "error"), [("cancel", Cancelled), ("stop", Unavailable)])
def test_an_interrupted_wait_ends_at_once(end: str, error: type[Exception]) -> None:
    """Nobody waits for the answer any more: no last look is taken."""
    host, changes, deadline = Host(live="ready"), Changes(DEAF), Deadline(60)
    call = Call(lambda: changes.wait([A], host.look, deadline, host.what))
    poll(lambda: len(host.looks) == 1)
    getattr(deadline, end)()
    assert isinstance(call.error(), error)
    assert True not in host.looks


def test_a_waiter_that_has_gone_leaves_nothing() -> None:
    """A bell that nobody listens to any more is forgotten."""
    changes = Changes()
    with changes.listening([A, B]) as bell:
        changes.ring_all()
        assert bell.is_set()
    bell.clear()
    changes.ring(A)
    changes.ring_all()
    assert not bell.is_set()
