"""Kubeconfigs and the credential of a pod."""

from __future__ import annotations

import base64
import gc
import os
import ssl
import tempfile
import traceback
from typing import TYPE_CHECKING

import pytest
import yaml

from kube.config import ConfigError, connect, from_kubeconfig, in_cluster
from kube.errors import Unreachable
from kube.resources import CLAIMS

from .wire import Exchange, Wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kube.objects import Json, Object
    from tests.real.certificates import Certificates

TOKEN = "s3cret-token"


@pytest.fixture
def server(certificates: Certificates) -> Iterator[Wire]:
    """Run a TLS server that lets in only who shows a certificate of its authority."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=certificates.ca)
    context.load_cert_chain(certificates.certificate, certificates.key)
    context.verify_mode = ssl.CERT_REQUIRED
    wire = Wire(Exchange.reply, context)
    yield wire
    wire.close()


def encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def kubeconfig(server: str = "https://127.0.0.1:1", **user: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "host", "cluster": {"server": server}}],
        "contexts": [{"name": "here", "context": {"cluster": "host", "user": "me", "namespace": "guest-1"}}],
        "users": [{"name": "me", "user": user or {"token": TOKEN}}],
    }


def write(path: Path, config: Object) -> Path:
    path.write_text(yaml.safe_dump(config))
    return path


def test_a_kubeconfig_with_everything_inside_leaves_no_file(
    certificates: Certificates, server: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CA, certificate and key need no temporary file, also when the client outlives its Connection."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    config = kubeconfig(
        server.url,
        **{
            "client-certificate-data": encoded(certificates.certificate),
            "client-key-data": encoded(certificates.key),
        },
    )
    config["clusters"][0]["cluster"]["certificate-authority-data"] = encoded(certificates.ca)
    client = connect(from_kubeconfig(write(tmp_path / "config", config)))
    gc.collect()
    assert client.get(CLAIMS, "c", "n") == {}
    assert list(temporary.iterdir()) == []
    client.close()


def test_the_memory_of_a_key_is_given_back(certificates: Certificates, tmp_path: Path) -> None:
    """Reading a kubeconfig again and again opens no more and more files."""
    config = kubeconfig(
        **{
            "client-certificate-data": encoded(certificates.certificate),
            "client-key-data": encoded(certificates.key),
        }
    )
    path = write(tmp_path / "config", config)

    def open_files() -> int:
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    before = open_files()
    for _ in range(5):
        from_kubeconfig(path)
    assert open_files() == before


def test_files_are_looked_for_beside_the_kubeconfig(
    certificates: Certificates, server: Wire, tmp_path: Path
) -> None:
    """A relative path is relative to the kubeconfig, as for kubectl; a token file may end in a newline."""
    for name, source in (
        ("ca.crt", certificates.ca),
        ("tls.crt", certificates.certificate),
        ("tls.key", certificates.key),
    ):
        (tmp_path / name).write_bytes(source.read_bytes())
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    config = kubeconfig(
        server.url, **{"client-certificate": "tls.crt", "client-key": "tls.key", "tokenFile": "token"}
    )
    config["clusters"][0]["cluster"]["certificate-authority"] = "ca.crt"
    client = connect(from_kubeconfig(write(tmp_path / "config", config)))
    assert client.get(CLAIMS, "c", "n") == {}
    assert server.heard[0].headers["authorization"] == f"Bearer {TOKEN}"
    client.close()


def test_a_server_with_a_foreign_certificate_is_unreachable(
    certificates: Certificates, server: Wire, tmp_path: Path
) -> None:
    """Without its CA the server is not trusted, and no token is sent to it."""
    client = connect(from_kubeconfig(write(tmp_path / "config", kubeconfig(server.url))))
    with pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
        client.get(CLAIMS, "c", "n")
    assert server.heard == []
    client.close()


def test_the_namespace_is_that_of_the_current_context(tmp_path: Path) -> None:
    """A context without a namespace means `default`, as for kubectl."""
    config = kubeconfig()
    assert from_kubeconfig(write(tmp_path / "a", config)).namespace == "guest-1"
    del config["contexts"][0]["context"]["namespace"]
    connection = from_kubeconfig(write(tmp_path / "b", config))
    assert (connection.namespace, connection.server) == ("default", "https://127.0.0.1:1")
    assert TOKEN not in repr(connection)


def without(*path: str | int) -> Callable[[Object], None]:
    def remove(config: Object) -> None:
        here: Json = config
        for step in path[:-1]:
            here = here[step]
        del here[path[-1]]

    return remove


def with_cluster(**fields: str) -> Callable[[Object], None]:
    return lambda config: config["clusters"][0]["cluster"].update(fields)


def with_user(**fields: object) -> Callable[[Object], None]:
    return lambda config: config["users"][0]["user"].update(fields)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (without("current-context"), "no current-context"),
        (without("contexts"), "'here', but has no such entry in its contexts"),
        (without("clusters", 0), "'host', but has no such entry in its clusters"),
        (without("users", 0), "'me', but has no such entry in its users"),
        (without("users", 0, "user"), "'me', but has no such entry in its users"),
        (without("clusters", 0, "cluster", "server"), "names no server"),
        (with_cluster(server="127.0.0.1:6443"), "names no server"),
        (with_cluster(server="http://127.0.0.1:80"), "names no server"),
        (with_cluster(**{"certificate-authority-data": "!"}), "certificate-authority-data is not base64"),
        (with_cluster(**{"certificate-authority-data": "YWJj"}), "holds no certificate"),
        (with_cluster(**{"certificate-authority": "/missing/ca.crt"}), "cannot be used"),
        (with_user(**{"client-key-data": "!"}), "client-key-data is not base64"),
        (with_user(**{"client-certificate": 5}), "cannot be used"),
        (with_user(token=None, tokenFile="/missing/token"), "cannot be used"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_says_what_is_wrong(
    spoil: Callable[[Object], None], says: str, tmp_path: Path
) -> None:
    """The error names the file and what to look at, and never quotes the token."""
    config = kubeconfig()
    spoil(config)
    path = write(tmp_path / "config", config)
    with pytest.raises(ConfigError, match=says) as error:
        from_kubeconfig(path)
    assert str(path) in str(error.value)
    assert TOKEN not in "".join(traceback.format_exception(error.value))


@pytest.mark.parametrize("content", [f"users: [token: {TOKEN}", f"- {TOKEN}", "", "\x00"])
def test_a_file_that_is_no_kubeconfig_is_not_quoted(content: str, tmp_path: Path) -> None:
    """YAML's errors show what they read; ours do not."""
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(ConfigError, match=str(path)) as error:
        from_kubeconfig(path)
    assert TOKEN not in "".join(traceback.format_exception(error.value))


