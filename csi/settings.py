"""What the driver is told by flags and environment: read once, every mistake reported together, then frozen.

Upstream's flags and variables keep their names and defaults, so that upstream's chart starts this driver too.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from csi.model import NodeId
from csi.rpc.endpoint import parse_endpoint
from daemon.logs import FORMATS, LEVELS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from csi.rpc.endpoint import Endpoint

DISTRIBUTION: Final = "harvester-companion"
MAX_NODE_ID: Final = 256
"""Bytes; CSI spec, NodeGetInfoResponse."""


class Mode(Enum):
    """Which halves of the driver one process serves."""

    ALL = "all"
    CONTROLLER = "controller"
    NODE = "node"

    @property
    def controller(self) -> bool:
        """Whether the controller half is served."""
        return self is not Mode.NODE

    @property
    def node(self) -> bool:
        """Whether the node half is served."""
        return self is not Mode.CONTROLLER


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen for HTTP."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything the driver is told. Durations in seconds."""

    mode: Mode
    endpoint: Endpoint
    node_id: NodeId
    kubeconfig: Path
    guest_kubeconfig: Path | None
    in_cluster: bool
    """Whether this is a pod, which has the guest's API without a kubeconfig."""
    cluster_id: str
    host_storage_class: str
    root: Path
    max_wait: float
    collect_window: float
    metrics: Address | None
    log_level: str
    log_format: str


class SettingsError(Exception):
    """What was told makes no sense; `mistakes` holds a sentence for each."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = tuple(mistakes)


def read_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Read the command line; raises SettingsError with every mistake in it."""
    flags = _Flags(environment)
    given = flags.read(arguments)
    if given.nodeid == "" and given.mode is not Mode.CONTROLLER:
        flags.mistakes.append("--nodeid: required where the node half runs; give the name of the VM")
    in_cluster = "KUBERNETES_SERVICE_HOST" in environment
    guest = in_cluster or given.guest_kubeconfig is not None
    if not (given.mode is Mode.NODE or guest or given.cluster_id):
        flags.mistakes.append("--cluster-id: required where neither a pod nor --guest-kubeconfig tells it")
    if flags.mistakes:
        raise SettingsError(flags.mistakes)
    return Settings(
        mode=given.mode,
        endpoint=given.endpoint,
        node_id=given.nodeid,
        kubeconfig=given.kubeconfig,
        guest_kubeconfig=given.guest_kubeconfig,
        in_cluster=in_cluster,
        cluster_id=given.cluster_id,
        host_storage_class=given.host_storage_class,
        root=given.root,
        max_wait=given.max_wait,
        collect_window=given.collect_window,
        metrics=given.metrics_address,
        log_level="debug" if given.debug else given.log_level,
        log_format=given.log_format,
    )


class _Flags:
    """The command line. A value that cannot be read is noted, and reading goes on."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.mistakes: list[str] = []
        self._environment = environment
        self._parser = argparse.ArgumentParser(
            prog="harvester-csi-driver",
            description="CSI driver for Kubernetes clusters whose nodes are Harvester VMs.",
            allow_abbrev=False,
            exit_on_error=False,
        )
        self._parser.add_argument("--version", action="version", version=f"%(prog)s {version(DISTRIBUTION)}")
        self._upstream()
        self._ours()

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Return the values, None where one could not be read."""
        try:
            given, unknown = self._parser.parse_known_args(arguments)
        except argparse.ArgumentError as error:
            raise SettingsError([*self.mistakes, str(error)]) from error
        self.mistakes += [f"{word}: not known" for word in unknown]
        return given

    def _upstream(self) -> None:
        add = self._add
        add("--nodeid", _node_id, "", "id of this node: the name of its VM")
        add("--endpoint", parse_endpoint, "unix:///csi/csi.sock", "where to serve CSI")
        add(
            "--kubeconfig",
            Path,
            "/etc/kubernetes/cloud-config",
            "kubeconfig of the host (Harvester's cloud config): a file, or a folder that holds it",
        )
        add(
            "--host-storage-class",
            str,
            "",
            "host storage class of volumes whose own class names none; else the host's default",
            variable="HOST_STORAGE_CLASS",
        )
        self._parser.add_argument(
            "--debug",
            action="store_true",
            default=self._environment.get("DEBUG", "").lower() in {"1", "t", "true"},
            help="the same as --log-level=debug (or $DEBUG)",
        )

    def _ours(self) -> None:
        add = self._add
        add("--mode", _one_of([mode.value for mode in Mode], Mode), "all", "which halves to serve")
        add(
            "--guest-kubeconfig",
            Path,
            None,
            "kubeconfig of this cluster; else the pod's own account, else none",
        )
        add("--cluster-id", str, "", "mark of this cluster on the host; else the UID of its kube-system")
        add("--root", _folder, "/", "where the machine's /dev and /sys are")
        add("--max-wait", _seconds, "110", "seconds that a call may wait when its caller allows more")
        add("--collect-window", _seconds, "0.05", "seconds to collect changes of one machine into one patch")
        add("--metrics-address", _address, None, "HOST:PORT for /metrics and /healthz; else none")
        add("--log-level", _one_of(LEVELS, str), "info", f"one of {', '.join(LEVELS)}")
        add("--log-format", _one_of(FORMATS, str), "auto", f"one of {', '.join(FORMATS)}")

    def _add(
        self,
        name: str,
        read: Callable[[str], object],
        default: str | None,
        explanation: str,
        *,
        variable: str = "",
    ) -> None:
        def checked(text: str) -> object:
            try:
                return read(text)
            except ValueError as error:
                self.mistakes.append(f"{name}: {error}")
                return None

        self._parser.add_argument(
            name,
            type=checked,
            default=self._environment.get(variable) or default,
            help=explanation
            + (f" (or ${variable})" if variable else "")
            + (" [%(default)s]" if default else ""),
        )


def _one_of(words: Sequence[str], make: Callable[[str], object]) -> Callable[[str], object]:
    def read(text: str) -> object:
        if text not in words:
            raise ValueError(f"{text!r} is none of {', '.join(words)}")
        return make(text)

    return read


def _node_id(text: str) -> NodeId:
    if len(text.encode()) > MAX_NODE_ID:
        raise ValueError(f"an id has at most {MAX_NODE_ID} bytes")
    return NodeId(text)


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"{text} is no number of seconds")
    return seconds


def _folder(text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        raise ValueError(f"{text} is no folder")
    return path


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) < 2**16):
        raise ValueError(f"{text!r} is not HOST:PORT")
    return Address(host.strip("[]"), int(port))
