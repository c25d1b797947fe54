"""A real etcd and kube-apiserver on loopback ports: what our simulated server is held to.

The trap: there is no controller manager. Nothing collects garbage, makes service accounts or empties a
deleted namespace; the cluster roles admin, edit and view stay without rules; the finalizer pvc-protection is
put on a claim by admission but taken off by nobody. The admission plugin ServiceAccount is off by default,
since without that manager no pod would be let in.
"""

from __future__ import annotations

import contextlib
import csv
import http
import http.client
import json
import secrets
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .certificates import Certificates, make_certificates
from .daemons import CALL_LIMIT, LOOPBACK, DaemonError, PortTakenError, free_port, running, wait_until_ready

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

ADMIN = "admin"
ADMIN_GROUP = "system:masters"  # RBAC lets this group do everything
START_LIMIT = 60.0
STOP_LIMIT = 3.0  # an open watch holds the server for a minute, and there is nothing to save
TRIES = 3
TOKENS = "tokens.csv"


@dataclass(frozen=True, slots=True)
class User:
    """Someone whom the server knows by a token; what they may do, a test grants with RBAC objects."""

    name: str
    token: str
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Settings:
    """What a test may choose of the server.

    `uncached` names built-in resources, such as `configmaps`, that get no watch cache: see `forget_before`.
    (For custom ones there is only the flag `--watch-cache=false`.) `flags` are appended; the last one wins.
    """

    users: tuple[User, ...] = ()
    uncached: tuple[str, ...] = ()
    enabled_plugins: tuple[str, ...] = ()
    disabled_plugins: tuple[str, ...] = ("ServiceAccount",)
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RealApiServer:
    """A server that is up: where it is, whom to trust, and who may do everything."""

    url: str
    admin_token: str
    directory: Path
    certificates: Certificates
    etcd_url: str

    @property
    def ca_file(self) -> Path:
        """Return the file of the authority that signed the server's certificate."""
        return self.certificates.ca

    def kubeconfig(self, user_token: str, namespace: str) -> Path:
        """Write a kubeconfig for a token and a default namespace, private to us, and return its path."""
        path = self.directory / f"{secrets.token_hex(8)}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(json.dumps(_kubeconfig(self.url, self.ca_file, user_token, namespace), indent=2))
        return path

    def forget_before(self, resource_version: str) -> None:
        """Compact etcd: a list continued from an older version, or a watch from before that, then gets 410.

        So only for resources that `Settings.uncached` names: the watch cache of others remembers enough.
        """
        trust = _etcd_trust(self.certificates)
        address = self.etcd_url.removeprefix("https://")
        order = json.dumps({"revision": resource_version, "physical": True})
        connection = http.client.HTTPSConnection(address, timeout=CALL_LIMIT, context=trust)
        with contextlib.closing(connection):
            connection.request("POST", "/v3/kv/compaction", order)
            answer = connection.getresponse()
            if answer.status != http.HTTPStatus.OK:
                raise DaemonError(f"etcd did not compact: {answer.read().decode(errors='replace')}")


def _etcd_trust(files: Certificates) -> ssl.SSLContext:
    """Return what etcd and its clients know each other by."""
    trust = ssl.create_default_context(cafile=files.ca)
    trust.load_cert_chain(files.certificate, files.key)
    return trust


def _kubeconfig(url: str, ca_file: Path, token: str, namespace: str) -> dict[str, object]:
    """Return the kubeconfig as an object; written as JSON it is YAML too."""
    name = "real"
    context = {"cluster": name, "user": name, "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": url, "certificate-authority": str(ca_file)}}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": context}],
        "current-context": name,
    }


@contextlib.contextmanager
def real_apiserver(directory: Path, tools: Path, settings: Settings | None = None) -> Iterator[RealApiServer]:
    """Start etcd and kube-apiserver, yield the server once /readyz answers, and end both on the way out.

    `directory` is for certificates, data and logs, and is made if need be; `tools` is the folder that
    `tools/build` printed. Call it from a thread that lives as long as the block: a fixture is fine.
    Raises DaemonError with the end of the log when one of them does not come up.
    """
    directory = directory.resolve()
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings = settings or Settings()
    admin = User(ADMIN, secrets.token_hex(16), (ADMIN_GROUP,))
    _write_tokens(directory / TOKENS, (admin, *settings.users))
    ground = _Ground(directory, tools.resolve(), make_certificates(directory))
    with contextlib.ExitStack() as stack:
        etcd = _on_a_free_port(stack, lambda port: _etcd(ground, port))
        url = _on_a_free_port(stack, lambda port: _kube_apiserver(ground, settings, etcd, port))
        yield RealApiServer(url, admin.token, directory, ground.certificates, etcd)


