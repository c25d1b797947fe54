"""A node root for each test; whatever the test does, its mounts and loop devices are gone afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kernel.disks import NodeRoot

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def node_root(tmp_path: Path) -> Iterator[NodeRoot]:
    """Return an empty node root."""
    root = NodeRoot(tmp_path)
    (root.root / "sys" / "block").mkdir(parents=True)
    try:
        yield root
    finally:
        root.clean()
