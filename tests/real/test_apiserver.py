"""The real API server that other suites stand on: it knows its users, serves kubectl, leaves nothing."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import ssl
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from . import apiserver, daemons
from .apiserver import RealApiServer, Settings, User, real_apiserver

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.real, pytest.mark.timeout(120)]

GUEST = User("guest", "guest-token", ("guests", "others"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, tools_dir: Path) -> Iterator[RealApiServer]:
    """Run one server, with one user without rights, for all tests that only ask it."""
    settings = Settings(users=(GUEST,), uncached=("configmaps",))
    with real_apiserver(tmp_path_factory.mktemp("real"), tools_dir, settings) as running:
        yield running


def kubectl(tools: Path, kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run kubectl as a person would, with caches of its own."""
    return subprocess.run(
        [
            tools / "kubectl",
            f"--kubeconfig={kubeconfig}",
            f"--cache-dir={kubeconfig.parent / 'cache'}",
            *arguments,
        ],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def status_of(server: RealApiServer, path: str, token: str) -> int:
    """Return the HTTP status of a GET with a token, over trusted TLS."""
    return answer_of(server, path, token)[0]


def answer_of(server: RealApiServer, path: str, token: str) -> tuple[int, str]:
    """Return the HTTP status and the text of a GET with a token, over trusted TLS."""
    trust = ssl.create_default_context(cafile=server.ca_file)
    address = server.url.removeprefix("https://")
    with contextlib.closing(http.client.HTTPSConnection(address, timeout=5, context=trust)) as connection:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def children() -> set[int]:
    """Return the ids of this process's children, zombies included."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    return {pid for pid, parent in parents.items() if parent == os.getpid()}


def test_the_admin_may_do_everything_and_a_user_nothing_yet(server: RealApiServer) -> None:
    """Tokens name users: 200 for the admin, 403 for a user without rights, 401 for an unknown token."""
    path = "/api/v1/namespaces/default/persistentvolumeclaims"
    assert status_of(server, path, server.admin_token) == 200
    assert status_of(server, path, GUEST.token) == 403
    assert status_of(server, path, "nobody's") == 401


def test_a_user_gets_the_rights_of_its_group(server: RealApiServer, tools_dir: Path) -> None:
    """A binding to one of a user's groups gives it a right in one namespace, and only there."""
    admin = server.kubeconfig(server.admin_token, "default")
    guest = server.kubeconfig(GUEST.token, "default")
    create_role = ["create", "role", "reader", "--verb=list", "--resource=pods"]
    bind = ["create", "rolebinding", "reader", "--role=reader", "--group=others"]
    assert kubectl(tools_dir, admin, *create_role).returncode == 0
    assert kubectl(tools_dir, admin, *bind).returncode == 0
    assert kubectl(tools_dir, guest, "get", "pods").returncode == 0
    refused = kubectl(tools_dir, guest, "get", "pods", "--namespace=kube-system")
    assert 'User "guest" cannot list resource "pods"' in refused.stderr


def test_kubectl_reads_a_kubeconfig_and_sees_the_namespace_in_it(
    server: RealApiServer, tools_dir: Path
) -> None:
    """A claim is made in the kubeconfig's namespace, with the finalizer that admission gives it."""
    config = server.kubeconfig(server.admin_token, "vms")
    claim = config.with_suffix(".json")
    claim.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }
        )
    )
    assert kubectl(tools_dir, config, "create", "namespace", "vms").returncode == 0
    assert kubectl(tools_dir, config, "create", f"--filename={claim}").returncode == 0
    finalizers = "jsonpath={.metadata.namespace} {.metadata.finalizers[0]}"
    seen = kubectl(tools_dir, config, "get", "persistentvolumeclaim", "data", f"--output={finalizers}")
    assert (seen.returncode, seen.stdout) == (0, "vms kubernetes.io/pvc-protection")


def test_a_pod_is_let_in_without_a_controller_manager(server: RealApiServer, tools_dir: Path) -> None:
    """The default settings let a pod be created though nobody makes service accounts."""
    config = server.kubeconfig(server.admin_token, "default")
    made = kubectl(tools_dir, config, "run", "idle", "--image=none", "--output=name")
    assert (made.stdout, made.stderr) == ("pod/idle\n", "")


def test_a_forgotten_version_has_expired(server: RealApiServer, tools_dir: Path) -> None:
    """After `forget_before`, a watch of an uncached kind from an older version gets 410."""
    config = server.kubeconfig(server.admin_token, "default")
    create = ["create", "configmap", "--output=jsonpath={.metadata.resourceVersion}"]
    old, _, new = (kubectl(tools_dir, config, *create, name).stdout for name in ("old", "missed", "new"))
    server.forget_before(new)
    path = f"/api/v1/configmaps?watch=1&timeoutSeconds=1&resourceVersion={old}"
    assert '"reason":"Expired","code":410' in answer_of(server, path, server.admin_token)[1]


def test_the_version_is_the_pinned_one(server: RealApiServer, tools_dir: Path) -> None:
    """Server and kubectl say the version that they were built from, as released programs do."""
    config = server.kubeconfig(server.admin_token, "default")
    said = json.loads(kubectl(tools_dir, config, "version", "--output=json").stdout)
    versions = {said["clientVersion"]["gitVersion"], said["serverVersion"]["gitVersion"]}
    assert len(versions) == 1
    assert versions.pop().startswith("v1.")


def test_nothing_is_left_when_it_ends(tmp_path: Path, tools_dir: Path) -> None:
    """Both programs are gone after the block, also when the block fails, and the port is closed."""
    before = children()
    servers: list[RealApiServer] = []
    with pytest.raises(ZeroDivisionError):
        _fail_while_running(tmp_path, tools_dir, servers)
    assert children() == before
    with pytest.raises(ConnectionRefusedError):
        status_of(servers[0], "/readyz", servers[0].admin_token)


def _fail_while_running(directory: Path, tools: Path, seen: list[RealApiServer]) -> None:
    before = children()
    with real_apiserver(directory, tools) as server:
        seen.append(server)
        assert len(children() - before) == 2
        raise ZeroDivisionError


def test_a_taken_port_is_followed_by_another(
    tmp_path: Path, tools_dir: Path, server: RealApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A port that another server took, here one that even answers /readyz, only costs a new try."""
    taken = int(server.url.rpartition(":")[2])
    ports = iter([taken, daemons.free_port(), taken, daemons.free_port()])
    monkeypatch.setattr(apiserver, "free_port", lambda: next(ports))
    with real_apiserver(tmp_path, tools_dir) as second:
        assert second.url != server.url
        assert status_of(second, "/readyz", second.admin_token) == 200
        assert next(ports, None) is None


def test_a_server_that_cannot_start_says_why(tmp_path: Path, tools_dir: Path) -> None:
    """The error holds the server's own words, and nothing is left running."""
    before = children()
    wrong = Settings(flags=("--no-such-flag",))
    with (
        pytest.raises(daemons.DaemonError, match="unknown flag: --no-such-flag"),
        real_apiserver(tmp_path, tools_dir, wrong),
    ):
        pass
    assert children() == before


def test_csi_sanity_is_built(tools_dir: Path) -> None:
    """The sanity suite starts and knows the flag that names a driver's socket."""
    said = subprocess.run(
        [tools_dir / "csi-sanity", "--help"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env=dict(os.environ),
    )
    assert "-csi.endpoint" in said.stdout + said.stderr