@dataclass(frozen=True, slots=True)
class _Ground:
    """What both programs are started from."""

    directory: Path
    tools: Path
    certificates: Certificates


def _write_tokens(path: Path, users: tuple[User, ...]) -> None:
    path.touch(mode=0o600)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerows([user.token, user.name, user.name, ",".join(user.groups)] for user in users)


def _on_a_free_port(stack: contextlib.ExitStack, start: Callable[[int], AbstractContextManager[str]]) -> str:
    """Enter what `start` makes for a free port, or another when somebody was faster; return its URL."""
    for _ in range(TRIES - 1):
        with contextlib.suppress(PortTakenError):
            return stack.enter_context(start(free_port()))
    return stack.enter_context(start(free_port()))


@contextlib.contextmanager
def _etcd(ground: _Ground, port: int) -> Iterator[str]:
    url = f"https://{LOOPBACK}:{port}"
    peers = f"http://{LOOPBACK}:0"  # a single member has no peers, so nobody needs to know this port
    files = ground.certificates
    command: list[str | Path] = [
        ground.tools / "etcd",
        f"--data-dir={ground.directory / f'etcd-{port}'}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        f"--cert-file={files.certificate}",
        f"--key-file={files.key}",
        f"--trusted-ca-file={files.ca}",
        "--client-cert-auth",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]
    log = ground.directory / "etcd.log"
    with running(command, log, stop_limit=STOP_LIMIT) as process:
        wait_until_ready(process, log, port, _etcd_trust(files), limit=START_LIMIT)
        yield url


@contextlib.contextmanager
def _kube_apiserver(ground: _Ground, settings: Settings, etcd: str, port: int) -> Iterator[str]:
    url = f"https://{LOOPBACK}:{port}"
    command: list[str | Path] = [
        ground.tools / "kube-apiserver",
        f"--secure-port={port}",
        *_storage_flags(ground.certificates, etcd),
        *_serving_flags(ground),
        *_chosen_flags(settings),
    ]
    trust = ssl.create_default_context(cafile=ground.certificates.ca)
    log = ground.directory / "kube-apiserver.log"
    with running(command, log, stop_limit=STOP_LIMIT) as process:
        wait_until_ready(process, log, port, trust, limit=START_LIMIT)
        yield url


def _storage_flags(files: Certificates, etcd: str) -> list[str]:
    return [
        f"--etcd-servers={etcd}",
        f"--etcd-cafile={files.ca}",
        f"--etcd-certfile={files.certificate}",
        f"--etcd-keyfile={files.key}",
    ]


def _serving_flags(ground: _Ground) -> list[str]:
    files = ground.certificates
    return [
        f"--bind-address={LOOPBACK}",
        f"--advertise-address={LOOPBACK}",
        "--endpoint-reconciler-type=none",  # an Endpoints object may not hold a loopback address
        "--service-cluster-ip-range=10.43.0.0/24",
        "--allow-privileged=true",
        f"--cert-dir={ground.directory}",
        f"--tls-cert-file={files.certificate}",
        f"--tls-private-key-file={files.key}",
        f"--token-auth-file={ground.directory / TOKENS}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-signing-key-file={files.service_account_key}",
        f"--service-account-key-file={files.service_account_key}",
    ]


def _chosen_flags(settings: Settings) -> list[str]:
    uncached = ",".join(f"{resource}#0" for resource in settings.uncached)
    enabled, disabled = ",".join(settings.enabled_plugins), ",".join(settings.disabled_plugins)
    return [
        *([f"--watch-cache-sizes={uncached}"] if uncached else []),
        *([f"--enable-admission-plugins={enabled}"] if enabled else []),
        *([f"--disable-admission-plugins={disabled}"] if disabled else []),
        *settings.flags,
    ]
