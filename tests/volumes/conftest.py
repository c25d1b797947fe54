"""Fixtures of the tests of volumes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sim.simulation import Simulation
from tests.volumes.bench import VolumeBench

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[VolumeBench]:
    """Start a simulated host whose disks are plain files: nobody here looks into a machine's kernel."""
    with Simulation(tmp_path / "host", nodes=1, disks=False) as simulation:
        bench = VolumeBench(simulation, tmp_path / "host")
        simulation.server.requests.clear()
        try:
            yield bench
        finally:
            simulation.server.faults.clear()
            bench.close()
