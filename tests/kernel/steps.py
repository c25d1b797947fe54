"""The real machine, looked on and interfered with at each step that a node half takes on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

from csi.node.machine import Machine, linux_machine

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from csi.node.blankness import Contents
    from csi.node.devices import Devices
    from csi.node.filesystems import FileSystems
    from csi.node.mounts import Mounts

CHANGES = {
    *("mark", "unmark", "make", "check", "grow"),
    *("make_directory", "make_file", "remove"),
    *("mount", "bind", "remount", "flush", "unmount", "unmount_lazily"),
}
"""The steps after which something is different."""


def nothing(_: str) -> None:
    """Do nothing at a step."""


def stepped_machine(
    root: Path, *, before: Callable[[str], None] = nothing, after: Callable[[str], None] = nothing
) -> Machine:
    """Return the real machine; `before` and `after` are called with the name of each step taken."""
    real = linux_machine(root)
    return Machine(
        devices=cast("Devices", _Room(real.devices, before, after)),
        contents=cast("Contents", _Room(real.contents, before, after)),
        filesystems=cast("FileSystems", _Room(real.filesystems, before, after)),
        mounts=cast("Mounts", _Room(real.mounts, before, after)),
    )


class _Method(Protocol):
    """Any method of a room."""

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Take the step."""
        ...


class _Room:
    """A room of the machine."""

    def __init__(self, room: object, before: Callable[[str], None], after: Callable[[str], None]) -> None:
        self._room = room
        self._before = before
        self._after = after

    def __getattr__(self, name: str) -> _Method:
        method = cast("_Method", getattr(self._room, name))

        def step(*args: object, **kwargs: object) -> object:
            self._before(name)
            result = method(*args, **kwargs)
            self._after(name)
            return result

        return step
