"""The client on the wire: what arrives, how often, and what a broken answer becomes."""

from __future__ import annotations

import json
import traceback
from typing import TYPE_CHECKING

import pytest
from kubernetes.client import Configuration
from kubernetes.config import ConfigException

from kube.client import JsonPatch, MergePatch
from kube.config import Connection, connect
from kube.errors import ApiError, Invalid, TooManyRequests, Unauthorized, Unreachable
from kube.json_patch import test as unchanged
from kube.resources import CLAIMS, NODES
from kube.rest import Limits

from .bench import TOKEN
from .wire import Exchange

if TYPE_CHECKING:
    from collections.abc import Callable

    from kube.rest import RestClient

    from .bench import MakeBench

CLAIM = {"metadata": {"name": "c", "namespace": "n", "resourceVersion": "7"}}
SHORT = Limits(connect=2.0, answer=0.2)


CALLS: dict[str, Callable[[RestClient], object]] = {
    "get": lambda client: client.get(CLAIMS, "c", "n"),
    "list": lambda client: client.list(CLAIMS, "n"),
    "create": lambda client: client.create(CLAIMS, CLAIM, "n"),
    "update": lambda client: client.replace(CLAIMS, CLAIM),
    "patch": lambda client: client.patch(CLAIMS, "c", MergePatch({}), "n"),
    "delete": lambda client: client.delete(CLAIMS, "c", "n", uid="u"),
    "watch": lambda client: client.watch(CLAIMS, "n", resource_version="1", read_limit=0.2),
}


@pytest.mark.parametrize("verb", CALLS)
@pytest.mark.parametrize("fault", [Exchange.reset, Exchange.stall])
def test_a_lost_answer_is_unreachable_and_the_request_was_sent_once(
    bench: MakeBench, verb: str, fault: Callable[[Exchange], None]
) -> None:
    """Whatever becomes of the answer, each request arrives once and its outcome is said to be unknown."""
    it = bench(fault, limits=SHORT)
    with pytest.raises(Unreachable):
        CALLS[verb](it.client)
    assert len(it.wire.heard) == 1
    assert [(record.verb, record.code) for record in it.records] == [(verb, 0)]


@pytest.mark.parametrize("verb", CALLS)
@pytest.mark.parametrize(
    ("code", "headers"),
    [(429, {"Retry-After": "1"}), (503, {"Retry-After": "1"}), (302, {"Location": "/elsewhere"})],
)
def test_no_answer_makes_the_client_ask_again(
    bench: MakeBench, verb: str, code: int, headers: dict[str, str]
) -> None:
    """Neither a pause that the server asks for nor a redirect leads to a second request."""
    it = bench(lambda exchange: exchange.reply(code, b"", headers))
    with pytest.raises(ApiError) as error:
        CALLS[verb](it.client)
    assert error.value.code == code
    assert len(it.wire.heard) == 1
    assert [(record.verb, record.code) for record in it.records] == [(verb, code)]


def test_nobody_listening_is_unreachable(bench: MakeBench) -> None:
    """A refused connection is an Unreachable that names the request."""
    it = bench(Exchange.reply)
    it.wire.close()
    with pytest.raises(Unreachable, match="get /api/v1/namespaces/n/persistentvolumeclaims/c"):
        it.client.get(CLAIMS, "c", "n")


def test_an_answer_that_trickles_is_given_up(bench: MakeBench) -> None:
    """A body that comes byte by byte does not hold a caller beyond the call's limit."""

    def trickle(exchange: Exchange) -> None:
        exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        while not exchange.stopping.wait(0.05):
            exchange.send(b" ")

    it = bench(trickle, limits=Limits(0.1, 0.5))
    with pytest.raises(Unreachable, match="took too long"):
        it.client.get(CLAIMS, "c", "n")


@pytest.mark.parametrize(
    ("code", "body"), [(500, b"unable to patch vm: boom"), (200, b"<html>log in</html>"), (200, b"[1]")]
)
def test_an_answer_that_is_no_object_is_unreachable_with_its_words(
    bench: MakeBench, code: int, body: bytes
) -> None:
    """Plain text, a proxy's page and JSON of another shape are shown, not swallowed."""
    it = bench(lambda exchange: exchange.reply(code, body))
    with pytest.raises(Unreachable) as error:
        it.client.get(CLAIMS, "c", "n")
    assert body.decode() in error.value.message
    assert error.value.code == code


def test_a_cut_answer_is_unreachable(bench: MakeBench) -> None:
    """A body shorter than announced is no answer, even where its beginning reads well."""

    def cut(exchange: Exchange) -> None:
        exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{}")
        exchange.keep = False

    it = bench(cut)
    with pytest.raises(Unreachable):
        it.client.get(CLAIMS, "c", "n")


