"""Loop devices by losetup(8); needs root."""

from __future__ import annotations

import subprocess
import threading
import time
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIMIT: Final = 10.0
"""Seconds that one losetup may take."""
DELETED: Final = " (deleted)"
DRAIN_LIMIT: Final = 3.0
POLL: Final = 0.02

log = structlog.get_logger()


def attach(image: Path, *, readonly: bool = False) -> str:
    """Attach a free loop device to the image; return its path. Raises CalledProcessError."""
    flags = ["--read-only"] if readonly else []
    return _losetup("--find", "--show", *flags, "--", str(image)).strip()


def detach(device: str) -> None:
    """Detach the device; while it is open somewhere, the kernel does so at its last close."""
    _losetup("--detach", device)


def attached_below(directory: Path) -> Iterator[tuple[str, str]]:
    """Yield (device, image) of the loop devices whose image is, or was, below the directory."""
    for line in _losetup("--list", "--noheadings", "--output", "NAME,BACK-FILE").splitlines():
        device, _, image = line.strip().partition(" ")
        image = image.strip().removesuffix(DELETED)
        if image.startswith(f"{directory.resolve()}/"):
            yield device, image


def release(directory: Path) -> None:
    """Detach all loop devices below the directory: what a run that crashed left behind."""
    for device, _ in list(attached_below(directory)):
        detach(device)


def drained(directory: Path, limit: float = DRAIN_LIMIT) -> bool:
    """Wait up to `limit` seconds until no loop device is left below the directory; tell whether none is.

    A device that anybody has open when it is detached, if only to look at it, goes a moment later.
    """
    end = time.monotonic() + limit
    pause = threading.Event()
    while left := list(attached_below(directory)):
        if time.monotonic() > end:
            log.warning("loop devices in use", devices=[device for device, _ in left])
            return False
        pause.wait(POLL)
    return True


def _losetup(*arguments: str) -> str:
    return subprocess.run(
        ["losetup", *arguments], check=True, capture_output=True, text=True, timeout=LIMIT
    ).stdout
