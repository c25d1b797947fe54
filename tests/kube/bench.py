"""A client on a wire, for tests of what arrives and of what comes back."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Protocol

from kubernetes.client import Configuration

from kube.config import Connection, connect
from kube.rest import Limits, RequestRecord

from .wire import PATIENCE, Exchange, Wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.real.certificates import Certificates

TOKEN = "Bearer s3cret"
PATIENT = Limits(connect=2.0, answer=PATIENCE)


class Bench:
    """A client on a wire, and what the client said of its requests."""

    def __init__(
        self,
        behave: Callable[[Exchange], None],
        token: str = TOKEN,
        limits: Limits = PATIENT,
        tls: Certificates | None = None,
    ) -> None:
        self.wire = Wire(behave, serving(tls) if tls else None)
        self.records: list[RequestRecord] = []
        configuration = Configuration(
            host=self.wire.url, api_key={"BearerToken": token}, ssl_ca_cert=str(tls.ca) if tls else None
        )
        self.client = connect(
            Connection(self.wire.url, "n", configuration), limits=limits, on_request=self.records.append
        )

    def close(self) -> None:
        self.client.close()
        self.wire.close()


def serving(tls: Certificates) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tls.certificate, tls.key)
    return context


class MakeBench(Protocol):
    """Makes a bench whose wire answers as `behave` says."""

    def __call__(
        self,
        behave: Callable[[Exchange], None],
        token: str = ...,
        limits: Limits = ...,
        tls: Certificates | None = ...,
    ) -> Bench: ...
