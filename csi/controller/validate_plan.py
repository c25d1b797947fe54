"""Which capabilities a disk of one machine can serve. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from csi.model import AccessMode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from csi.model import Capability

FILE_SYSTEMS: Final = ("", "ext3", "ext4", "xfs", "btrfs")
"""What the node half makes; "" leaves the choice to it."""


def why_not(capabilities: Iterable[Capability]) -> str:
    """Return "" when a volume can serve all of these, else the sentence that says why it cannot."""
    return next(filter(None, map(_why_not, capabilities)), "")


def _why_not(capability: Capability) -> str:
    if capability.mode is AccessMode.UNKNOWN:
        return "the access mode is missing"
    if capability.mode.multi_node:
        return (
            f"access mode {capability.mode.value} is not served: a volume is a disk of one machine at a "
            "time; ask for ReadWriteOnce or ReadWriteOncePod"
        )
    if not capability.block and capability.fs_type not in FILE_SYSTEMS:
        return f"file system {capability.fs_type} is not served; {', '.join(FILE_SYSTEMS[1:])} are"
    return ""
