"""Programs: their end, their output, and what does not end."""

from __future__ import annotations

import os
import select
import signal
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from csi.deadline import Deadline
from csi.errors import Broken, Busy
from csi.model import NodeId, VolumeId
from csi.node.commands import OUTPUT_LIMIT, Commands, Hung, TookTooLong
from csi.node.machine import linux_machine
from csi.node.mounts import Mounts
from csi.node.service import Node

if TYPE_CHECKING:
    from pathlib import Path

    from csi.node.mountinfo import Mount


class HangingOnce(Mounts):
    """Mounts whose first look hangs, as on a device that does not answer."""

    def __init__(self, error: Hung) -> None:
        super().__init__(Commands())
        self._errors = [error]

    def table(self) -> tuple[Mount, ...]:
        """Hang once, then answer."""
        if self._errors:
            raise self._errors.pop()
        return super().table()


def test_an_exit_code_is_an_answer() -> None:
    """A program's code and both outputs come back, in the C locale."""
    done = Commands().run("sh", "-c", "echo $LC_ALL; echo oops >&2; exit 3", seconds=10)
    assert (done.code, done.output, done.errors, done.complaint) == (3, "C\n", "oops\n", "oops")


def test_output_is_bounded() -> None:
    """A program that writes without end to both outputs is read to its end and kept in part."""
    loud = f"head -c {5 * OUTPUT_LIMIT} /dev/zero; head -c {5 * OUTPUT_LIMIT} /dev/zero >&2"
    done = Commands().run("sh", "-c", loud, seconds=10)
    assert (done.code, len(done.output), len(done.errors)) == (0, OUTPUT_LIMIT, OUTPUT_LIMIT)


def test_talking_is_no_excuse() -> None:
    """A program that never stops writing is killed at its time limit like a silent one."""
    with pytest.raises(TookTooLong):
        Commands().run("yes", seconds=0.1)


def test_a_missing_program_is_named() -> None:
    """A program that is not installed is a fault of the image, by its name."""
    with pytest.raises(Broken, match=r"mkfs\.nothing"):
        Commands().run("mkfs.nothing", seconds=1)


def test_the_whole_group_is_killed_in_time(tmp_path: Path) -> None:
    """At its time limit a program ends together with what it started."""
    held = tmp_path / "held"
    os.mkfifo(held)
    reader = os.open(held, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(TookTooLong) as caught:
            Commands().run("sh", "-c", f"exec 3>{held}; echo x >&3; sleep 60 & wait", seconds=0.5)
        assert not isinstance(caught.value, Hung)
        assert os.read(reader, 10) == b"x\n"
        assert select.select([reader], [], [], 10)[0], "a process of the group is still there"
        assert os.read(reader, 10) == b""
    finally:
        os.close(reader)


def test_a_hanging_program_keeps_its_volume_busy(tmp_path: Path) -> None:
    """What survives its kill is waited for aside; until its end the volume is Busy, others are not."""
    killed: list[int] = []
    unkillable = Commands(kill=lambda pid, _: killed.append(pid), grace=0.05)
    with pytest.raises(Hung) as caught:
        unkillable.run("sleep", "60", seconds=0.05)
    machine = linux_machine(tmp_path)
    node = Node(NodeId("n"), replace(machine, mounts=HangingOnce(caught.value)))
    volume, other, target = VolumeId("pvc-1"), VolumeId("pvc-2"), str(tmp_path / "target")
    with pytest.raises(Hung):
        node.unpublish(volume, target, Deadline(1))
    with pytest.raises(Busy):
        node.unpublish(volume, target, Deadline(1))
    node.unpublish(other, target, Deadline(1))
    os.killpg(killed[0], signal.SIGKILL)
    assert caught.value.ended.wait(10)
    node.unpublish(volume, target, Deadline(1))
