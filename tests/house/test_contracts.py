"""The checks of `make check` can fail: each contract is broken on purpose, each house rule is violated."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from scripts import house, no_skips

TOP = Path(__file__).resolve().parent.parent.parent
ROOMS = ("csi", "ccm", "harvester", "kube", "daemon", "sim", "companion")

BREACHES = {
    "halves": ("csi/errors.py", "import ccm"),
    "daemon": ("daemon/logs.py", "import kube.client"),
    "kube": ("kube/errors.py", "import harvester.kinds"),
    "harvester": ("harvester/kinds.py", "import csi.model"),
    "no-sim": ("csi/errors.py", "import sim"),
    "sim": ("sim/host/words.py", "import harvester.machines"),
    "halves-of-csi": ("csi/node/disk.py", "import csi.controller.names"),
    "node": ("csi/node/disk.py", "import kube.objects"),
    "grpc": ("csi/controller/names.py", "import grpc"),
    "kubernetes": ("csi/controller/volumes.py", "import kubernetes"),
    "subprocess": ("csi/controller/volumes.py", "import subprocess"),
    "purity": ("csi/node/blank_plan.py", "import time"),
}


def contracts() -> dict[str, str]:
    """Return the name of each contract by its id."""
    config = tomllib.loads((TOP / "pyproject.toml").read_text())
    return {contract["id"]: contract["name"] for contract in config["tool"]["importlinter"]["contracts"]}


def test_every_contract_is_broken_once() -> None:
    """No contract stands that nobody has seen fail."""
    assert contracts().keys() == BREACHES.keys()


@pytest.mark.parametrize("contract", BREACHES)
def test_a_breach_is_seen(contract: str, tmp_path: Path) -> None:
    """An import that a contract forbids ends the check, under the contract's name."""
    shutil.copy(TOP / "pyproject.toml", tmp_path)
    for room in ROOMS:
        shutil.copytree(TOP / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))
    path, line = BREACHES[contract]
    with (tmp_path / path).open("a") as source:
        source.write(line + "\n")
    lint = Path(sys.executable).parent / "lint-imports"
    result = subprocess.run([lint, "--no-cache"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode != 0
    assert f"{contracts()[contract]} BROKEN" in " ".join(result.stdout.split())


def source(text: str, path: str = "csi/x.py") -> house.Source:
    """Return a source of that text."""
    return house.Source(Path(path), text)


def test_a_long_file_is_seen() -> None:
    """A file of 401 lines is named, one of 400 is not."""
    assert list(house.too_long_file(source("x = 1\n" * 401)))
    assert not list(house.too_long_file(source("x = 1\n" * 400)))


def test_a_long_function_is_seen() -> None:
    """A function of 41 lines is named, one of 40 is not."""
    assert list(house.long_functions(source("def f():\n" + "    x = 1\n" * 40)))
    assert not list(house.long_functions(source("def f():\n" + "    x = 1\n" * 39)))


@pytest.mark.parametrize(
    ("line", "kind", "reason"),
    [
        ("x = 1  # no" + "qa: E501", "noqa", ""),
        ("x = 1  # no" + "qa: E501 - a table", "noqa", "a table"),
        ("x = 1  # type" + ": ignore[misc]", "type: ignore", ""),
        ("x = 1  # type" + ": ignore[misc] # untyped", "type: ignore", "untyped"),
        ("def f():\n    import os", "lazy import", ""),
        ("def f():\n    import os  # only when asked", "lazy import", "only when asked"),
    ],
)
def test_a_suppression_is_seen_with_its_reason(line: str, kind: str, reason: str) -> None:
    """Every suppression is counted, and its reason is what stands behind it."""
    ((found, _, why),) = house.suppressions(source(line))
    assert (found, why) == (kind, reason)


def test_a_plan_outside_the_purity_contract_is_seen() -> None:
    """A planning module that the contract does not list is named."""
    config = (TOP / "pyproject.toml").read_text()
    assert list(house.unlisted_plans([Path("csi/new_plan.py")], config))
    assert not list(house.unlisted_plans([Path("csi/node/blank_plan.py")], config))


@pytest.mark.parametrize(
    ("report", "fault"),
    [
        ("<testsuite><testcase name='a'/></testsuite>", False),
        ("<testsuite><testcase name='a'><skipped/></testcase></testsuite>", True),
        ("<testsuite/>", True),
        (None, True),
    ],
)
def test_a_skipped_or_missing_test_is_seen(report: str | None, fault: bool, tmp_path: Path) -> None:
    """A report that is missing, empty or holds a skipped test fails the run."""
    path = tmp_path / "report.xml"
    if report is not None:
        path.write_text(report)
    assert bool(no_skips.faults(path)) is fault
