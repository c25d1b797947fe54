"""The driver as a process on a unix socket."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest

from csi._pb import csi_pb2, csi_pb2_grpc

from .inprocess import CANARY, mount
from .messages import filled, methods, path, send

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

HERE = Path(__file__).parent
START_LIMIT = 20.0
"""Seconds until a process must answer Probe, on a busy machine."""
END_LIMIT = 10.0
"""Seconds a process may take to end when no call holds it."""
POLL = 0.02
NOBODY = json.dumps(
    {
        "current-context": "host",
        "contexts": [{"name": "host", "context": {"cluster": "host", "user": "host", "namespace": "ns"}}],
        "clusters": [{"name": "host", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "host", "user": {"token": "not-to-be-shown"}}],
    }
)
"""A kubeconfig of a port on which nothing listens."""
STAGE = csi_pb2.NodeStageVolumeRequest


@dataclass
class Process:
    """A driver that was started, and its output."""

    process: subprocess.Popen[bytes]
    log: Path
    channel: grpc.Channel

    def output(self) -> str:
        return self.log.read_text()

    def terminate(self) -> int:
        """End it as a kubelet does; return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(END_LIMIT)


def eventually(what: str, check: Callable[[], bool]) -> None:
    """Wait until `check()` is true."""
    ends = time.monotonic() + START_LIMIT
    while not check():
        assert time.monotonic() < ends, f"{what} did not come true"
        threading.Event().wait(POLL)


@contextmanager
def started(command: Sequence[str], socket: Path) -> Iterator[Process]:
    """Start a driver, wait until it serves, and end it whatever happens."""
    log = socket.with_suffix(".log")
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, *command], stdout=out, stderr=subprocess.STDOUT)
    try:
        eventually("serving", lambda: "serving" in log.read_text() or process.poll() is not None)
        with grpc.insecure_channel(f"unix:{socket}") as channel:
            csi_pb2_grpc.IdentityStub(channel).Probe(csi_pb2.ProbeRequest(), timeout=START_LIMIT)
            yield Process(process, log, channel)
    finally:
        process.kill()
        process.wait()


def driver(socket: Path, *arguments: str, python: Sequence[str] = ()) -> list[str]:
    """Return the command of the real driver, of a host where nobody answers."""
    kubeconfig = socket.with_suffix(".kubeconfig")
    kubeconfig.write_text(NOBODY)
    told = (f"--endpoint=unix://{socket}", f"--kubeconfig={kubeconfig}", "--cluster-id=c")
    return [*python, "-m", "csi", *told, *arguments]


def slow(socket: Path, limit: float) -> list[str]:
    """Return the command of the driver whose stage call stays until its file is removed."""
    return [str(HERE / "slow_driver.py"), str(socket), str(limit)]


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    return tmp_path / "csi.sock"


def test_version_is_the_distributions() -> None:
    """--version prints name and version on stdout and ends with 0."""
    said = subprocess.run(
        [sys.executable, "-m", "csi", "--version"], capture_output=True, text=True, check=True
    )
    assert said.stdout.split()[0] == "harvester-csi-driver"


