"""`harvester-companion simulate` as a process: ready in one line, usable, and gone without a trace."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from companion.demo.run import left_on_the_machine
from kube.config import connect, from_kubeconfig
from kube.errors import Forbidden
from kube.resources import CLAIMS, NAMESPACES

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(60)


def simulate(directory: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start the command."""
    command = [sys.executable, "-m", "companion", "simulate", "--dir", str(directory), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_it_says_when_it_is_ready_and_ends_cleanly(tmp_path: Path) -> None:
    """One line when ready; the guest's kubeconfig works with the guest's rights; SIGTERM leaves nothing."""
    process = simulate(tmp_path, "--nodes", "1")
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("ready: Harvester 1.9 simulated at https://127.0.0.1:")
        connection = from_kubeconfig(tmp_path / "guest-role.kubeconfig")
        client = connect(connection)
        assert client.list(CLAIMS, connection.namespace).items is not None
        with pytest.raises(Forbidden):
            client.list(NAMESPACES)
        client.close()
        assert (tmp_path / "nodes" / "guest-a-node-1" / "sys" / "block").is_dir()
        assert (tmp_path / "guest-role.kubeconfig").stat().st_mode & 0o077 == 0
    finally:
        process.terminate()
        rest, errors = process.communicate(timeout=30)
    assert (process.returncode, rest, errors) == (0, "", "")
    assert left_on_the_machine(tmp_path) == []


def test_a_release_that_is_not_known_is_refused(tmp_path: Path) -> None:
    """Only releases that are really simulated can be asked for."""
    process = simulate(tmp_path, "--harvester", "2.0")
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 2
    assert "2.0" in errors


def test_a_folder_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    """Nothing that is not a simulated host's own is cleared away."""
    (tmp_path / "mine.kubeconfig").write_text("mine")
    process = simulate(tmp_path)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "is not empty and not a simulated host's" in errors
    assert (tmp_path / "mine.kubeconfig").read_text() == "mine"


def test_a_second_one_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    """The first goes on undisturbed."""
    first = simulate(tmp_path, "--nodes", "1")
    try:
        assert first.stdout is not None
        assert first.stdout.readline().startswith("ready:")
        before = (tmp_path / "admin.kubeconfig").read_text()
        second = simulate(tmp_path, "--nodes", "1")
        _, errors = second.communicate(timeout=30)
        assert second.returncode == 1
        assert "another simulated host runs in" in errors
        assert (tmp_path / "admin.kubeconfig").read_text() == before
    finally:
        first.terminate()
        first.communicate(timeout=30)
    assert first.returncode == 0


def test_a_folder_may_be_used_again(tmp_path: Path) -> None:
    """After a run that ended, or was killed, the next one starts in its place."""
    for end in ("kill", "terminate"):
        process = simulate(tmp_path, "--nodes", "1")
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready:")
        getattr(process, end)()
        process.communicate(timeout=30)
    assert process.returncode == 0
    assert left_on_the_machine(tmp_path) == []
