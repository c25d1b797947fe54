"""The CSI driver's composition root: flags become objects, the objects serve until a signal.

The trap: the node half must neither hold a credential nor be able to use one. So the controller half, and
with it every Kubernetes client, is imported only where it is served.
"""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING

import structlog
from prometheus_client import CollectorRegistry, ProcessCollector

from csi.node.machine import linux_machine
from csi.node.service import Node as NodeHalf
from csi.rpc.edge import Edge
from csi.rpc.endpoint import EndpointError
from csi.rpc.identity import Identity
from csi.rpc.node import Node
from csi.rpc.server import CONTROLLER_THREADS, NODE_THREADS, Server, Service
from csi.settings import DISTRIBUTION, SettingsError, read_settings
from daemon.lifecycle import DRAIN_LIMIT, Stop, leave
from daemon.logs import configure_logs
from daemon.metrics import MetricsServer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from csi.settings import Settings

log = structlog.get_logger()


def main() -> None:
    """Serve until SIGTERM or SIGINT; end with 0, with 1 when serving is impossible, with 2 on wrong flags."""
    stop, registry = Stop(), CollectorRegistry()
    stop.on_signals()
    try:
        settings = read_settings(sys.argv[1:], os.environ)
        configure_logs(settings.log_level, settings.log_format)
        serve(services(settings, registry), settings, registry, stop)
    except SettingsError as error:
        sys.stderr.write("".join(f"harvester-csi-driver: {mistake}\n" for mistake in error.mistakes))
        leave(2)
    except (EndpointError, OSError) as error:
        log.error("cannot serve", error=str(error))  # noqa: TRY400 - the sentence is all there is to know
        leave(1)
    leave(0)


def services(settings: Settings, registry: CollectorRegistry) -> list[Service]:
    """Build what this process serves; raises SettingsError."""
    return [
        Service("Identity", Identity(version(DISTRIBUTION))),
        _controller(settings, registry),
        _node(settings),
    ]


def serve(
    served: Sequence[Service],
    settings: Settings,
    registry: CollectorRegistry,
    stop: Stop,
    *,
    drain_limit: float = DRAIN_LIMIT,
) -> None:
    """Serve until the stop, then drain; raises EndpointError or OSError when serving is impossible."""
    ProcessCollector(registry=registry)
    server = Server(served, Edge(settings.max_wait, registry))
    if settings.metrics is not None:
        MetricsServer(settings.metrics.host, settings.metrics.port, registry)
    address = server.start(settings.endpoint)
    log.info("serving", address=address, mode=settings.mode.value, version=version(DISTRIBUTION))
    log.info("stopping", reason=stop.wait())
    unfinished = server.drain(drain_limit)
    log.info("stopped", unfinished=unfinished)


def _controller(settings: Settings, registry: CollectorRegistry) -> Service:
    if not settings.mode.controller:
        return Service("Controller", None, why_not=_elsewhere("controller", settings))
    from csi.controller_root import controller  # lazy: --mode=node must load no Kubernetes client

    return Service("Controller", controller(settings, registry), CONTROLLER_THREADS)


def _node(settings: Settings) -> Service:
    if not settings.mode.node:
        return Service("Node", None, why_not=_elsewhere("node", settings))
    half = NodeHalf(settings.node_id, linux_machine(settings.root))
    return Service("Node", Node(half), NODE_THREADS)


def _elsewhere(half: str, settings: Settings) -> str:
    return f"this process runs with --mode={settings.mode.value}; the {half} half runs elsewhere"


if __name__ == "__main__":
    main()
