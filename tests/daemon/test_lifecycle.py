"""How a daemon ends."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from daemon.lifecycle import Stop

WAITING = """
import threading
from daemon.lifecycle import Stop, leave
stop = Stop()
stop.on_signals()
threading.Thread(target=threading.Event().wait).start()
print("ready", flush=True)
print(stop.wait())
leave(7)
"""


def test_the_first_reason_counts() -> None:
    """The reason that is told is the first one."""
    stop = Stop()
    stop.request("the host moved")
    stop.request("late")
    assert stop.wait() == "the host moved"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_process_whose_threads_are_stuck(number: signal.Signals) -> None:
    """A signal is a reason to stop, and a stuck thread holds neither the output nor the end."""
    with subprocess.Popen([sys.executable, "-c", WAITING], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.stdout.read() == f"{number.name}\n"
        assert process.wait(10) == 7
