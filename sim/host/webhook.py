"""The host's webhooks over HTTPS, for a real API server: AdmissionReviews in, verdicts out.

The trap: the server frames a refusal itself, with the name of the webhook that it called; so each of the
host's webhooks is registered by itself and answers only for itself.
"""

from __future__ import annotations

import base64
import json
import threading
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kube.objects import dig, mapping, name_of, text
from kube.resources import Resource
from sim.apiserver import tls
from sim.apiserver.admission import AdmissionRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kube.client import Client
    from kube.objects import Object
    from sim.host.admission import Webhook
    from sim.host.refusals import Refusal

LOOPBACK: Final = "127.0.0.1"
CONFIGURATIONS: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
LIMIT: Final = 5
"""Seconds that the API server waits for a verdict."""


@contextmanager
def registered(api: Client, webhooks: Sequence[Webhook]) -> Iterator[None]:
    """Serve the webhooks and let the API server ask them, as long as the block lasts."""
    identity = tls.make()
    server = _Server(webhooks, identity)
    thread = threading.Thread(target=server.serve_forever, name="webhooks", daemon=True)
    with ExitStack() as stack:
        thread.start()
        stack.callback(thread.join)
        stack.callback(server.server_close)
        stack.callback(server.shutdown)
        for place, webhook in enumerate(webhooks):
            url = f"https://{LOOPBACK}:{server.server_address[1]}/{place}"
            made = api.create(CONFIGURATIONS, _configuration(webhook, place, url, identity.ca))
            stack.callback(api.delete, CONFIGURATIONS, name_of(made))
        yield


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # closing waits for the verdicts that are being given

    def __init__(self, webhooks: Sequence[Webhook], identity: tls.Identity) -> None:
        super().__init__((LOOPBACK, 0), _Handler)
        self.webhooks = webhooks
        context = identity.context()
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        """Judge one AdmissionReview; the path is the webhook's place in the list."""
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        webhook = self.server.webhooks[int(Path(self.path.partition("?")[0]).name)]
        body = json.dumps(_answer(review, webhook)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Say nothing: the API server tells its client."""


def _answer(review: Object, webhook: Webhook) -> Object:
    refusal = webhook.judge(_request(mapping(review, "request"), webhook.resource))
    response: Object = {"uid": text(review, "request", "uid"), "allowed": refusal is None}
    if refusal is not None:
        response["status"] = _status(refusal)
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


def _request(asked: Object, resource: Resource) -> AdmissionRequest:
    return AdmissionRequest(
        operation=asked["operation"],
        resource=resource,
        subresource=text(asked, "subResource"),
        namespace=text(asked, "namespace"),
        name=text(asked, "name"),
        user=text(asked, "userInfo", "username"),
        groups=tuple(dig(asked, "userInfo", "groups") or ()),
        object=asked.get("object"),
        old_object=asked.get("oldObject"),
        dry_run=asked.get("dryRun") is True,
    )


def _status(refusal: Refusal) -> Object:
    return {"code": refusal.code, "reason": refusal.reason, "message": refusal.words}


def _configuration(webhook: Webhook, place: int, url: str, authority: bytes) -> Object:
    """Register one webhook by itself: names within one configuration must differ."""
    entry = {
        "name": webhook.name,
        "clientConfig": {"url": url, "caBundle": base64.b64encode(authority).decode()},
        "rules": [_rule(webhook)],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "timeoutSeconds": LIMIT,
    }
    return {
        "apiVersion": CONFIGURATIONS.api_version,
        "kind": CONFIGURATIONS.kind,
        "metadata": {"name": f"simulated-host-{place}"},
        "webhooks": [entry],
    }


def _rule(webhook: Webhook) -> Object:
    plural = webhook.resource.plural
    return {
        "apiGroups": [webhook.resource.group],
        "apiVersions": [webhook.resource.version],
        "operations": list(webhook.operations),
        "resources": [f"{plural}/{sub}" if sub else plural for sub in webhook.subresources],
    }
