"""What the mount flags of a request mean at the staging mount and at its binds. Pure.

The trap: the same list comes to both. Most flags are the file system's and belong to the first mount only;
a bind takes just those that the kernel keeps per mount, and setting some clears all that are not named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from csi.errors import InvalidArgument
from csi.model import AccessMode

if TYPE_CHECKING:
    from csi.model import Capability

PER_MOUNT: Final = frozenset({"ro", "nosuid", "nodev", "noexec", "noatime", "nodiratime"})
"""Flags that restrict one mount and may be set on a bind."""
REFUSED: Final = frozenset({"bind", "rbind", "move", "remount", "loop"})
"""Flags that change what is mounted, not how."""


def is_readonly(capability: Capability) -> bool:
    """Tell whether the volume is to be staged read-only."""
    return capability.mode is AccessMode.SINGLE_NODE_READER_ONLY or "ro" in _words(capability)


def check_flags(capability: Capability, readonly: bool) -> None:
    """Raise InvalidArgument for flags that contradict the request or would mount something else."""
    words = _words(capability)
    if refused := sorted(words & REFUSED):
        raise InvalidArgument(f"mount flag {refused[0]!r} is not allowed: it changes what is mounted")
    if "rw" in words and (readonly or is_readonly(capability)):
        raise InvalidArgument("mount flag 'rw' contradicts the request for a read-only volume")


def staging_flags(capability: Capability) -> frozenset[str]:
    """Return the flags of the staging mount: all that were asked for."""
    readonly = frozenset({"ro"}) if is_readonly(capability) else frozenset()
    return frozenset(capability.mount_flags) | readonly


def bind_flags(capability: Capability, readonly: bool) -> frozenset[str]:
    """Return the flags that a bind must have."""
    wanted = _words(capability) & PER_MOUNT
    return wanted | {"ro"} if readonly or is_readonly(capability) else wanted


def _words(capability: Capability) -> frozenset[str]:
    return frozenset(word for flag in capability.mount_flags for word in flag.split(","))
