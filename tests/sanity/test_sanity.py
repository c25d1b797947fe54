"""The published csi-sanity against the driver as a process, on the simulated host as a process.

Everything is started as a user would by hand: `harvester-companion simulate`, then the driver with the
guest's kubeconfig. The suite's own JUnit reports are kept in build/reports/.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import grpc
import pytest

from companion.demo.processes import CHANNEL
from csi._pb import csi_pb2, csi_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

TOP = Path(__file__).resolve().parent.parent.parent
REPORTS = TOP / "build" / "reports"
GIB = 1 << 30


@contextmanager
def running(arguments: Sequence[str], log: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a module of ours as a process; end it afterwards and expect a clean end."""
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", *arguments], stdout=subprocess.PIPE, stderr=errors, text=True, cwd=TOP
        )
        try:
            yield process
        finally:
            process.terminate()
            process.communicate(timeout=40)
    assert process.returncode == 0, log.read_text()[-4000:]


@contextmanager
def simulated_host(directory: Path) -> Iterator[Path]:
    """Start `harvester-companion simulate`; yield its directory once it says that it is ready."""
    host = directory / "host"
    with running(
        ["companion", "simulate", "--dir", str(host), "--nodes", "2"], directory / "host.log"
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("ready:"), (directory / "host.log").read_text()[-4000:]
        yield host


@contextmanager
def driver(directory: Path, host: Path, machine: str) -> Iterator[str]:
    """Start the whole driver for one machine; yield its endpoint once it answers Probe."""
    socket = directory / "csi.sock"
    arguments = [
        "csi", "--endpoint", f"unix://{socket}", "--nodeid", machine, "--root", str(host / "nodes" / machine),
        "--kubeconfig", str(host / "guest-role.kubeconfig"), "--cluster-id", "sanity",
    ]  # fmt: skip
    with (
        running(arguments, directory / "driver.log"),
        grpc.insecure_channel(f"unix:{socket}", options=CHANNEL) as channel,
    ):
        csi_pb2_grpc.IdentityStub(channel).Probe(csi_pb2.ProbeRequest(), wait_for_ready=True, timeout=20)
        yield f"unix://{socket}"


def sanity(tools: Path, directory: Path, endpoint: str, kind: str) -> subprocess.CompletedProcess[str]:
    """Run csi-sanity once with volumes of `kind`; its report goes to build/reports/."""
    REPORTS.mkdir(parents=True, exist_ok=True)
    return subprocess.run(
        [
            str(tools / "csi-sanity"), f"--csi.endpoint={endpoint}", f"--csi.testvolumeaccesstype={kind}",
            f"--csi.mountdir={directory / 'mount'}", f"--csi.stagingdir={directory / 'staging'}",
            f"--csi.testvolumesize={GIB}", f"--ginkgo.junit-report={REPORTS / f'csi-sanity-{kind}.xml'}",
            "--ginkgo.no-color", "--ginkgo.seed=1",
        ],
        capture_output=True, text=True, check=False, timeout=840,
    )  # fmt: skip


def counts(report: Path) -> dict[str, int]:
    """Return how many of the suite's tests ran, failed and were skipped."""
    cases = list(ElementTree.parse(report).iter("testcase"))  # noqa: S314 - csi-sanity wrote it here
    failed = sum(case.find("failure") is not None or case.find("error") is not None for case in cases)
    skipped = sum(case.find("skipped") is not None for case in cases)
    return {"ran": len(cases) - skipped, "failed": failed, "skipped": skipped}


@pytest.mark.parametrize("kind", ["mount", "block"])
def test_csi_sanity_passes(kind: str, tools_dir: Path, tmp_path: Path) -> None:
    """The published conformance suite finds no fault with what the driver declares."""
    with simulated_host(tmp_path) as host, driver(tmp_path, host, "guest-a-node-1") as endpoint:
        result = sanity(tools_dir, tmp_path, endpoint, kind)
    found = counts(REPORTS / f"csi-sanity-{kind}.xml")
    assert result.returncode == 0, result.stdout[-8000:]
    assert found["ran"] >= 30, found
    assert not [
        line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(tmp_path) in line
    ]


def test_kubectl_shows_the_objects_of_a_driver_started_by_hand(tools_dir: Path, tmp_path: Path) -> None:
    """An operator who starts both by hand sees the claim with kubectl, under the guest's role."""
    kubectl = [str(tools_dir / "kubectl"), "--kubeconfig"]
    with (
        simulated_host(tmp_path) as host,
        driver(tmp_path, host, "guest-a-node-1") as endpoint,
        grpc.insecure_channel(endpoint.replace("unix://", "unix:")) as channel,
    ):
        mode = csi_pb2.VolumeCapability.AccessMode(
            mode=csi_pb2.VolumeCapability.AccessMode.SINGLE_NODE_WRITER
        )
        capability = csi_pb2.VolumeCapability(access_mode=mode, mount=csi_pb2.VolumeCapability.MountVolume())
        csi_pb2_grpc.ControllerStub(channel).CreateVolume(
            csi_pb2.CreateVolumeRequest(name="by-hand", volume_capabilities=[capability]), timeout=30
        )
        shown = subprocess.run(
            [*kubectl, str(host / "guest-role.kubeconfig"), "get", "pvc", "by-hand", "-o=jsonpath={..phase}"],
            capture_output=True, text=True, check=True, timeout=30, env={**os.environ, "HOME": str(tmp_path)},
        )  # fmt: skip
    assert shown.stdout == "Bound"
