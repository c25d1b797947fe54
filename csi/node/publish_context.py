"""Read the publish context: what the controller tells the node about the disk. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from csi.errors import InvalidArgument
from csi.model import (
    CONTEXT_FRESH_UNTIL,
    CONTEXT_IDENTITY,
    CONTEXT_KIND,
    CONTEXT_KIND_DISK,
    CONTEXT_SIZE,
    disk_identity,
)

if TYPE_CHECKING:
    from csi.model import PublishContext, VolumeId


@dataclass(frozen=True, slots=True)
class Expected:
    """The disk to look for, and what may be done to it."""

    identity: str
    size: int = 0
    """Bytes that it must have at least; 0 = not said."""
    may_format: bool = False
    """False for a volume that upstream's controller attached: it says nothing about the disk's past."""
    fresh_until: datetime | None = None
    """Until then bytes without a signature are of no worth."""


def read_context(volume: VolumeId, context: PublishContext) -> Expected:
    """Return what to expect; InvalidArgument when the context is ours but cannot be used."""
    kind = context.get(CONTEXT_KIND)
    if kind is None:
        return Expected(disk_identity(volume))
    if kind != CONTEXT_KIND_DISK:
        raise InvalidArgument(f"publish context of {volume}: kind {kind!r} is not served by this node")
    identity = context.get(CONTEXT_IDENTITY, "")
    if not identity:
        raise InvalidArgument(f"publish context of {volume}: `{CONTEXT_IDENTITY}` is missing")
    return Expected(
        identity=identity,
        size=_bytes(volume, context.get(CONTEXT_SIZE, "0")),
        may_format=True,
        fresh_until=_moment(context.get(CONTEXT_FRESH_UNTIL, "")),
    )


def _bytes(volume: VolumeId, text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise InvalidArgument(f"publish context of {volume}: `{CONTEXT_SIZE}` {text!r} is no number of bytes")
    return int(text)


def _moment(text: str) -> datetime | None:
    """Read RFC 3339; what cannot be read gives no permission."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None
