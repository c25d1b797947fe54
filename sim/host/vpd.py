"""SCSI vital product data pages as a virtio-scsi disk of QEMU shows them. Pure bytes.

Layouts from SPC-4, 7.8. QEMU puts the libvirt alias of a disk without serial into the vendor-specific
designator of page 0x83: `drive-ua-<disk name>`.
"""

from __future__ import annotations

import struct
from typing import Final

DEVICE_IDENTIFICATION: Final = 0x83
UNIT_SERIAL: Final = 0x80
DISK: Final = 0x00
"""Peripheral qualifier and device type: a connected direct-access block device."""
ASCII: Final = 0x02
"""Code set of a designator: printable ASCII. Its protocol identifier nibble is not used."""
VENDOR_SPECIFIC: Final = 0x00
"""Association (the logical unit) and designator type (vendor specific)."""
DESIGNATOR_LIMIT: Final = 255
"""The designator's length is one byte."""


def alias(disk: str) -> str:
    """Return the device id that QEMU gives a KubeVirt disk of this name that has no serial."""
    return f"drive-ua-{disk}"


def device_identification(device_id: str) -> bytes:
    """Return page 0x83 with one vendor-specific ASCII designator; raises ValueError beyond 255 characters."""
    designator = device_id.encode("ascii")
    if len(designator) > DESIGNATOR_LIMIT:
        raise ValueError(f"a device id has at most {DESIGNATOR_LIMIT} characters: {device_id}")
    descriptor = bytes((ASCII, VENDOR_SPECIFIC, 0, len(designator))) + designator
    return _page(DEVICE_IDENTIFICATION, descriptor)


def unit_serial(serial: str) -> bytes:
    """Return page 0x80 with the disk's serial."""
    return _page(UNIT_SERIAL, serial.encode("ascii"))


def _page(code: int, body: bytes) -> bytes:
    return struct.pack(">BBH", DISK, code, len(body)) + body
