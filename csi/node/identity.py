"""Read the identification pages of a SCSI disk. Pure.

The trap: a designator is an identity only by *equality*. Names of volumes contain each other (`data`,
`data-2`), and a search for a part of one finds another volume's disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER: Final = 4
"""Bytes before the payload of a page, and of each designator in page 0x83 (SPC-4, 7.8.6)."""
IDENTIFICATION: Final = 0x83
SERIAL: Final = 0x80
ASCII: Final = 2
"""Code set of a designator, the low four bits of its first byte."""
LOGICAL_UNIT: Final = 0
"""Association of a designator, bits 4 and 5 of its second byte; others name the port or the target."""


def designators(page: bytes) -> tuple[str, ...]:
    """Return the ASCII designators of the logical unit in a VPD page 0x83, in the page's order.

    QEMU writes `device_id` as the first one, of the type "vendor specific". A malformed or cut page gives
    what can be read of it for certain. Trailing NULs and spaces are padding; an empty one is left out.
    """
    return tuple(name for name in _ascii(_payload(page, IDENTIFICATION)) if name)


def unit_serial(page: bytes) -> str:
    """Return the serial of a VPD page 0x80, "" when there is none."""
    return _text(_payload(page, SERIAL))


def _ascii(payload: bytes) -> Iterator[str]:
    while len(payload) >= HEADER:
        code_set, kind, _, length = payload[:HEADER]
        value, payload = payload[HEADER : HEADER + length], payload[HEADER + length :]
        if len(value) == length and code_set & 0x0F == ASCII and (kind >> 4) & 0x03 == LOGICAL_UNIT:
            yield _text(value)


def _payload(page: bytes, code: int) -> bytes:
    if len(page) < HEADER or page[1] != code:
        return b""
    return page[HEADER : HEADER + int.from_bytes(page[2:HEADER], "big")]


def _text(value: bytes) -> str:
    trimmed = value.rstrip(b"\0 ")
    return trimmed.decode("ascii") if trimmed.isascii() else ""
