"""What the API server's answers mean. Pure: a status, headers and bytes in; objects or an ApiError out.

The traps: a webhook refuses with any code, and only its words tell it from the server's own no; a failed
JSON-patch `test` is a 422 like a malformed object; a 500 may be plain text; a proxy answers in HTML, even
with 200.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, cast

from kube.client import Page, WatchEvent
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
from kube.objects import dig, items, text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kube.objects import Json, Object
    from kube.resources import Resource

_REFUSAL: Final = re.compile(
    r'admission webhook "(?P<webhook>[^"]*)" denied the request(?:: (?P<why>.*)| without explanation)',
    re.DOTALL,
)
"""The frame that kube-apiserver puts around a webhook's words (apiserver, webhook/errors/statuserror.go)."""
_LOST_TEST: Final = "the server rejected our request due to an error in our request"
"""What a failed JSON-patch `test` comes to (apimachinery, NewGenericServerResponse for 422)."""
_NO_SUCH_KIND: Final = "the server could not find the requested resource"
"""What a 404 about a kind says in some groups; others answer in plain text (tried on kube-apiserver 1.36)."""
_BEARER: Final = re.compile(r"(?i)\bbearer\s+\S+")
_WORDS_LIMIT: Final = 2000
"""Characters kept of an answer that is no Status: a proxy's error page can be long."""

_BY_CODE: Final[Mapping[int, type[ApiError]]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotServed,  # plain text by the API server, or whatever a proxy says
    405: Invalid,
    406: Invalid,
    409: Conflict,
    410: Expired,
    413: Invalid,
    415: Invalid,
    422: Invalid,
}


def parse_object(code: int, headers: Mapping[str, str], body: bytes) -> Object:
    """Return the object that a call was answered with; an empty body is an empty object.

    Raises the ApiError that the answer means.
    """
    if not 200 <= code < 300:
        raise parse_error(code, headers, body)
    answer = _decode(body, code) if body else {}
    if not isinstance(answer, dict):
        raise Unreachable(f"the answer is no object: {_words(body)}", code=code)
    return answer


def parse_page(resource: Resource, answer: Object) -> Page:
    """Return a page of a list. Its items get the kind that a list leaves out."""
    found = items(answer, "items")
    for item in found:
        item.setdefault("apiVersion", resource.api_version)
        item.setdefault("kind", resource.kind)
    return Page(found, text(answer, "metadata", "resourceVersion"), text(answer, "metadata", "continue"))


def parse_event(line: bytes) -> WatchEvent:
    """Return one event of a watch; raises the ApiError that an ERROR event means."""
    event = _decode(line)
    if not isinstance(event, dict) or not isinstance(event.get("object"), dict):
        raise Unreachable(f"the watch sent no event: {_words(line)}")
    match event.get("type"):
        case "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" as kind:
            return WatchEvent(kind, event["object"])
        case "ERROR":
            raise _status_error(_number(event["object"], "code"), {}, event["object"])
        case _:
            raise Unreachable(f"the watch sent an event of an unknown type: {_words(line)}")


def parse_error(code: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """Return the error that an answer of another code than 2xx means."""
    try:
        status = _decode(body)
    except Unreachable:
        status = None
    if not isinstance(status, dict) or not text(status, "message"):
        status = {"message": _words(body) or f"HTTP {code} without a word"}
    return _status_error(code, headers, status)


def _status_error(code: int, headers: Mapping[str, str], status: Object) -> ApiError:
    message, reason = _without_token(text(status, "message")), text(status, "reason")
    if refusal := _REFUSAL.search(message):
        why = refusal["why"] or "no reason given"
        return Refused(message, webhook=refusal["webhook"], why=why, code=code, reason=reason)
    if code == 429:
        pause = _pause(headers, status)
        return TooManyRequests(message, retry_after=pause, code=code, reason=reason)
    return _kind(code, reason, message)(message, code=code, reason=reason)


def _kind(code: int, reason: str, message: str) -> type[ApiError]:
    if reason == "AlreadyExists":
        return AlreadyExists
    if code == 404 and reason == "NotFound" and _NO_SUCH_KIND not in message:
        return NotFound
    if code == 422 and _LOST_TEST in message:
        return Conflict
    return _BY_CODE.get(code, Unreachable)


def _pause(headers: Mapping[str, str], status: Object) -> float:
    """Return the seconds that the server asks us to wait; 1 where it says nothing that can be read."""
    said = headers.get("Retry-After", "")
    if said.isascii() and said.isdigit():
        return float(said)
    return float(_number(status, "details", "retryAfterSeconds") or 1)


def _number(status: Object, *path: str) -> int:
    value = dig(status, *path)
    return value if isinstance(value, int) else 0


def _decode(body: bytes, code: int = 0) -> Json:
    try:
        return cast("Json", json.loads(body))
    except ValueError as error:
        raise Unreachable(f"the answer is no JSON: {_words(body)}", code=code) from error


def _words(body: bytes) -> str:
    return _without_token(body[:_WORDS_LIMIT].decode(errors="replace").strip())


def _without_token(words: str) -> str:
    """Return the words without a credential that a proxy may have echoed."""
    return _BEARER.sub("Bearer (hidden)", words)
