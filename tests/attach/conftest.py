"""Fixtures of the attach engine's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kube.config import connect, from_kubeconfig
from sim.simulation import Simulation
from tests.attach.bench import Bench

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Start a simulated host whose disks are plain files: nobody here looks into a machine's kernel."""
    with Simulation(tmp_path / "host", disks=False) as simulation:
        kubeconfig = from_kubeconfig(tmp_path / "host" / "guest-role.kubeconfig")
        bench = Bench(simulation, lambda limits: connect(kubeconfig, limits=limits))
        try:
            yield bench
        finally:
            simulation.server.faults.clear()
            bench.close()
