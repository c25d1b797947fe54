"""Reading: one object, or a list page by page.

The trap: all pages of one list show the same moment, so a continue token names a version, and ends with it.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import TYPE_CHECKING

from sim.apiserver.failures import RESTART, Failure, bad_request, expired, not_found
from sim.apiserver.selectors import matcher
from sim.apiserver.store import ForgottenError, Key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sim.apiserver.calls import Call
    from sim.apiserver.kinds import Kind
    from sim.apiserver.store import Store, Stored


def read_object(store: Store, kind: Kind, call: Call, version: int | None) -> bytes:
    """Return an object as JSON, as it is or as it was; raises Failure (404)."""
    key = Key(call.namespace if kind.resource.namespaced else "", call.name)
    stored = store.get(kind.place, key) if version is None else dict(_rows(store, kind, version)[0]).get(key)
    if stored is None:
        raise not_found(kind.resource, call.name)
    return kind.wire(stored.body)


def read_list(store: Store, kind: Kind, call: Call, query: Mapping[str, str], version: int | None) -> bytes:
    """Return a list, or a page of one, as JSON; raises Failure: 400 for what cannot be read, 410, 504."""
    labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    matches = matcher(labels, fields, kind.selectable)
    version = _asked_version(store, query) if version is None else version
    after = None
    if token := query.get("continue"):
        after, version = _parse_token(token)
    rows, version = _rows(store, kind, version)
    chosen = [
        (key, stored)
        for key, stored in rows
        if (after is None or key > after) and call.namespace in ("", key.namespace) and matches(stored.object)
    ]
    limit = number(query, "limit") or len(chosen)
    page, rest = chosen[:limit], len(chosen[limit:])
    metadata: dict[str, str | int] = {"resourceVersion": str(version)}
    if rest:
        metadata["continue"] = _token(page[-1][0], version)
    if rest and not (labels or fields):
        metadata["remainingItemCount"] = rest
    return _encode(kind, metadata, [stored for _, stored in page])


def number(query: Mapping[str, str], key: str) -> int:
    """Return a number of the query, 0 where there is none."""
    value = query.get(key, "") or "0"
    if not (value.isascii() and value.isdigit()):
        raise bad_request(f'strconv.ParseInt: parsing "{value}": invalid syntax')
    return int(value)


def _asked_version(store: Store, query: Mapping[str, str]) -> int | None:
    """Return the version that the list must be of; None for the newest, which is never too old."""
    asked = number(query, "resourceVersion")
    if asked > store.version:
        raise Failure(
            504, "Timeout", f"Timeout: Too large resource version: {asked}, current: {store.version}"
        )
    if asked and query.get("continue"):
        raise bad_request("specifying resource version is not allowed when using continue")
    return asked if query.get("resourceVersionMatch") == "Exact" else None


def _rows(store: Store, kind: Kind, version: int | None) -> tuple[list[tuple[Key, Stored]], int]:
    try:
        return store.scan(kind.place, version)
    except ForgottenError:
        raise expired(RESTART) from None


def _token(last: Key, version: int) -> str:
    return base64.urlsafe_b64encode(json.dumps([version, *last]).encode()).decode().rstrip("=")


def _parse_token(token: str) -> tuple[Key, int]:
    try:
        version, namespace, name = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except (binascii.Error, ValueError, TypeError):
        raise bad_request("invalid continue token: continue key is not valid") from None
    return Key(namespace, name), version


def _encode(kind: Kind, metadata: Mapping[str, str | int], page: list[Stored]) -> bytes:
    """Write a list; the items of a built-in kind leave their kind to the list's."""
    head = {
        "kind": f"{kind.resource.kind}List",
        "apiVersion": kind.resource.api_version,
        "metadata": metadata,
    }
    bodies = (kind.wire(stored.body) if kind.custom else stored.body for stored in page)
    return json.dumps(head)[:-1].encode() + b',"items":[' + b",".join(bodies) + b"]}"
