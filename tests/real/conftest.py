"""Where the real tools are; without them the tests fail, since a tier that skips proves nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

TOOLS_VARIABLE = "HARVESTER_COMPANION_TOOLS"


@pytest.fixture(scope="session")
def tools_dir() -> Path:
    """Return the folder of the tools that `tools/build` made."""
    named = os.environ.get(TOOLS_VARIABLE)
    if not named:
        pytest.fail(f"{TOOLS_VARIABLE} is not set; `make conformance` sets it to what tools/build prints")
    directory = Path(named)
    if not (directory / "kube-apiserver").is_file():
        pytest.fail(f"{TOOLS_VARIABLE} names {directory}, which holds no kube-apiserver; run tools/build")
    return directory
