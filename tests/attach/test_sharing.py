"""One reading for all who ask at the same time."""

from __future__ import annotations

import threading

import pytest

from csi.controller.sharing import SharedReading
from tests.attach.bench import Call, poll


class Source:
    """Something slow to read: each reading waits until it is let go."""

    def __init__(self) -> None:
        self.begun = 0
        self.value = "old"
        self.go = threading.Semaphore(0)

    def read(self) -> str:
        """Read the value as it is when the reading begins."""
        self.begun += 1
        value = self.value
        assert self.go.acquire(timeout=10)
        return value


def test_who_asks_while_one_reads_gets_the_next_reading() -> None:
    """A reading that began before the question does not answer it, and one reading answers many questions."""
    source = Source()
    reading = SharedReading(source.read)
    first = Call(reading)
    poll(lambda: source.begun == 1)
    source.value = "new"
    others = [Call(reading) for _ in range(50)]
    source.go.release()
    assert first.result() == "old"
    source.go.release(len(others))
    assert {call.result() for call in others} == {"new"}
    assert source.begun < len(others)


def test_an_error_is_told_to_all_and_the_next_reading_is_a_new_one() -> None:
    """A reading that fails fails for those who shared it only."""
    asked = iter(range(2))

    def read() -> str:
        if next(asked) == 0:
            raise OSError("no answer")
        return "fine"

    reading = SharedReading(read)
    with pytest.raises(OSError, match="no answer"):
        reading()
    assert reading() == "fine"
