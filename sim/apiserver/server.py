"""The whole server: everything that the other modules are, put together, started and ended."""

from __future__ import annotations

import base64
import secrets
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import yaml

from kube.resources import NAMESPACES
from sim.apiserver import lifecycle, tls
from sim.apiserver.access import MASTERS, Authorizer, Tokens, bootstrap_roles
from sim.apiserver.collector import Collector
from sim.apiserver.faults import Faults, RequestLog
from sim.apiserver.kinds import Kinds
from sim.apiserver.requests import Dispatcher
from sim.apiserver.store import Key, Store
from sim.apiserver.wire import Listener
from sim.apiserver.writes import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from sim.apiserver.admission import AdmissionHook

ADMIN: Final = "admin"
BOOKMARK_INTERVAL: Final = 60.0
"""Seconds between the bookmarks of a watch, as on a real server."""
SEEDED: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
"""Namespaces that every cluster has."""


def utc_now() -> datetime:
    """Return the time in UTC."""
    return datetime.now(UTC)


class ApiServer:
    """An in-memory Kubernetes API server on a loopback port. It begins empty, but for what every cluster has.

    `hooks` judge each write, in their order. Tests reach into it by `faults` and `requests`; its objects are
    read and written through HTTPS only, as on a real server.
    """

    def __init__(
        self,
        *,
        directory: Path | None = None,
        port: int = 0,
        hooks: Sequence[AdmissionHook] = (),
        bookmark_interval: float = BOOKMARK_INTERVAL,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        """Prepare a server; its certificates are kept in `directory`, or nowhere. Port 0 takes a free one."""
        self.faults = Faults()
        self.requests = RequestLog()
        self._store = Store()
        self._tokens = Tokens()
        self._identity = tls.load_or_make(directory)
        kinds = Kinds()
        writer = Writer(self._store, kinds, hooks, clock)
        authorizer = Authorizer(self._store)
        dispatcher = Dispatcher(
            self._store,
            kinds,
            writer,
            self._tokens,
            authorizer,
            self.faults,
            self.requests,
            bookmark_interval,
        )
        self._collector = Collector(self._store, kinds, writer)
        self.admin_token = secrets.token_hex(16)
        """The bearer token of the user `admin`, who may do everything."""
        self.add_user(ADMIN, self.admin_token, (MASTERS,))
        self._port = port
        self._dispatcher = dispatcher
        self._listener: Listener | None = None
        self._seed(kinds, clock)

    def start(self) -> None:
        """Listen, and collect garbage."""
        self._collector.start()
        self._listener = Listener(self._identity.context(), self._dispatcher, self._port)
        self._port = self._listener.port
        self._listener.start()

    def stop(self) -> None:
        """End every connection and thread; nothing is left. A stopped server does not start again."""
        if self._listener is None:
            return
        self.faults.stopped.set()
        self._collector.stop()
        self.faults.end_watches()
        self._listener.stop()
        self._listener = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Where it listens, once it is started."""
        return f"https://127.0.0.1:{self._port}"

    @property
    def ca_pem(self) -> str:
        """The certificate of the authority that clients have to trust."""
        return self._identity.ca.decode()

    @property
    def version(self) -> str:
        """The resourceVersion of the newest write."""
        return str(self._store.version)

    def add_user(self, name: str, token: str, groups: Iterable[str] = ()) -> None:
        """Let a bearer token stand for a user, such as `system:serviceaccount:<namespace>:<name>`."""
        self._tokens.add(token, name, groups)

    def remove_user(self, token: str) -> None:
        """Let a token be unknown from now on (401)."""
        self._tokens.remove(token)

    def kubeconfig(self, token: str, namespace: str = "default") -> str:
        """Return a kubeconfig with a token and the CA inside. It is a secret."""
        name = "simulated"
        authority = base64.b64encode(self._identity.ca).decode()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": name, "cluster": {"server": self.url, "certificate-authority-data": authority}}
            ],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}],
            "current-context": name,
        }
        return yaml.safe_dump(config)

    def admin_kubeconfig(self) -> str:
        """Return a kubeconfig of the user who may do everything."""
        return self.kubeconfig(self.admin_token)

    def forget_before(self, resource_version: str) -> None:
        """Drop the history before a version: watches and continued lists from before it get 410."""
        self._store.forget_before(int(resource_version))

    def drop_connections(self) -> None:
        """Cut every connection, watches too, as a server that dies does."""
        if self._listener is not None:
            self._listener.drop()

    def _seed(self, kinds: Kinds, clock: Callable[[], datetime]) -> None:
        namespaces = [(NAMESPACES, {"metadata": {"name": name}}) for name in SEEDED]
        for resource, obj in (*namespaces, *bootstrap_roles()):
            kind = kinds.find(resource.group, resource.version, resource.plural)
            assert kind is not None  # noqa: S101 - the table of built-in kinds holds it; it narrows the type
            birth = lifecycle.Birth(str(uuid.uuid4()), lifecycle.stamp(clock()), "")
            new = lifecycle.newborn(kind, obj, "", birth)
            self._store.create(kind.place, Key("", obj["metadata"]["name"]), new)
