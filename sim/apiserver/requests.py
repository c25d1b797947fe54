"""One request from its bytes to its answer: who asks, may they, what goes wrong, what is done."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Final

import structlog

from kube.objects import mapping, text
from kube.resources import ACCESS_REVIEWS
from sim.apiserver import patches, protobuf, strategic
from sim.apiserver.access import ANONYMOUS, asked_about
from sim.apiserver.calls import Call, read_call, split
from sim.apiserver.discovery import HEALTH, describe
from sim.apiserver.failures import (
    Failure,
    NoSuchPath,
    bad_request,
    method_not_allowed,
    no_such_kind,
    not_found,
    unpatchable,
    unsupported,
)
from sim.apiserver.faults import LoseAnswer, Stale
from sim.apiserver.reads import number, read_list, read_object
from sim.apiserver.selectors import matcher
from sim.apiserver.watches import ObjectWatch, WatchOptions
from sim.apiserver.wire import JSON, HangUp
from sim.apiserver.writes import DeleteOptions, Writer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kube.objects import Json, Object
    from sim.apiserver.access import Authorizer, Tokens
    from sim.apiserver.faults import Effect, Faults, RequestLog
    from sim.apiserver.kinds import Kind, Kinds
    from sim.apiserver.store import Store
    from sim.apiserver.wire import Connection, HttpRequest

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
PLAIN: Final = "text/plain; charset=utf-8"
_logger = structlog.get_logger()


class Dispatcher:
    """The handler of all requests."""

    def __init__(
        self,
        store: Store,
        kinds: Kinds,
        writer: Writer,
        tokens: Tokens,
        authorizer: Authorizer,
        faults: Faults,
        log: RequestLog,
        bookmark_interval: float,
    ) -> None:
        self._store = store
        self._kinds = kinds
        self._writer = writer
        self._tokens = tokens
        self._authorizer = authorizer
        self._faults = faults
        self._log = log
        self._bookmark_interval = bookmark_interval

    def __call__(self, request: HttpRequest, connection: Connection) -> None:
        """Answer one request, or raise HangUp where a fault asks for it."""
        call = Call(ANONYMOUS, request.method.lower(), request.target)
        effects: list[Effect] = []
        try:
            path, query = split(request.target)
            user = self._tokens.user(request.headers.get("authorization", ""))
            call = read_call(user, request.method, path, query, self._kinds)
            self._faults.reach("before", call)
            effects = self._faults.meet(call)
            self._authorizer.require(call)
            if call.verb == "watch":
                self._watch(call, query, connection)
                return
            code, body, form = self._apply(call, request, query, effects)
            self._faults.reach("after", call)
        except Failure as failure:
            code, body, form = failure.code, _json(failure.status), JSON
        except NoSuchPath:
            code, body, form = 404, b"404 page not found\n", PLAIN
        except HangUp:
            self._log.add(call, 0)
            raise
        except OSError:  # the client of a watch went away
            raise
        except Exception:
            _logger.exception("request failed", verb=call.verb, path=call.path)
            broken = Failure(500, "InternalError", "Internal error occurred: the server's log says more")
            code, body, form = broken.code, _json(broken.status), JSON
        if LoseAnswer() in effects:
            self._log.add(call, 0)
            raise HangUp
        self._log.add(call, code)
        connection.answer(code, body, form)

    def _apply(
        self, call: Call, request: HttpRequest, query: Mapping[str, str], effects: list[Effect]
    ) -> tuple[int, bytes, str]:
        if call.resource is None:
            if call.path in HEALTH:
                return 200, b"ok", PLAIN
            return 200, _json(describe(call.path, self._kinds)), JSON
        kind = self._kind(call)
        version = next((int(each.version) for each in effects if isinstance(each, Stale)), None)
        match call.verb:
            case "get":
                return 200, read_object(self._store, kind, call, version), JSON
            case "list":
                return 200, read_list(self._store, kind, call, query, version), JSON
            case "create" if kind.resource == ACCESS_REVIEWS:
                return 201, self._review(call, kind, _decode(kind, request)), JSON
            case _:
                code, answer = self._write(call, kind, request, query)
                return code, _json(answer), JSON

    def _kind(self, call: Call) -> Kind:
        """Return the kind that a call is about, and that its path fits to."""
        assert call.resource is not None  # noqa: S101 - told by the caller; it narrows the type
        resource = call.resource
        kind = self._kinds.find(resource.group, resource.version, resource.plural)
        itself = call.subresource or resource.plural == "namespaces"
        if kind is None or (call.namespace and not resource.namespaced and not itself):
            raise NoSuchPath if resource.group else no_such_kind()
        if call.subresource and call.subresource not in kind.subresources:
            raise not_found(resource, call.name)
        return kind

    def _write(
        self, call: Call, kind: Kind, request: HttpRequest, query: Mapping[str, str]
    ) -> tuple[int, Object]:
        dry_run = _dry_run(query.get("dryRun", ""))
        match call.verb:
            case "create" if not (call.name or call.subresource):
                sent = _decode(kind, request)
                return 201, kind.whole(self._writer.create(kind, call, sent, dry_run=dry_run))
            case "update":
                sent = _decode(kind, request)
                return 200, kind.whole(self._writer.replace(kind, call, sent, dry_run=dry_run))
            case "patch":
                return 200, kind.whole(self._patch(call, kind, request, dry_run=dry_run))
            case "delete" if not call.subresource:
                return 200, self._delete(call, kind, request, query, dry_run=dry_run)
            case _:
                raise method_not_allowed()

    def _patch(self, call: Call, kind: Kind, request: HttpRequest, *, dry_run: bool) -> Object:
        form, patch = _form(request), _parse(request.body)

        def change(old: Object) -> Object:
            match form:
                case "application/json-patch+json":
                    new = patches.apply(old, patch)
                case "application/merge-patch+json":
                    new = patches.merge(old, patch)
                case _:
                    new = strategic.merge(old, patch)
            if not isinstance(new, dict):
                raise unpatchable()
            return new

        accepted = (JSON_PATCH, MERGE_PATCH) if kind.custom else (JSON_PATCH, MERGE_PATCH, STRATEGIC)
        if form not in accepted:
            raise unsupported(accepted)
        if form == STRATEGIC and not isinstance(patch, dict):
            raise bad_request(
                "error decoding patch: json: cannot unmarshal into Go value of type map[string]interface {}"
            )
        return self._writer.update(kind, call, change, dry_run=dry_run)

    def _delete(
        self, call: Call, kind: Kind, request: HttpRequest, query: Mapping[str, str], *, dry_run: bool
    ) -> Object:
        sent = _parse(request.body) if request.body else {}
        options = sent if isinstance(sent, dict) else {}
        policy = options.get("propagationPolicy") or query.get("propagationPolicy") or "Background"
        if policy != "Background" or options.get("orphanDependents"):
            raise bad_request(f"propagationPolicy {policy} is not simulated, only Background is")
        grace = options.get("gracePeriodSeconds")
        if grace is None and "gracePeriodSeconds" in query:
            grace = number(query, "gracePeriodSeconds")
        wanted = DeleteOptions(
            text(options, "preconditions", "uid"), text(options, "preconditions", "resourceVersion"), grace
        )
        dry_run = dry_run or _dry_run(",".join(options.get("dryRun") or ()))
        left = self._writer.delete(kind, call, wanted, dry_run=dry_run)
        return _gone(kind, call) if left is None else kind.whole(left)

    def _review(self, call: Call, kind: Kind, review: Object) -> bytes:
        about = asked_about(call.user, review)
        if not (mapping(review, "spec", "resourceAttributes") or about.path):
            raise bad_request("exactly one of nonResourceAttributes or resourceAttributes must be specified")
        status = {"allowed": self._authorizer.allows(about)}
        return _json(kind.whole({"metadata": {}, "spec": mapping(review, "spec"), "status": status}))

    def _watch(self, call: Call, query: Mapping[str, str], connection: Connection) -> None:
        kind = self._kind(call)
        matches = matcher(query.get("labelSelector", ""), query.get("fieldSelector", ""), kind.selectable)
        initial = query.get("sendInitialEvents") == "true"
        options = WatchOptions(
            since=(number(query, "resourceVersion") or None) if not initial else None,
            bookmarks=query.get("allowWatchBookmarks") in ("1", "true"),
            marks_initial_end=initial,
            timeout=number(query, "timeoutSeconds") or math.inf,
        )
        self._log.add(call, 200)
        try:
            watch = ObjectWatch(self._store, kind, call, matches, options)
        except Failure as failure:
            connection.begin_stream()
            connection.send(_json({"type": "ERROR", "object": failure.status}) + b"\n")
            connection.end_stream()
            return
        self._faults.opened(watch.feed, call)
        try:
            with connection.on_close(watch.feed.end):
                watch.serve(connection, self._bookmark_interval)
        finally:
            self._faults.closed(watch.feed)
            watch.close()


def _form(request: HttpRequest) -> str:
    return request.headers.get("content-type", JSON).partition(";")[0].strip().lower()


def _parse(body: bytes) -> Json:
    try:
        return json.loads(body)
    except ValueError as error:
        raise bad_request(f"the object provided is unrecognized: json parse error: {error}") from None


def _decode(kind: Kind, request: HttpRequest) -> Object:
    """Return the object that was sent; raises Failure when it is none, or of another kind."""
    resource, form = kind.resource, _form(request)
    if form == PROTOBUF and resource in protobuf.MESSAGES:
        return protobuf.decode(request.body, protobuf.MESSAGES[resource])
    if form != JSON:
        raise unsupported((JSON,))
    sent = _parse(request.body)
    expected = f"must be of type {resource.kind}"
    if not isinstance(sent, dict):
        raise bad_request(f"the object provided is unrecognized ({expected})")
    if kind.custom and not text(sent, "kind"):
        raise bad_request(f"the object provided is unrecognized ({expected}): Object 'Kind' is missing")
    if sent.get("kind") not in (None, "", resource.kind):
        named = f'{sent["kind"]} in version "{resource.version}"'
        raise bad_request(f"{named} cannot be handled as a {resource.kind}: unknown conversion")
    if (said := sent.get("apiVersion")) not in (None, "", resource.api_version):
        words = f"the API version in the data ({said}) does not match the expected API version"
        raise bad_request(f"{words} ({resource.api_version})")
    return sent


def _dry_run(asked: str) -> bool:
    if asked not in ("", "All"):
        raise bad_request(f'dryRun: Unsupported value: ["{asked}"]: supported values: "All"')
    return asked == "All"


def _gone(kind: Kind, call: Call) -> Object:
    details = {"name": call.name, "group": kind.resource.group, "kind": kind.resource.plural}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def _json(obj: Object) -> bytes:
    return json.dumps(obj, separators=(",", ":"), ensure_ascii=False).encode()