def test_an_empty_answer_is_an_empty_object(bench: MakeBench) -> None:
    """KubeVirt's subresources answer 202 without a body."""
    it = bench(lambda exchange: exchange.reply(202, b""))
    assert it.client.replace(CLAIMS, CLAIM, "addvolume") == {}


def test_calls_share_a_connection(bench: MakeBench) -> None:
    """Calls one after another open one connection."""
    it = bench(Exchange.reply)
    for _ in range(3):
        it.client.get(CLAIMS, "c", "n")
    assert it.wire.connections == 1


def test_a_connection_that_the_server_has_closed_is_not_used(bench: MakeBench) -> None:
    """Servers close idle connections; the next call, a write too, takes a new one and succeeds."""

    def reply_and_leave(exchange: Exchange) -> None:
        exchange.reply()
        exchange.keep = False

    it = bench(reply_and_leave)
    it.client.get(CLAIMS, "c", "n")
    it.wire.settle()
    it.client.delete(CLAIMS, "c", "n")
    assert it.wire.connections == 2


def test_the_pause_of_a_429_is_told(bench: MakeBench) -> None:
    """TooManyRequests carries the seconds of the Retry-After header."""
    it = bench(lambda exchange: exchange.reply(429, b"slow down", {"Retry-After": "7"}))
    with pytest.raises(TooManyRequests) as error:
        it.client.get(CLAIMS, "c", "n")
    assert error.value.retry_after == 7.0


def test_patches_arrive_as_what_they_are(bench: MakeBench) -> None:
    """A JSON patch arrives as a list, also an empty one and a tuple, and a merge patch as a map."""
    it = bench(Exchange.reply)
    operation = unchanged("/metadata/uid", "u")
    it.client.patch(CLAIMS, "c", JsonPatch((operation,)), "n")
    it.client.patch(CLAIMS, "c", JsonPatch([]), "n")
    it.client.patch(NODES, "k", MergePatch({"spec": None}), subresource="status")
    assert [(heard.headers["content-type"], json.loads(heard.body)) for heard in it.wire.heard] == [
        ("application/json-patch+json", [operation]),
        ("application/json-patch+json", []),
        ("application/merge-patch+json", {"spec": None}),
    ]
    assert it.wire.heard[2].path == "/api/v1/nodes/k/status"


def test_a_record_says_what_was_asked(bench: MakeBench) -> None:
    """The observer hears verb, kind, namespace, subresource and code of each request."""
    it = bench(Exchange.reply)
    it.client.patch(CLAIMS, "c", MergePatch({}), "n", "status")
    [record] = it.records
    assert (record.verb, record.resource, record.namespace) == ("patch", CLAIMS, "n")
    assert (record.subresource, record.code) == ("status", 200)
    assert record.seconds > 0


def test_the_token_is_sent_without_its_line_end(bench: MakeBench) -> None:
    """A token file that ends in a newline works."""
    it = bench(Exchange.reply, token=f"{TOKEN}\n")
    it.client.get(CLAIMS, "c", "n")
    assert it.wire.heard[0].headers["authorization"] == TOKEN


def test_an_ill_formed_token_is_not_quoted(bench: MakeBench) -> None:
    """A token with a line break inside is refused before anything is sent, and not shown."""
    it = bench(Exchange.reply, token=f"{TOKEN}\nX: y")
    with pytest.raises(Unauthorized) as error:
        it.client.get(CLAIMS, "c", "n")
    assert "s3cret" not in "".join(traceback.format_exception(error.value))
    assert it.wire.heard == []


@pytest.mark.parametrize(
    "fault", [ConfigException("Token file exists but empty."), FileNotFoundError("token")]
)
def test_a_credential_that_vanished_is_unauthorized(fault: Exception) -> None:
    """The library reads a pod's token again now and then; a call raises only what calls may raise."""

    def refresh(_configuration: Configuration) -> None:
        raise fault

    configuration = Configuration(host="http://127.0.0.1:1", api_key={"BearerToken": TOKEN})
    configuration.refresh_api_key_hook = refresh  # type: ignore[assignment] # annotated as None only
    client = connect(Connection("", "n", configuration))
    with pytest.raises(Unauthorized, match="cannot be read"):
        client.get(CLAIMS, "c", "n")


def test_an_echoed_token_is_hidden(bench: MakeBench) -> None:
    """A proxy that shows the request's headers in its error page does not get the token into our logs."""
    it = bench(lambda exchange: exchange.reply(502, exchange.heard.headers["authorization"].encode()))
    with pytest.raises(Unreachable) as error:
        it.client.get(CLAIMS, "c", "n")
    assert "s3cret" not in error.value.message


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a?b", "a%2fb", "../../../v1/namespaces/n"])
def test_a_name_that_is_none_is_never_sent(bench: MakeBench, name: str) -> None:
    """A name cannot turn one object's path into that of another object or of a whole collection."""
    it = bench(Exchange.reply)
    with pytest.raises(Invalid):
        it.client.delete(CLAIMS, name, "n")
    assert it.wire.heard == []
