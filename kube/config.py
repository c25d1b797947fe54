"""Where an API server is and who we are there: from a kubeconfig, or from the pod we run in.

Reading is the library's work, which has two traps: it writes CA and keys into temporary files (nothing is
written here: a CA stays in memory, a client's key in a memory file without a name), and its errors, like
YAML's, can quote what they read, tokens included, so they are never passed on.
"""

from __future__ import annotations

import base64
import binascii
import copy
import os
import ssl
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import yaml
from kubernetes.client import ApiClient, Configuration
from kubernetes.config import ConfigException
from kubernetes.config.incluster_config import InClusterConfigLoader
from kubernetes.config.kube_config import KubeConfigLoader

from kube.objects import items, mapping, text
from kube.rest import Limits, RestClient

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kube.objects import Json, Object
    from kube.rest import RequestRecord

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where Kubernetes puts a pod's credential."""
DEFAULT_NAMESPACE: Final = "default"
"""The namespace of a context that names none, as for kubectl."""


class ConfigError(Exception):
    """The way to an API server cannot be read. The message names the file and the cure, never a secret."""


@dataclass(frozen=True, slots=True)
class Connection:
    """The way to one API server. `configuration` holds the credential: never log it."""

    server: str
    namespace: str
    configuration: Configuration = field(repr=False)


def connect(
    connection: Connection,
    *,
    pool_size: int = 32,
    limits: Limits = Limits(),  # noqa: B008 - a frozen value
    on_request: Callable[[RequestRecord], None] | None = None,
    user_agent: str = "harvester-companion",
) -> RestClient:
    """Return a client that keeps up to `pool_size` connections: as many as threads that call, and watches."""
    configuration = copy.copy(connection.configuration)
    configuration.connection_pool_maxsize = pool_size
    configuration.retries = False  # only our code knows what may be sent twice
    configuration.keep_alive = True
    api = ApiClient(configuration)
    api.user_agent = user_agent
    return RestClient(api, limits, on_request)


def from_kubeconfig(path: Path) -> Connection:
    """Read the current context of a kubeconfig. Raises ConfigError."""
    config = _parse(path)
    context = _current(config, "contexts", text(config, "current-context"), path)
    cluster = _current(config, "clusters", text(context, "cluster"), path)
    user = _current(config, "users", text(context, "user"), path) if text(context, "user") else {}
    if not text(cluster, "server").startswith("https://"):  # a token is not sent in the clear
        raise ConfigError(f"kubeconfig {path} names no server with an https:// URL in its current context")
    configuration = Configuration()
    configuration.ca_cert_data = _authority(cluster, path)
    _hold_key(user, configuration, path)
    try:
        KubeConfigLoader(config, config_base_path=str(path.parent)).load_and_set(configuration)
    except (ConfigException, KeyError, TypeError, AttributeError, ValueError, OSError):
        raise ConfigError(
            f"kubeconfig {path}: its current context cannot be used; see that the files it names exist"
        ) from None
    return Connection(configuration.host, text(context, "namespace") or DEFAULT_NAMESPACE, configuration)


def in_cluster(directory: Path = SERVICE_ACCOUNT, environment: Mapping[str, str] = os.environ) -> Connection:
    """Read the credential of the pod that we run in. Raises ConfigError.

    The token is read again each minute, as Kubernetes renews it.
    """
    configuration = Configuration()
    loader = InClusterConfigLoader(str(directory / "token"), str(directory / "ca.crt"), environ=environment)
    try:
        loader.load_and_set(configuration)
    except (ConfigException, OSError, ValueError) as error:
        raise ConfigError(
            f"this process has no service account of a pod in {directory}: {error} Name a kubeconfig, or let "
            "the pod mount its service account token"
        ) from None
    return Connection(configuration.host, _pod_namespace(directory), configuration)


def _pod_namespace(directory: Path) -> str:
    try:
        return (directory / "namespace").read_text().strip() or DEFAULT_NAMESPACE
    except OSError:
        return DEFAULT_NAMESPACE


def _parse(path: Path) -> Object:
    try:
        config = yaml.safe_load(path.read_text())
    except OSError as error:
        raise ConfigError(
            f"kubeconfig {path} cannot be read: {error.strerror}; mount it or name another"
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise ConfigError(f"kubeconfig {path} is no YAML; write it anew") from None
    if not isinstance(config, dict) or not text(config, "current-context"):
        raise ConfigError(
            f"kubeconfig {path} has no current-context; set one with kubectl config use-context"
        )
    return config


def _current(config: Object, section: str, name: str, path: Path) -> Object:
    """Return the body of the entry `name` of a section such as `clusters`, which holds `cluster` maps."""
    for entry in items(config, section):
        if text(entry, "name") == name and isinstance(entry.get(section[:-1]), dict):
            return mapping(entry, section[:-1])
    raise ConfigError(f"kubeconfig {path} names {name!r}, but has no such entry in its {section}")


def _authority(cluster: Object, path: Path) -> str | None:
    """Take the inline CA out of the cluster's entry, so that the library finds nothing to write."""
    pem = _inline(cluster, "certificate-authority-data", path)
    if pem is None:
        return None
    try:
        certificates = pem.decode()
        ssl.create_default_context(cadata=certificates)
    except (ssl.SSLError, UnicodeDecodeError):
        raise ConfigError(f"kubeconfig {path}: certificate-authority-data holds no certificate") from None
    return certificates


def _hold_key(user: Object, configuration: Configuration, path: Path) -> None:
    """Move an inline client certificate and key into memory files, for which TLS wants names."""
    files = []
    for entry in ("client-certificate", "client-key"):
        pem = _inline(user, f"{entry}-data", path)
        if pem is not None:
            files.append(_MemoryFile(entry, pem))
            user[entry] = files[-1].path
    configuration.memory_files = files  # they live as long as the configuration and its copies


class _MemoryFile:
    """A file without a place on any disk, there as long as this object is."""

    def __init__(self, name: str, content: bytes) -> None:
        file = os.memfd_create(name)
        weakref.finalize(self, os.close, file)
        os.write(file, content)
        self.path = f"/proc/self/fd/{file}"


def _inline(entry: Object, key: str, path: Path) -> bytes | None:
    value: Json = entry.pop(key, None)
    if not value:
        return None
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise ConfigError(f"kubeconfig {path}: {key} is not base64") from None
