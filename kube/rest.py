"""The Client over HTTPS: `kubernetes.client.ApiClient` as a transport, and nothing else of that library.

Its traps, measured on version 37: it retries behind our back (a 1 s limit took 4 s over 4 connections, and a
retried PUT answers a false 409), so kube.config turns that off; a JSON patch that is no list silently becomes
a strategic merge; a read limit counts each read, so an answer that trickles never ends; closing a watch from
another thread blocks, and only `response.shutdown` ends it.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kubernetes.client import ApiException
from kubernetes.config import ConfigException
from urllib3.exceptions import HTTPError

from kube import requests
from kube.client import EVERYTHING, Page, Selector
from kube.errors import Unauthorized, Unreachable
from kube.responses import parse_error, parse_event, parse_object, parse_page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kubernetes.client import ApiClient
    from urllib3 import BaseHTTPResponse

    from kube.client import Patch, WatchEvent
    from kube.objects import Object
    from kube.requests import Request, Verb
    from kube.resources import Resource

_METHODS: Final[Mapping[Verb, str]] = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
}
_CHUNK: Final = 1 << 16
"""Bytes asked of the socket at once."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Time limits of one call, in seconds: to connect, and for the answer to begin and to go on."""

    connect: float = 5.0
    answer: float = 20.0

    @property
    def longest(self) -> float:
        """The seconds after which every call has ended: an answer may begin late, and then stall once."""
        return self.connect + 2 * self.answer


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """A request that was made, for metrics and for the comparison of declared and used verbs."""

    verb: Verb
    resource: Resource
    namespace: str | None
    subresource: str
    code: int
    """HTTP status; 0 when there was no usable answer."""
    seconds: float
    """Until the whole answer was read; for a watch, until it was open."""


class RestClient:
    """The API server over HTTPS; made by kube.config.connect. Used from any number of threads."""

    def __init__(
        self,
        api: ApiClient,
        limits: Limits,
        on_request: Callable[[RequestRecord], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._limits = limits
        self._on_request = on_request
        self._clock = clock

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object:
        """Read one object, live."""
        return self._call(requests.read(resource, name, namespace))

    def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        selector: Selector = EVERYTHING,
        *,
        limit: int | None = None,
        proceed: str = "",
    ) -> Page:
        """Read one page; without `limit` all objects. `namespace` None means all namespaces."""
        return parse_page(
            resource, self._call(requests.collect(resource, namespace, selector, limit, proceed))
        )

    def create(self, resource: Resource, obj: Object, namespace: str | None = None) -> Object:
        """Create the object; raises AlreadyExists when its name is taken."""
        return self._call(requests.create(resource, obj, namespace))

    def replace(self, resource: Resource, obj: Object, subresource: str | None = None) -> Object:
        """PUT the object as given, its resourceVersion as the precondition."""
        return self._call(requests.replace(resource, obj, subresource))

    def patch(
        self,
        resource: Resource,
        name: str,
        patch: Patch,
        namespace: str | None = None,
        subresource: str | None = None,
    ) -> Object:
        """Patch one object; a failed JSON-patch `test` raises Conflict."""
        return self._call(requests.patch(resource, name, patch, namespace, subresource))

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> None:
        """Delete one object; `uid` and `resource_version` are preconditions (else Conflict)."""
        self._call(requests.delete(resource, name, namespace, uid, resource_version))

    def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        selector: Selector = EVERYTHING,
        *,
        resource_version: str,
        read_limit: float = 90.0,
    ) -> RestWatch:
        """Open a watch with bookmarks; silence of `read_limit` seconds raises Unreachable."""
        request = requests.follow(resource, namespace, selector, resource_version)
        with self._recorded(request) as outcome:
            response = self._open(request, read_limit)
            if response.status != 200:
                body = self._read(request, response, self._clock() + self._limits.answer)
                outcome.code = response.status
                raise parse_error(response.status, response.headers, body)
            outcome.code = response.status
            return RestWatch(request, response)

    def close(self) -> None:
        """Close the idle connections. Open watches are their owners' to close."""
        self._api.close()

    def _call(self, request: Request) -> Object:
        with self._recorded(request) as outcome:
            end = self._clock() + self._limits.connect + self._limits.answer
            response = self._open(request, self._limits.answer)
            body = self._read(request, response, end)
            outcome.code = response.status
            return parse_object(response.status, response.headers, body)

    def _open(self, request: Request, read_limit: float) -> BaseHTTPResponse:
        """Send the request, once, and return the answer with its body still to be read."""
        headers = self._headers(request)
        with _unreachable(request):
            answer = self._api.call_api(
                _METHODS[request.verb],
                self._api.configuration.host + request.path,
                headers,
                request.body,
                _request_timeout=(self._limits.connect, read_limit),
            )
        response: BaseHTTPResponse = answer.response
        return response

    def _headers(self, request: Request) -> dict[str, str]:
        headers = {"Accept": requests.JSON, "User-Agent": self._api.user_agent}
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        if request.verb == "watch":
            # Its connection is never used again, so that a late `close` cannot hit another request.
            headers["Connection"] = "close"
        return {**headers, **self._credential()}

    def _credential(self) -> dict[str, str]:
        """Return the Authorization header. http.client would name an ill-formed token in its error."""
        header: dict[str, str] = {}
        try:
            self._api.update_params_for_auth(header, [], ["BearerToken"], "", "", None)
        except (ConfigException, OSError) as error:
            raise Unauthorized(f"the credential cannot be read: {error}") from error
        header = {key: value.strip() for key, value in header.items()}
        if not all(value.isascii() and value.isprintable() for value in header.values()):
            raise Unauthorized("the token holds characters that no token has; write it anew")
        return header

    def _read(self, request: Request, response: BaseHTTPResponse, end: float) -> bytes:
        """Read the whole body; a body that trickles on beyond `end` is given up."""
        parts = []
        with _unreachable(request):
            while part := response.read1(_CHUNK):
                parts.append(part)
                if self._clock() > end:  # it trickles
                    response.close()
                    raise Unreachable(f"{_name(request)}: the answer took too long")
        return b"".join(parts)

    @contextmanager
    def _recorded(self, request: Request) -> Iterator[_Outcome]:
        outcome, start = _Outcome(), self._clock()
        try:
            yield outcome
        finally:
            if self._on_request is not None:
                self._on_request(
                    RequestRecord(
                        request.verb,
                        request.resource,
                        request.namespace,
                        request.subresource,
                        outcome.code,
                        self._clock() - start,
                    )
                )


