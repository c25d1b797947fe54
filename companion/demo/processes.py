"""The driver as processes: one controller and a node each, on unix sockets, as a cluster would run them."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc

from csi._pb import csi_pb2, csi_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

START_LIMIT = 15.0
"""Seconds until a driver process must answer Probe."""
CHANNEL = (
    ("grpc.default_authority", "localhost"),
    # The socket is not there at first: look again soon, not after gRPC's second.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 250),
)
STOP_LIMIT = 30.0
"""Seconds a driver process may take to end: its own drain limit is 25 s."""


class DriverFailed(Exception):
    """A driver process did not start or did not end as it should; the message holds the end of its log."""


@dataclass(frozen=True, slots=True)
class Driver:
    """A running driver process."""

    name: str
    channel: grpc.Channel
    log: Path


@contextmanager
def driver(directory: Path, name: str, arguments: Sequence[str]) -> Iterator[Driver]:
    """Start `harvester-csi-driver` with `arguments`, wait until it serves, and end it cleanly.

    Raises DriverFailed when it does not serve within START_LIMIT or does not end with exit code 0.
    """
    socket = directory / f"{name}.sock"
    log = directory / f"{name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "csi", "--endpoint", f"unix://{socket}", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        with grpc.insecure_channel(f"unix:{socket}", options=CHANNEL) as channel:
            wait_until_it_serves(channel, process, name, log)
            yield Driver(name, channel, log)
    finally:
        end(process)
    if process.returncode != 0:
        raise DriverFailed(f"{name} ended with code {process.returncode}:\n{tail(log)}")


def wait_until_it_serves(
    channel: grpc.Channel, process: subprocess.Popen[bytes], name: str, log: Path
) -> None:
    """Call Probe until it answers; raises DriverFailed."""
    try:
        csi_pb2_grpc.IdentityStub(channel).Probe(
            csi_pb2.ProbeRequest(), timeout=START_LIMIT, wait_for_ready=True
        )
    except grpc.RpcError as error:
        state = "ended" if process.poll() is not None else "does not serve"
        raise DriverFailed(f"{name} {state}:\n{tail(log)}") from error


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask the process to end; kill it when it does not."""
    process.terminate()
    try:
        process.wait(STOP_LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def tail(log: Path, lines: int = 20) -> str:
    """Return the last lines of a log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
