"""A process that dies at any of its calls to the host, and the one that is asked after it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.attach.bench import NOT_FINAL, asked_again
from tests.support.death import Death

if TYPE_CHECKING:
    from tests.attach.bench import Bench

PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("dying", ["publish", "unpublish"])
def test_whoever_is_asked_after_a_crash_completes(bench: Bench, dying: str, part: int) -> None:
    """Killed at any call and asked again in a new process, attach and detach come to their end."""
    a, *_ = bench.machines
    at, died = part, True
    while died:
        volume = f"pvc-{at}"
        bench.claim(volume)
        if dying == "unpublish":
            bench.engine().publish(volume, a)
        victim = bench.engine()
        death = Death(bench.user, at)
        bench.faults.at_crash_points(death)
        died = dies(partial(getattr(victim, dying), volume, a, 0.4), death)
        bench.faults.clear()
        victim.close()
        successor = bench.engine()
        if dying == "publish":
            asked_again(partial(successor.publish, volume, a))
            assert bench.is_ready(a, volume)
        asked_again(partial(successor.unpublish, volume, a))
        assert bench.is_gone(a, volume)
        assert bench.holder(volume) == ""
        successor.close()
        at += PARTS


def dies(call: partial[object], death: Death) -> bool:
    """Tell whether the process died in the call; no error of it may sound final."""
    try:
        call()
    except NOT_FINAL:
        return True
    return death.came
