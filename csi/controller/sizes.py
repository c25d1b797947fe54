"""Sizes: how large the claim for a capacity range is made. Pure."""

from __future__ import annotations

from typing import Final

from csi.errors import InvalidArgument, OutOfRange
from kube.quantity import format_bytes

UNIT: Final = 2 * 1024**2
"""Longhorn rounds up to 2 MiB; asked for in these units, the host gives what was asked."""
SMALLEST: Final = 10 * 1024**2
"""Longhorn's smallest volume."""
DEFAULT: Final = 1024**3
"""For a request that says nothing."""
LARGEST: Final = (2**63 - 1) // UNIT * UNIT
"""The wire's integers are signed and have 64 bits."""


def size_for(required: int, limit: int) -> int:
    """Return the bytes to ask the host for: at least `required`, at most `limit`; 0 means not said.

    Raises InvalidArgument for a negative number, OutOfRange where no size fits (CSI spec, CreateVolume).
    """
    if required < 0 or limit < 0:
        raise InvalidArgument(f"a size is negative: required {required}, limit {limit} bytes")
    if limit and required > limit:
        raise OutOfRange(f"at least {required} bytes are required, but at most {limit} are allowed")
    size = max(_round_up(required) if required else min(DEFAULT, limit // UNIT * UNIT or DEFAULT), SMALLEST)
    if limit and size > limit:
        raise OutOfRange(
            f"the host gives multiples of {format_bytes(UNIT)} from {format_bytes(SMALLEST)} on; "
            f"none lies between {required} and {limit} bytes"
        )
    if size > LARGEST:
        raise OutOfRange(f"{required} bytes are more than any volume can have")
    return size


def _round_up(size: int) -> int:
    return -(-size // UNIT) * UNIT
