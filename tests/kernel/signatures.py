"""First bytes of what other people put on disks, written by hand from the formats' documents."""

from __future__ import annotations

import random
import struct
import zlib
from typing import TYPE_CHECKING, Final

from tests.kernel.disks import MIB, SECTOR

if TYPE_CHECKING:
    from collections.abc import Mapping

DISK_SIZE: Final = 16 * MIB
BOOT_SIGNATURE: Final = b"\x55\xaa"


def dos_table(kind: int = 0x83) -> bytes:
    """Return a master boot record with one partition from 1 MiB on."""
    entry = struct.pack("<B3sB3sII", 0, b"\0\2\0", kind, b"\xff\xff\xff", 2048, DISK_SIZE // SECTOR - 2048)
    return bytes(446) + entry.ljust(64, b"\0") + BOOT_SIGNATURE


def gpt() -> bytes:
    """Return a protective boot record, a GPT header and its one entry (UEFI 2.10, 5.3)."""
    last = DISK_SIZE // SECTOR - 1
    linux = bytes.fromhex("af3dc60f838472478e793d69d8477de4")
    entries = (
        (linux + b"u" * 16 + struct.pack("<QQQ", 2048, 4095, 0)).ljust(128, b"\0").ljust(128 * 128, b"\0")
    )

    def header(crc: int) -> bytes:
        fields = (b"EFI PART", 0x10000, 92, crc, 0, 1, last, 34, last - 34, b"g" * 16, 2, 128, 128)
        return struct.pack("<8sIIIIQQQQ16sQIII", *fields, zlib.crc32(entries))

    whole = header(zlib.crc32(header(0)))
    return dos_table(0xEE) + whole.ljust(SECTOR, b"\0") + entries


def lvm() -> bytes:
    """Return the label of an LVM2 physical volume in its second sector."""
    labelled = struct.pack("<I8s", 32, b"LVM2 001") + b"a" * 32 + struct.pack("<Q", DISK_SIZE)
    labelled = labelled.ljust(SECTOR - 20, b"\0")
    start = 0xF597A6CF
    crc = zlib.crc32(labelled, start ^ 0xFFFFFFFF) ^ 0xFFFFFFFF
    return bytes(SECTOR) + b"LABELONE" + struct.pack("<QI", 1, crc) + labelled


def xfs() -> bytes:
    """Return an XFS superblock of version 4."""
    head = struct.pack(">4sIQQQ16sQQQQ", b"XFSB", 4096, 4096, 0, 0, b"x" * 16, 2052, 128, 129, 130)
    areas = struct.pack(">IIIIIHHHH12s", 1, 4096, 1, 0, 512, 0xB4A4, 512, 256, 16, b"")
    logs = struct.pack(">BBBBBBBB", 12, 9, 8, 4, 12, 0, 0, 25)
    return (head + areas + logs).ljust(SECTOR, b"\0")


def luks() -> bytes:
    """Return the head of a LUKS1 volume."""
    return (b"LUKS\xba\xbe" + struct.pack(">H", 1) + b"aes").ljust(1024, b"\0")


def swap() -> bytes:
    """Return a swap area of version 1."""
    return (bytes(1024) + struct.pack("<II", 1, 4095)).ljust(4086, b"\0") + b"SWAPSPACE2"


def raid() -> bytes:
    """Return an md superblock of version 1.1."""
    fields = struct.pack(
        "<IIII16s32sQIIQIIIi", 0xA92B4EFC, 1, 0, 0, b"r" * 16, b"md", 0, 1, 0, 100, 0, 2, 0, 0
    )
    place = struct.pack("<QQQQ", 2048, 100, 0, 0)
    head = bytearray((fields.ljust(128, b"\0") + place).ljust(256, b"\0"))
    total = sum(struct.unpack("<64I", head))
    head[216:220] = struct.pack("<I", (total & 0xFFFFFFFF) + (total >> 32))
    return bytes(head)


def noise(seed: int, size: int = DISK_SIZE) -> bytes:
    """Return bytes that look like nothing; the same for the same seed."""
    return random.Random(seed).randbytes(size)


SIGNATURES: Final[Mapping[str, bytes]] = {
    "dos": dos_table(),
    "gpt": gpt(),
    "LVM2_member": lvm(),
    "xfs": xfs(),
    "crypto_LUKS": luks(),
    "swap": swap(),
    "linux_raid_member": raid(),
}
"""By the name that blkid gives."""
