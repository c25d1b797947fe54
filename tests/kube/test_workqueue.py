"""The work queue, with a clock that the test moves."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from kube.backoff import Backoff
from kube.workqueue import WorkQueue

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 10.0
DOUBLING = Backoff(first=1.0, limit=300.0, jitter=0.0)


class Clock:
    """Seconds that pass when the test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def work(clock: Clock) -> Iterator[WorkQueue[str]]:
    queue: WorkQueue[str] = WorkQueue(DOUBLING, clock)
    yield queue
    queue.shutdown()


def drain(queue: WorkQueue[str]) -> list[str]:
    """Take and finish all keys that are ready."""
    keys = []
    while (key := queue.take(timeout=0)) is not None:
        keys.append(key)
        queue.done(key)
    return keys


def test_keys_come_in_the_order_of_their_adds_and_once(work: WorkQueue[str]) -> None:
    """Adds of a key that waits already are folded into one."""
    for key in ("b", "a", "b"):
        work.add(key)
    assert len(work) == 2
    assert drain(work) == ["b", "a"]


def test_a_running_key_is_not_handed_out_again_before_it_is_done(work: WorkQueue[str]) -> None:
    """Adds while a key runs become one re-run after it."""
    work.add("a")
    assert work.take(timeout=0) == "a"
    work.add("a")
    work.add("a")
    assert work.take(timeout=0) is None
    work.done("a")
    assert drain(work) == ["a"]


def test_a_delayed_key_comes_when_it_is_due(work: WorkQueue[str], clock: Clock) -> None:
    """A delayed add is invisible until its time."""
    work.add_after("a", 5)
    clock.now = 4.9
    assert drain(work) == []
    clock.now = 5.0
    assert drain(work) == ["a"]


def test_the_earliest_of_several_delays_counts(work: WorkQueue[str], clock: Clock) -> None:
    """A key with several delayed adds runs once, at the earliest."""
    for delay in (9, 3, 6):
        work.add_after("a", delay)
    clock.now = 3.0
    assert drain(work) == ["a"]
    clock.now = 100.0
    assert drain(work) == []


def test_a_delayed_add_of_a_running_key_waits_for_its_end(work: WorkQueue[str], clock: Clock) -> None:
    """A key that becomes due while it runs is run again afterwards, not at once."""
    work.add("a")
    work.take(timeout=0)
    work.add_after("a", 1)
    clock.now = 2.0
    assert work.take(timeout=0) is None
    work.done("a")
    assert drain(work) == ["a"]


def test_a_key_that_fails_waits_longer_each_time_until_it_is_forgotten(
    work: WorkQueue[str], clock: Clock
) -> None:
    """The back-off is the key's own, and begins anew after a success."""
    assert [work.retry("a"), work.retry("a"), work.retry("b")] == [1.0, 2.0, 1.0]
    work.forget("a")
    assert work.retry("a") == 1.0
    clock.now = 1.0
    assert sorted(drain(work)) == ["a", "b"]


def test_shutdown_ends_waiting_takers_and_hands_out_nothing_more() -> None:
    """A taker that waits for ever gets None; what still waits is forgotten."""
    queue: WorkQueue[str] = WorkQueue()
    taken: list[str | None] = []
    taker = threading.Thread(target=lambda: taken.append(queue.take()))
    taker.start()
    assert queue.shutdown()
    taker.join(PATIENCE)
    queue.add("a")
    assert [*taken, queue.take()] == [None, None]


def test_workers_never_run_a_key_twice_at_once() -> None:
    """Four workers and a key that is added all the time: one runs at once, and the last add is seen."""
    queue: WorkQueue[str] = WorkQueue()
    guard = threading.Lock()
    wanted, seen, overlaps = 0, 0, 0
    caught_up = threading.Event()

    def count(_key: str) -> None:
        nonlocal seen, overlaps
        if not guard.acquire(blocking=False):
            overlaps += 1
            return
        seen = wanted
        guard.release()
        if seen == 500:
            caught_up.set()

    queue.run_workers(4, count)
    for _ in range(500):
        wanted += 1
        queue.add("a")
    assert caught_up.wait(PATIENCE)
    assert queue.shutdown(PATIENCE)
    assert overlaps == 0


def test_work_that_raises_is_logged_and_tried_again() -> None:
    """A worker outlives the faults of its work; the key comes back, and its success is remembered."""
    queue: WorkQueue[str] = WorkQueue(Backoff(first=0.01, limit=1.0, jitter=0.0))
    tries: list[str] = []
    succeeded = threading.Event()

    def fail_first(key: str) -> None:
        tries.append(key)
        if len(tries) == 1:
            raise RuntimeError("not yet")
        succeeded.set()

    with capture_logs() as lines:
        queue.run_workers(1, fail_first)
        queue.add("a")
        assert succeeded.wait(PATIENCE)
        assert queue.shutdown(PATIENCE)
    assert tries == ["a", "a"]
    assert [(line["event"], line["key"]) for line in lines] == [("work failed", "a")]
    assert queue.retry("a") == 0.01


def test_a_delayed_key_is_noticed_by_workers_that_wait() -> None:
    """A delay that is asked for while all workers wait without a limit is kept nevertheless."""
    queue: WorkQueue[str] = WorkQueue()
    ran = threading.Event()
    queue.run_workers(2, lambda _key: ran.set())
    queue.add_after("a", 0.05)
    assert ran.wait(PATIENCE)
    assert queue.shutdown(PATIENCE)


def test_shutdown_tells_of_work_that_does_not_end() -> None:
    """Shutdown waits as long as it was told, and says that something still runs."""
    queue: WorkQueue[str] = WorkQueue()
    begun, end = threading.Event(), threading.Event()

    def hang(_key: str) -> None:
        begun.set()
        end.wait(PATIENCE)

    queue.run_workers(1, hang)
    queue.add("a")
    assert begun.wait(PATIENCE)
    assert not queue.shutdown(timeout=0.01)
    end.set()
    assert queue.shutdown(PATIENCE)