def test_wrong_flags_are_listed_and_end_with_2() -> None:
    """All mistakes stand on stderr, one a line, before anything is started."""
    said = subprocess.run(
        [sys.executable, "-m", "csi", "--mode=x", "--max-wait=y", "--nodeid=n", "--cluster-id=c"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 2
    assert len(said.stderr.splitlines()) == 2


def test_a_missing_kubeconfig_is_told(socket: Path) -> None:
    """A controller half that is given no way to the host ends with 2 and names the file."""
    arguments = driver(socket, "--mode=controller", "--kubeconfig=/no/such/config")
    said = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    assert (said.returncode, "/no/such/config" in said.stderr) == (2, True)


def test_a_kubeconfig_is_found_in_its_folder(socket: Path, tmp_path: Path) -> None:
    """Upstream's chart mounts a Secret as a folder; its key is the file."""
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "cloud-provider-config").write_text(NOBODY)
    with started(driver(socket, "--mode=controller", f"--kubeconfig={folder}"), socket) as process:
        assert process.terminate() == 0


@pytest.mark.parametrize("mode", ["controller", "node", "all"])
def test_a_driver_serves_and_ends_cleanly(socket: Path, mode: str) -> None:
    """Without a host in reach every mode serves; SIGTERM ends it with 0, its socket gone."""
    with started(driver(socket, f"--mode={mode}", "--nodeid=n1"), socket) as process:
        assert process.terminate() == 0
    assert not socket.exists()


def test_a_driver_starts_over_the_socket_of_a_killed_one(socket: Path) -> None:
    """After SIGKILL the next driver serves on the same path."""
    with started(driver(socket, "--mode=node", "--nodeid=n1"), socket) as process:
        process.process.kill()
        process.process.wait()
    assert socket.exists()
    with started(driver(socket, "--mode=node", "--nodeid=n2"), socket) as process:
        info = csi_pb2_grpc.NodeStub(process.channel).NodeGetInfo(csi_pb2.NodeGetInfoRequest(), timeout=5)
        assert info.node_id == "n2"


def test_a_second_driver_on_a_live_socket_is_refused(socket: Path) -> None:
    """A driver does not push another one aside: it ends with 1 and says why."""
    with started(driver(socket, "--mode=node", "--nodeid=n1"), socket) as process:
        second = subprocess.run(
            [sys.executable, *driver(socket, "--mode=node", "--nodeid=n2")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (second.returncode, "another driver answers there" in second.stderr) == (1, True)
        csi_pb2_grpc.IdentityStub(process.channel).Probe(csi_pb2.ProbeRequest(), timeout=5)


def stage(process: Process, working: Path) -> Callable[[], grpc.StatusCode]:
    """Begin a call that stays while the file `working` exists; return how to wait for its code."""
    request = STAGE(volume_id="v", staging_target_path=str(working), volume_capability=mount())
    call = csi_pb2_grpc.NodeStub(process.channel).NodeStageVolume.future(request, timeout=START_LIMIT)
    eventually("the call", working.exists)
    return call.code


def test_a_running_call_finishes_after_sigterm(socket: Path, tmp_path: Path) -> None:
    """After SIGTERM a running call is answered, a new one refused, and the end waits for the running one."""
    working = tmp_path / "working"
    with started(slow(socket, limit=25), socket) as process:
        code = stage(process, working)
        process.process.send_signal(signal.SIGTERM)
        eventually("the stop", lambda: "stopping" in process.output())
        eventually(
            "the refusal",
            lambda: send(process.channel, "/csi.v1.Identity/Probe", b"")[0] is grpc.StatusCode.UNAVAILABLE,
        )
        assert process.process.poll() is None
        working.unlink()
        assert code() is grpc.StatusCode.OK
        assert process.process.wait(END_LIMIT) == 0
    assert not socket.exists()


def test_a_stuck_call_does_not_hold_the_end_for_ever(socket: Path, tmp_path: Path) -> None:
    """When a call does not finish within the limit, the driver ends all the same and says so."""
    with started(slow(socket, limit=0.1), socket) as process:
        code = stage(process, tmp_path / "working")
        assert process.terminate() == 0
        assert code() is not grpc.StatusCode.OK
        assert '"unfinished": 1' in process.output()
    assert not socket.exists()


def test_no_secret_is_written(socket: Path) -> None:
    """Secrets and mount options' values of every RPC stay out of the output, at debug too."""
    arguments = driver(socket, "--mode=all", "--nodeid=n1", "--log-level=debug", "--max-wait=0.1")
    with started(arguments, socket) as process:
        for method in methods():
            for text in ("text", "/no/such/path"):
                code, details = send(
                    process.channel, path(method), filled(method, text, CANARY).SerializeToString()
                )
                assert code is not grpc.StatusCode.UNKNOWN
                assert CANARY not in details
        process.terminate()
        for method in methods():
            assert path(method) in process.output()
        assert CANARY not in process.output()
        assert "not-to-be-shown" not in process.output()


def test_the_node_half_knows_no_kubernetes(socket: Path) -> None:
    """A --mode=node process has loaded no Kubernetes client and nothing that speaks to the host."""
    command = driver(socket, "--mode=node", "--nodeid=n1", python=["-X", "importtime"])
    with started(command, socket) as process:
        for method in methods():
            send(process.channel, path(method), b"")
        process.terminate()
        loaded = {line.rpartition("|")[2].strip() for line in process.output().splitlines() if "|" in line}
    assert "csi.rpc.node" in loaded
    roots = {module.partition(".")[0] for module in loaded}
    assert roots.isdisjoint({"kubernetes", "kube", "harvester", "yaml", "urllib3"})
    assert not any(module.startswith("csi.controller") for module in loaded)


@pytest.mark.parametrize(("mode", "service"), [("node", "Controller"), ("controller", "Node")])
def test_the_other_half_answers_unimplemented(socket: Path, mode: str, service: str) -> None:
    """The half that runs elsewhere answers every method UNIMPLEMENTED, never an empty capability list."""
    with started(driver(socket, f"--mode={mode}", "--nodeid=n1"), socket) as process:
        for method in csi_pb2.DESCRIPTOR.services_by_name[service].methods:
            code, details = send(process.channel, path(method), b"")
            assert code is grpc.StatusCode.UNIMPLEMENTED
            assert f"--mode={mode}" in details


def test_grpc_is_loaded_with_its_fork_handlers_off() -> None:
    """Whoever imports the gRPC side has told gRPC to stay out of forks before gRPC is loaded."""
    program = (
        "import os, sys, csi.rpc\n"
        "assert 'grpc' not in sys.modules\n"
        "assert os.environ['GRPC_ENABLE_FORK_SUPPORT'] == '0'\n"
        "import csi.__main__\n"
        "assert 'grpc' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
