"""`harvester-companion simulate`: a simulated host that people and their own clusters may talk to."""

from __future__ import annotations

import signal
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from sim.simulation import PROFILES, DirectoryTaken, Simulation

if TYPE_CHECKING:
    from pathlib import Path


def run(directory: Path, *, nodes: int, harvester: str, profile: str) -> None:
    """Serve until SIGTERM or SIGINT, then leave no process, mount or loop device.

    Prints one line when ready. `directory` is made when it is missing; what an earlier run left there is
    cleared away. A directory that holds anything else, or in which another one runs, is refused.
    """
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    simulated = Simulation(directory, nodes=nodes, harvester=harvester, profile=PROFILES[profile])
    with ExitStack() as stack:
        try:
            simulation = stack.enter_context(simulated)
        except (DirectoryTaken, OSError) as error:
            raise click.ClickException(str(error)) from error
        click.echo(
            f"ready: Harvester {harvester} simulated at {simulation.server.url}, "
            f"namespace {simulation.namespace}, machines {', '.join(simulation.machines)}; "
            f"kubeconfigs and node roots in {directory}"
        )
        stop.wait()