def test_a_missing_kubeconfig_is_named(tmp_path: Path) -> None:
    """A path that was mistyped, or a secret that was not mounted."""
    with pytest.raises(ConfigError, match=r"missing cannot be read: No such file.*mount it"):
        from_kubeconfig(tmp_path / "missing")


def pod(directory: Path, certificates: Certificates) -> Path:
    (directory / "token").write_text(TOKEN)
    (directory / "ca.crt").write_bytes(certificates.ca.read_bytes())
    (directory / "namespace").write_text("kube-system")
    return directory


ENVIRONMENT = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def test_a_pod_finds_its_credential(certificates: Certificates, tmp_path: Path) -> None:
    """Address from the environment, namespace from the mounted files."""
    connection = in_cluster(pod(tmp_path, certificates), ENVIRONMENT)
    assert (connection.server, connection.namespace) == ("https://10.0.0.1:443", "kube-system")


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
def test_a_pod_without_a_credential_says_so(certificates: Certificates, tmp_path: Path, missing: str) -> None:
    """The error names the directory and the two ways out."""
    (pod(tmp_path, certificates) / missing).unlink()
    with pytest.raises(ConfigError, match="Name a kubeconfig"):
        in_cluster(tmp_path, ENVIRONMENT)


def test_a_process_outside_of_a_pod_says_so(certificates: Certificates, tmp_path: Path) -> None:
    """Without the variables that Kubernetes sets there is no address."""
    with pytest.raises(ConfigError, match="Name a kubeconfig"):
        in_cluster(pod(tmp_path, certificates), {})
