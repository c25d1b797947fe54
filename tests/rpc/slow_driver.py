"""A driver process with a slow NodeStageVolume: `slow_driver.py SOCKET LIMIT`.

The call makes a file at its staging path and stays until somebody removes it. It does not listen to its
deadline, as a running mkfs does not. LIMIT is the drain's, in seconds.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from csi.__main__ import serve
from csi.model import NodeId, NodeInfo, VolumeStats
from csi.rpc.identity import Identity
from csi.rpc.node import Node
from csi.rpc.server import NODE_THREADS, Service
from csi.settings import read_settings
from daemon.lifecycle import Stop, leave
from daemon.logs import configure_logs

if TYPE_CHECKING:
    from csi.deadline import Deadline
    from csi.model import NodePublishRequest, StageRequest, VolumeId

POLL = 0.02


class SlowNode:
    """A NodeService that works as long as it is told to."""

    def info(self) -> NodeInfo:
        return NodeInfo(NodeId("slow"))

    def stage(self, request: StageRequest, deadline: Deadline) -> None:
        working = Path(request.path)
        working.touch()
        pause = threading.Event()
        while working.exists():
            pause.wait(POLL)

    def unstage(self, volume: VolumeId, path: str, deadline: Deadline) -> None: ...

    def publish(self, request: NodePublishRequest, deadline: Deadline) -> None: ...

    def unpublish(self, volume: VolumeId, target: str, deadline: Deadline) -> None: ...

    def stats(self, volume: VolumeId, path: str, deadline: Deadline) -> VolumeStats:
        return VolumeStats()


def main() -> None:
    """Serve until SIGTERM."""
    socket, limit = sys.argv[1:]
    settings = read_settings([f"--endpoint=unix://{socket}", "--mode=node", "--nodeid=slow"], {})
    configure_logs(settings.log_level, settings.log_format)
    stop = Stop()
    stop.on_signals()
    served = [Service("Identity", Identity("0")), Service("Node", Node(SlowNode()), NODE_THREADS)]
    serve(served, settings, CollectorRegistry(), stop, drain_limit=float(limit))
    leave(0)


if __name__ == "__main__":
    main()