class RestWatch:
    """An open watch, to be iterated once by one thread; any thread may close it."""

    def __init__(self, request: Request, response: BaseHTTPResponse) -> None:
        self._request = request
        self._response = response
        self._lock = threading.Lock()
        self._closed = False
        self._reading = False

    def __iter__(self) -> Iterator[WatchEvent]:
        """Yield events until the server ends the watch or `close` is called; Expired is raised on 410."""
        with self._lock:
            if self._closed:
                return
            self._reading = True
        try:
            yield from map(parse_event, self._lines())
        finally:
            with self._lock:
                self._closed, self._reading = True, False
                self._response.close()

    def close(self) -> None:
        """End the watch; may be called from any thread, and twice."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if not self._reading:
                self._response.close()
                return
            try:
                self._response.shutdown()
            except (OSError, ValueError, RuntimeError):
                return  # the connection has ended by itself, and so does the iteration

    def _lines(self) -> Iterator[bytes]:
        """Yield whole lines. How the connection ends after `close` is no matter."""
        rest = b""
        while True:
            try:
                part = self._response.read1(_CHUNK)
            except (HTTPError, OSError) as error:
                if self._closed:
                    return
                raise Unreachable(f"{_name(self._request)}: {error}") from error
            if not part:
                return
            *lines, rest = (rest + part).split(b"\n")
            yield from filter(None, lines)


class _Outcome:
    """What came of a request, filled in on the way."""

    code = 0


@contextmanager
def _unreachable(request: Request) -> Iterator[None]:
    """Turn the transport's errors into ours. The library turns TLS errors into its ApiException."""
    try:
        yield
    except ApiException as error:
        raise Unreachable(f"{_name(request)}: {error.reason}") from error
    except (HTTPError, OSError) as error:
        raise Unreachable(f"{_name(request)}: {error}") from error


def _name(request: Request) -> str:
    return f"{request.verb} {request.path.partition('?')[0]}"
