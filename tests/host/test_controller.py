"""A controller's own behaviour: it can stand still, go on, forget, and it survives what its work raises."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING

import pytest

from kube.errors import Conflict
from kube.store import Key
from sim.host.controller import Controller
from sim.host.timers import Timers

if TYPE_CHECKING:
    from collections.abc import Iterator

A, B = Key("ns", "a"), Key("ns", "b")
LIMIT = 5.0
LONG = 3600.0


class Work:
    """A reconcile that tells what it was called with, and answers as it is told."""

    def __init__(self) -> None:
        self.calls: queue.Queue[Key] = queue.Queue()
        self.answers: list[float | Exception | None] = []

    def __call__(self, key: Key) -> float | None:
        """Take the next answer, None when there is none."""
        self.calls.put(key)
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def next(self) -> Key:
        """Return the next key that it is called with."""
        return self.calls.get(timeout=LIMIT)

    def came(self, within: float) -> bool:
        """Tell whether it is called within so many seconds."""
        try:
            self.calls.get(timeout=within)
        except queue.Empty:
            return False
        return True


@pytest.fixture
def work() -> Work:
    """Return a reconcile that answers None."""
    return Work()


@pytest.fixture
def controller(work: Work) -> Iterator[Controller]:
    """Start a controller over the work."""
    controller = Controller("test", work)
    controller.start()
    yield controller
    controller.stop()


@pytest.mark.parametrize("failure", [Conflict("raced"), ValueError("a fault of ours")])
def test_what_fails_is_tried_again(controller: Controller, work: Work, failure: Exception) -> None:
    """A lost race and a fault of our own both lead to another look."""
    work.answers = [failure]
    controller.add(A)
    assert [work.next(), work.next()] == [A, A]


def test_a_paused_controller_keeps_what_comes(controller: Controller, work: Work) -> None:
    """Nothing is looked at while it stands still; all of it after that."""
    controller.pause()
    controller.add(A)
    controller.add(B)
    controller.resume()
    assert {work.next(), work.next()} == {A, B}


def test_a_controller_may_forget_what_came(controller: Controller, work: Work) -> None:
    """What came during a pause is never looked at when it is dropped."""
    controller.add(B)
    assert work.next() == B
    controller.pause()
    controller.add(A)
    controller.resume(drop=True)
    controller.add(B)
    assert work.next() == B


def test_hurry_ends_a_delay(controller: Controller, work: Work) -> None:
    """A key that was to be looked at later is looked at now."""
    work.answers = [LONG]
    controller.add(A)
    assert work.next() == A
    for _ in range(100):  # the answer may not be taken in yet
        controller.hurry()
        if work.came(within=0.05):
            return
    pytest.fail("the key was not looked at again")


def test_a_timer_begins_at_the_first_look() -> None:
    """A delay is over so many seconds after its first mention, by whatever delay holds then."""
    clock = [100.0]
    timers = Timers(lambda: clock[0])
    assert timers.left("a", 3.0) == 3.0
    clock[0] = 102.0
    assert timers.left("a", 3.0) == 1.0
    assert timers.left("a", 1.0) == 0.0
    timers.forget("a")
    assert timers.left("a", 3.0) == 3.0
