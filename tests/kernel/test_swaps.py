"""A disk that is unplugged, and another that takes its place, at any moment of a stage."""

from __future__ import annotations

import os
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

from csi.deadline import Deadline
from csi.errors import TimedOut, Unavailable
from tests.kernel.disks import Drive, NodeRoot, identification_page
from tests.kernel.steps import stepped_machine
from tests.kernel.volume import Kubelet

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.kernel

HELD = {"path", "make", "check", "mount"}
"""Steps during which the disk is held open: the kernel gives its name and number to no other."""


def same_number(root: NodeRoot, drive: Drive) -> Drive:
    """The other disk gets the first one's name and number; only its identity tells them apart."""
    page = root.root / "sys" / "block" / "sda" / "device" / "vpd_pg83"
    page.write_bytes(identification_page(b"drive-ua-other"))
    return drive


def same_name(root: NodeRoot, _: Drive) -> Drive:
    """The other disk gets the first one's name; sysfs still shows the first one."""
    other = root.plug("sdb", "drive-ua-other")
    node = root.root / "dev" / "sda"
    node.unlink()
    os.link(root.root / "dev" / "sdb", node)
    return other


class Plug:
    """Swaps the disks before the n-th step, and keeps what the other disk holds at that moment."""

    def __init__(self, at: int, swap: Callable[[], Drive]) -> None:
        self._left = at
        self._swap = swap
        self.other: Drive | None = None
        self.before = b""
        self.mounted = False
        self._swapped_at = 0.0

    def clock(self) -> float:
        """Tell the time since the swap: until then a call has all the time it needs, however busy we are."""
        return time.monotonic() - self._swapped_at if self.other else 0.0

    def step(self, name: str) -> None:
        """Count a step, and swap when it is time; never where the disk is held."""
        self._left -= name not in HELD
        if self._left == 0 and self.other is None:
            self.other = self._swap()
            self.before = self.other.content()
            self._swapped_at = time.monotonic()
        self.mounted |= name == "mount" and self.other is None


@pytest.mark.parametrize("swap", [same_number, same_name])
def test_the_other_disk_is_never_touched(
    node_root: NodeRoot, swap: Callable[[NodeRoot, Drive], Drive]
) -> None:
    """Whenever the disks are swapped, the other one is neither written nor mounted."""
    at, swapped = 0, True
    while swapped:
        at += 1
        node_root.clean()
        kubelet = Kubelet(node_root)
        drive = kubelet.plug()
        plug = Plug(at, partial(swap, node_root, drive))
        kubelet.machine = stepped_machine(node_root.root, before=plug.step)
        try:
            kubelet.stage(deadline=Deadline(0.2, clock=plug.clock))
        except (TimedOut, Unavailable):
            assert plug.other is not None
            assert kubelet.on.mounted() == []
            assert plug.other.content() == plug.before
        else:
            assert plug.mounted
        swapped = plug.other is not None
    assert at > 15
