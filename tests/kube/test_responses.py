"""What answers of the API server mean: tables of real answers."""

from __future__ import annotations

import json

import pytest

from kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    NotServed,
    Refused,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from kube.resources import CLAIMS
from kube.responses import parse_error, parse_event, parse_object, parse_page

WEBHOOK = "virtualmachine-validator.kubevirt.io"
DENIED = f'admission webhook "{WEBHOOK}" denied the request'
NO_SUCH_KIND = "the server could not find the requested resource"
LOST_RACE = "the server rejected our request due to an error in our request"


def status(code: int, reason: str, message: str) -> bytes:
    return json.dumps({"kind": "Status", "code": code, "reason": reason, "message": message}).encode()


@pytest.mark.parametrize(
    ("code", "reason", "message", "expected"),
    [
        pytest.param(404, "NotFound", 'persistentvolumeclaims "c" not found', NotFound, id="missing-object"),
        pytest.param(404, "", "404 page not found", NotServed, id="missing-kind"),
        pytest.param(404, "NotFound", NO_SUCH_KIND, NotServed, id="missing-kind-of-the-core-group"),
        pytest.param(404, "", "cluster c-1 not found", NotServed, id="a-proxy-that-lost-its-server"),
        pytest.param(409, "Conflict", "the object has been modified", Conflict, id="stale-version"),
        pytest.param(409, "AlreadyExists", '"c" already exists', AlreadyExists, id="name-taken"),
        pytest.param(403, "Forbidden", 'User "u" cannot list', Forbidden, id="no-right"),
        pytest.param(401, "Unauthorized", "Unauthorized", Unauthorized, id="bad-token"),
        pytest.param(422, "Invalid", "spec.resources: Required value", Invalid, id="malformed-object"),
        pytest.param(422, "Invalid", LOST_RACE, Conflict, id="failed-test-of-a-json-patch"),
        pytest.param(422, "Invalid", f"{DENIED}: {LOST_RACE}", Refused, id="a-webhook-with-the-same-words"),
        pytest.param(400, "BadRequest", "cannot decode", Invalid, id="bad-request"),
        pytest.param(415, "UnsupportedMediaType", "not json", Invalid, id="unknown-patch-type"),
        pytest.param(410, "Expired", "too old resource version", Expired, id="history-gone"),
        pytest.param(429, "TooManyRequests", "slow down", TooManyRequests, id="throttled"),
        pytest.param(500, "InternalError", "boom", Unreachable, id="internal-error"),
        pytest.param(503, "ServiceUnavailable", "starting", Unreachable, id="starting"),
        pytest.param(504, "Timeout", "timed out", Unreachable, id="timed-out-inside"),
        pytest.param(400, "", f"{DENIED}: no", Refused, id="refused-as-bad-request"),
        pytest.param(403, "Forbidden", f"{DENIED}: no", Refused, id="refused-as-forbidden"),
        pytest.param(409, "Conflict", f"{DENIED}: no", Refused, id="refused-as-conflict"),
        pytest.param(422, "Invalid", f"{DENIED}: no", Refused, id="refused-as-invalid"),
        pytest.param(500, "InternalError", f"{DENIED}: no", Refused, id="refused-as-internal-error"),
        pytest.param(500, "InternalError", 'failed calling webhook "w": EOF', Unreachable, id="dead-webhook"),
        pytest.param(418, "", "teapot", Unreachable, id="a-code-that-the-api-does-not-have"),
    ],
)
def test_an_error_is_told_by_code_reason_and_words(
    code: int, reason: str, message: str, expected: type[ApiError]
) -> None:
    """Each answer becomes exactly one error, with the server's code, reason and words."""
    error = parse_error(code, {}, status(code, reason, message))
    assert type(error) is expected
    assert (error.code, error.reason, error.message) == (code, reason, message)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (f"{DENIED}: the disk\nis in use: by x", "the disk\nis in use: by x"),
        (f"{DENIED} without explanation", "no reason given"),
        (f"unable to patch vm: {DENIED}: no", "no"),
    ],
)
def test_a_refusal_names_the_webhook_and_its_words(message: str, why: str) -> None:
    """The frame that the API server puts around a webhook's words is taken off."""
    error = parse_error(422, {}, status(422, "Invalid", message))
    assert isinstance(error, Refused)
    assert (error.webhook, error.why) == (WEBHOOK, why)


@pytest.mark.parametrize(
    ("headers", "details", "pause"),
    [
        ({"Retry-After": "7"}, {}, 7.0),
        ({}, {"retryAfterSeconds": 3}, 3.0),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, {}, 1.0),
        ({"Retry-After": "-5"}, {"retryAfterSeconds": "x"}, 1.0),
    ],
)
def test_a_pause_is_read_from_the_header_or_the_status(
    headers: dict[str, str], details: dict[str, object], pause: float
) -> None:
    """What cannot be read means one second."""
    error = parse_error(429, headers, json.dumps({"message": "slow", "details": details}).encode())
    assert isinstance(error, TooManyRequests)
    assert error.retry_after == pause


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"  internal error\n", "internal error"),
        (b"", "HTTP 500 without a word"),
        (b"{}", "{}"),
        (b"[]", "[]"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"x" * 100_000, "x" * 2000),
        (b"you sent Authorization: Bearer abc.def", "you sent Authorization: Bearer (hidden)"),
    ],
)
def test_an_answer_that_is_no_status_is_shown_as_it_is(body: bytes, words: str) -> None:
    """Plain text of any kind is kept, shortened, and without a token."""
    assert parse_error(500, {}, body).message == words


def test_a_404_in_plain_text_proves_no_absence() -> None:
    """A missing kind, or a proxy that does not know the way, must not read as "the object is gone"."""
    error = parse_error(404, {}, b"404 page not found\n")
    assert type(error) is NotServed
    assert error.message == "404 page not found"


def test_the_items_of_a_list_get_their_kind() -> None:
    """A list leaves out apiVersion and kind of its items; a null list is an empty page."""
    page = parse_page(CLAIMS, {"metadata": {"resourceVersion": "5", "continue": "t"}, "items": [{}]})
    assert page.items == [{"apiVersion": "v1", "kind": "PersistentVolumeClaim"}]
    assert (page.resource_version, page.proceed) == ("5", "t")
    assert parse_page(CLAIMS, {"items": None}).items == []


@pytest.mark.parametrize("line", [b"", b"null", b"{}", b'{"type":"ADDED"}', b'{"type":"SPOKEN","object":{}}'])
def test_a_line_that_is_no_event_is_unreachable(line: bytes) -> None:
    """A torn or foreign line ends the watch with an error that the informer knows how to treat."""
    with pytest.raises(Unreachable):
        parse_event(line)


def test_an_error_event_becomes_its_error() -> None:
    """The Status of an ERROR event is read as that of an answer."""
    event = {"type": "ERROR", "object": {"code": 403, "reason": "Forbidden", "message": "role was changed"}}
    with pytest.raises(Forbidden, match="role was changed"):
        parse_event(json.dumps(event).encode())


def test_an_object_is_any_answer_of_success() -> None:
    """200, 201 and 202 carry the object, or nothing."""
    assert [parse_object(code, {}, b'{"a": 1}') for code in (200, 201, 202)] == [{"a": 1}] * 3
    assert parse_object(202, {}, b"") == {}
