"""What a disk's first MiB says of the file system on it. Pure.

Two questions only, for each kind: was it ever mounted writable, and how much of the disk does it use?
"""

from __future__ import annotations

from typing import Final

_EXT: Final = 1024
"""Offset of the superblock in bytes; those below are within it (Documentation/filesystems/ext4/super.rst)."""
_EXT_64BIT: Final = 0x80
_XFS_VERSION: Final = 5
_BTRFS: Final = 65536


def ext_never_mounted(first: bytes) -> bool:
    """Read s_mtime and s_mnt_count of an ext2/3/4 superblock: the kernel sets both at a writable mount."""
    return not any(first[_EXT + 44 : _EXT + 48]) and not any(first[_EXT + 52 : _EXT + 54])


def ext_covers(first: bytes) -> int:
    """Read the number of blocks, whose upper half counts with the feature `64bit` only, and their size."""
    low, log_size, features, high = (_little(first, _EXT + at, 4) for at in (4, 24, 96, 336))
    blocks = low + (high << 32) if features & _EXT_64BIT else low
    return blocks * (1024 << log_size)


def xfs_never_mounted(first: bytes) -> bool:
    """Read sb_lsn: mkfs leaves it zero, and the log gives it a value with the first change after a mount.

    Version 4 has no such field, and is therefore taken as mounted.
    """
    return _big(first, 100, 2) & 0xF == _XFS_VERSION and _big(first, 240, 8) == 0


def xfs_covers(first: bytes) -> int:
    """Read sb_dblocks and sb_blocksize."""
    return _big(first, 8, 8) * _big(first, 4, 4)


def btrfs_never_mounted(first: bytes) -> bool:
    """Read uuid_tree_generation: zero after mkfs, and set with the first commit of a writable mount."""
    return _little(first, _BTRFS + 563, 8) == 0


def btrfs_covers(first: bytes) -> int:
    """Read total_bytes."""
    return _little(first, _BTRFS + 112, 8)


def _little(first: bytes, at: int, length: int) -> int:
    return int.from_bytes(first[at : at + length], "little")


def _big(first: bytes, at: int, length: int) -> int:
    return int.from_bytes(first[at : at + length], "big")
