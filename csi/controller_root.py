"""The controller half's part of the composition root.

A module of its own, because a process that serves only the node half must not load any of this.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from prometheus_client import Histogram

from csi.controller.attachments import Attachments
from csi.controller.claims import HostClaims
from csi.controller.classes import HostClasses
from csi.controller.commits import Commits
from csi.controller.committer import Pace
from csi.controller.holders import PATIENCE, Holders
from csi.controller.host import HostView
from csi.controller.host_attachments import HostAttachments
from csi.controller.machine_ids import MachinesByName
from csi.controller.names import volume_id_for
from csi.controller.ownership import GuestCluster, Ownership
from csi.controller.volumes import Volumes
from csi.rpc.controller import Controller
from csi.rpc.server import CONTROLLER_THREADS
from csi.settings import SettingsError
from kube.config import ConfigError, connect, from_kubeconfig, in_cluster

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from prometheus_client import CollectorRegistry

    from csi.settings import Settings
    from kube.config import Connection
    from kube.rest import RequestRecord

CLOUD_CONFIG_NAMES: Final = ("cloud-provider-config", "cloud-config")
"""Names of the host's kubeconfig in a folder: the keys of the Secret that upstream's charts ask for."""
POOL: Final = CONTROLLER_THREADS + 16
"""Connections to the host: one for each call that may run, and for watches and committers."""
MEMORY: Final = 2 * PATIENCE
"""How long the fate of a mark's patch is remembered: longer than anybody counts the mark for."""


def controller(settings: Settings, registry: CollectorRegistry) -> Controller:
    """Build the controller half. Reads the kubeconfigs, asks nobody; raises SettingsError."""
    host = _read("--kubeconfig", lambda: from_kubeconfig(kubeconfig_file(settings.kubeconfig)))
    client = connect(host, pool_size=POOL, on_request=_observer(registry))
    claims, classes = HostClaims(client, host.namespace), HostClasses(client)
    ownership = Ownership(_guest(settings), settings.cluster_id)
    view = HostView(client, host.namespace, claims)
    holders = Holders(client, claims, classes, ownership)
    commits = Commits(
        view, holders, Pace(collect=settings.collect_window), memory=MEMORY / timedelta(seconds=1)
    )
    attachments = Attachments(
        view,
        claims,
        holders,
        commits,
        HostAttachments(client, view.changes.patience),
        MachinesByName(),
        ownership,
    )
    volumes = Volumes(
        claims, classes, view, attachments, ownership, default_class=settings.host_storage_class
    )
    return Controller(volumes, attachments, volume_id_for)


def kubeconfig_file(path: Path) -> Path:
    """Return the kubeconfig: the path itself, or what stands in the folder under a name that charts use."""
    inside = (path / name for name in CLOUD_CONFIG_NAMES)
    return next((file for file in inside if file.is_file()), path)


def _guest(settings: Settings) -> GuestCluster | None:
    file = settings.guest_kubeconfig
    if file is not None:
        return GuestCluster(connect(_read("--guest-kubeconfig", lambda: from_kubeconfig(file))))
    if settings.in_cluster:
        return GuestCluster(connect(_read("in the cluster", in_cluster)))
    return None


def _read(flag: str, read: Callable[[], Connection]) -> Connection:
    try:
        return read()
    except ConfigError as error:
        raise SettingsError([f"{flag}: {error}"]) from error


def _observer(registry: CollectorRegistry) -> Callable[[RequestRecord], None]:
    seconds = Histogram(
        "harvester_csi_host_request_duration_seconds",
        "Time that requests to the host's API took; code 0 had no usable answer.",
        ("verb", "resource", "code"),
        registry=registry,
    )

    def observe(record: RequestRecord) -> None:
        seconds.labels(record.verb, record.resource.qualified, record.code).observe(record.seconds)

    return observe
