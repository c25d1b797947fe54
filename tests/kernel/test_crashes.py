"""A node half that dies at any step, started again and asked again, completes.

The rooms of the Machine are wrapped: after the n-th step that changes something the process "dies" by an
exception that nothing catches. A new node half then repeats the call. n goes up until the call gets through.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.kernel.disks import run
from tests.kernel.steps import CHANGES, stepped_machine
from tests.kernel.volume import BLOCK, Kubelet, is_device

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kernel.disks import Drive, NodeRoot

pytestmark = pytest.mark.kernel


class Death(BaseException):
    """The process is gone; nothing may catch this."""


class Fuse:
    """Burns down by one at each step that changes something; the process dies when it is out."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def burn(self, step: str) -> None:
        """Count a step that was taken."""
        self._left -= step in CHANGES
        if self._left == 0:
            raise Death(step)


def die_after(kubelet: Kubelet, steps: int, call: Callable[[], None]) -> bool:
    """Make the call with a process that dies after so many steps; tell whether it died."""
    kubelet.machine = stepped_machine(kubelet.on.root, after=Fuse(steps).burn)
    try:
        call()
    except Death:
        return True
    finally:
        kubelet.machine = None
    return False


def reboot(kubelet: Kubelet) -> None:
    """Take all mounts away, as a reboot does."""
    for path in reversed(kubelet.on.mounted()):
        run("umount", path)


def renew(kubelet: Kubelet) -> Drive:
    """Take everything away and plug a blank disk in."""
    kubelet.on.clean()
    for path in (kubelet.target, kubelet.staging):
        subprocess.run(["rm", "-rf", path], check=True)
    return kubelet.plug()


def no_reboot(_: Kubelet) -> None:
    """Only the process dies."""


between = pytest.mark.parametrize("between", [no_reboot, reboot])


@between
def test_stage(node_root: NodeRoot, between: Callable[[Kubelet], None]) -> None:
    """A stage that died after any step is completed by the next one, and the file system is whole."""
    kubelet, steps = Kubelet(node_root), 1
    drive = renew(kubelet)
    while die_after(kubelet, steps, kubelet.stage):
        between(kubelet)
        kubelet.stage()
        kubelet.save("x", kubelet.staging)
        assert kubelet.on.mounted() == [kubelet.staging]
        kubelet.unstage()
        run("fsck.ext4", "-fn", str(drive.loop))
        drive, steps = renew(kubelet), steps + 1
    assert steps > 5


@between
def test_publish(node_root: NodeRoot, between: Callable[[Kubelet], None]) -> None:
    """A read-only publish that died after any step ends as one read-only mount, also by way of a restage."""
    kubelet = Kubelet(node_root)
    kubelet.plug()
    kubelet.make_earlier("kept")
    preparations: list[Callable[[], None]] = [kubelet.stage, lambda: reboot(kubelet)]
    for prepare in preparations:
        steps = 1
        prepare()
        while die_after(kubelet, steps, lambda: kubelet.publish(readonly=True)):
            between(kubelet)
            kubelet.publish(readonly=True)
            assert kubelet.on.mounted() == [kubelet.staging, kubelet.target]
            assert "ro" in kubelet.on.options(kubelet.target)
            assert kubelet.saved() == "kept"
            kubelet.unpublish()
            kubelet.unstage()
            prepare()
            steps += 1
        assert steps > 3
        kubelet.unpublish()


@between
def test_publish_block(node_root: NodeRoot, between: Callable[[Kubelet], None]) -> None:
    """A block publish that died after any step ends as one bind of the disk."""
    kubelet, steps = Kubelet(node_root, BLOCK), 1
    drive = kubelet.plug()
    kubelet.stage()
    while die_after(kubelet, steps, lambda: kubelet.publish(readonly=True)):
        between(kubelet)
        kubelet.publish(readonly=True)
        assert kubelet.on.mounted() == [kubelet.target]
        assert is_device(kubelet.target, drive)
        kubelet.unpublish()
        steps += 1
    assert steps > 3
    kubelet.unpublish()


@between
@pytest.mark.parametrize("block", [False, True])
def test_unpublish_and_unstage(node_root: NodeRoot, between: Callable[[Kubelet], None], block: bool) -> None:
    """Unpublish and unstage that died after any step are completed by the next ones; nothing is left."""
    kubelet = Kubelet(node_root, BLOCK) if block else Kubelet(node_root)
    kubelet.plug()
    for undo, after in ((kubelet.unpublish, kubelet.unstage), (kubelet.unstage, kubelet.unstage)):
        steps, died = 1, True
        while died:
            kubelet.stage()
            kubelet.publish()
            if undo == kubelet.unstage:
                kubelet.unpublish()
            died = die_after(kubelet, steps, undo)
            between(kubelet)
            undo()
            after()
            assert kubelet.on.mounted() == []
            steps += 1
