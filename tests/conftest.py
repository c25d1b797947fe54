"""Fixtures for all tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sim.simulation import Simulation
from tests.support.onhost import OnHost

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def simulation(tmp_path: Path) -> Iterator[Simulation]:
    """Start a simulated Harvester 1.9 host with three machines that run, without any delay."""
    with Simulation(tmp_path / "host") as simulation:
        yield simulation


@pytest.fixture
def on_host(simulation: Simulation) -> OnHost:
    """Return what writes to the host and looks at it in the plainest way, with the admin's rights."""
    return OnHost(simulation.admin, simulation.namespace, simulation.host)
