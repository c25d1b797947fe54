"""One call at a time per volume; a second one is told so at once."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from csi.errors import Busy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from csi.model import VolumeId


class VolumeLocks:
    """The volumes that calls of one service are working on.

    A call never queues behind another: its caller's deadline would run out while it waits, and the repeats
    would pile up behind it. The caller of an ABORTED call comes again by itself (CSI spec, "Error Scheme").
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._busy: set[VolumeId] = set()

    @contextmanager
    def hold(self, volume: VolumeId) -> Iterator[None]:
        """Hold the volume; raises Busy when another call holds it."""
        with self._guard:
            if volume in self._busy:
                raise Busy(f"another call for volume {volume} is running; it is safe to call again")
            self._busy.add(volume)
        try:
            yield
        finally:
            with self._guard:
                self._busy.remove(volume)
