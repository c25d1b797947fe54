"""Read /proc/self/mountinfo (proc_pid_mountinfo(5)). Pure.

The trap: several mounts may lie upon each other at one path, and only the top one is seen by everybody else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from csi.node.disk import DeviceNumber, parse_device_number

if TYPE_CHECKING:
    from collections.abc import Iterable

_OCTAL: Final = re.compile(rb"\\([0-7]{3})")
_DELETED: Final = "//deleted"
"""The kernel's suffix to a root that has been unlinked since, such as the node of an unplugged disk."""


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of mountinfo."""

    id: int
    parent: int
    number: DeviceNumber
    root: str
    """What of the file system is mounted: `/` unless it is a bind of a part of it."""
    path: str
    options: frozenset[str]
    """Of this mount only: `ro`, `noexec` and the like."""
    fs_type: str
    source: str = ""
    super_options: frozenset[str] = frozenset()
    """Of the file system, shared by all its mounts."""

    @property
    def lost(self) -> bool:
        """Whether it is a btrfs behind which no device was found (csi.node.btrfs)."""
        return self.fs_type == "btrfs" and self.number.anonymous

    @property
    def shut_down(self) -> bool:
        """Whether the file system has given up after errors (newer kernels say so)."""
        return "shutdown" in self.super_options

    @property
    def readonly(self) -> bool:
        """Whether nothing can be written through this mount."""
        return "ro" in self.options

    @property
    def deleted(self) -> bool:
        """Whether what is bound here has been unlinked, as the node of an unplugged disk is."""
        return self.root.endswith(_DELETED)

    @property
    def root_name(self) -> str:
        """Last part of the root: for a bind of a device node the node's name."""
        return self.root.removesuffix(_DELETED).rpartition("/")[2]


def parse_mountinfo(text: str) -> tuple[Mount, ...]:
    """Read all lines, in the kernel's order."""
    return tuple(_parse_line(line) for line in text.splitlines() if line)


def mounts_at(mounts: Iterable[Mount], path: str) -> tuple[Mount, ...]:
    """Return what is mounted at `path`, the lowest first; a mount stacked on another has it as parent."""
    here = [mount for mount in mounts if mount.path == path]
    parents = {mount.id: mount.parent for mount in here}

    def depth(mount: Mount) -> int:
        levels, above = 0, mount.parent
        while above in parents and levels < len(parents):
            levels, above = levels + 1, parents[above]
        return levels

    return tuple(sorted(here, key=depth))


def _parse_line(line: str) -> Mount:
    left, _, right = line.partition(" - ")
    identity, parent, number, root, path, options, *_ = left.split(" ")
    fs_type, source, super_options, *_ = (*right.split(" "), "")
    return Mount(
        id=int(identity),
        parent=int(parent),
        number=parse_device_number(number),
        root=_unescape(root),
        path=_unescape(path),
        options=frozenset(options.split(",")),
        fs_type=_unescape(fs_type),
        source=_unescape(source),
        super_options=frozenset(super_options.split(",")),
    )


def _unescape(field: str) -> str:
    """Undo the kernel's octal escapes of space, tab, newline, backslash and #, byte by byte."""
    raw = field.encode("utf-8", "surrogateescape")
    plain = _OCTAL.sub(lambda found: bytes([int(found[1], 8)]), raw)
    return plain.decode("utf-8", "surrogateescape")
