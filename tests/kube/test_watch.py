"""Watches on the wire: torn lines, silence, lost connections, and closing from another thread."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import pytest

from kube.errors import Expired, Unreachable
from kube.resources import CLAIMS

from .wire import PATIENCE, Exchange

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube.client import WatchEvent
    from tests.real.certificates import Certificates

    from .bench import MakeBench


def event(kind: str, version: str) -> bytes:
    return json.dumps({"type": kind, "object": {"metadata": {"resourceVersion": version}}}).encode() + b"\n"


def versions(events: Iterator[WatchEvent]) -> list[tuple[str, str]]:
    return [(each.type, each.object["metadata"]["resourceVersion"]) for each in events]


def test_a_watch_puts_torn_lines_together(bench: MakeBench) -> None:
    """Events may share a chunk and span chunks."""

    def tear(exchange: Exchange) -> None:
        raw = event("ADDED", "1") + event("BOOKMARK", "2") + event("DELETED", "3")
        exchange.begin()
        for part in (raw[:10], raw[10:90], raw[90:], b""):
            exchange.chunk(part)

    it = bench(tear)
    watch = it.client.watch(CLAIMS, "n", resource_version="0")
    assert versions(iter(watch)) == [("ADDED", "1"), ("BOOKMARK", "2"), ("DELETED", "3")]
    assert "allowWatchBookmarks=true&resourceVersion=0" in it.wire.heard[0].path


def test_the_connection_of_a_watch_is_its_own(bench: MakeBench) -> None:
    """A close that comes late, when the watch has ended by itself, must not hit another request."""
    it = bench(Exchange.reply)
    watch = it.client.watch(CLAIMS, "n", resource_version="0")
    assert it.wire.heard[0].headers["connection"] == "close"
    watch.close()


def test_a_watch_whose_answer_has_no_chunks_yields_events_at_once(bench: MakeBench) -> None:
    """An event is handed on when it arrives, not when a buffer is full."""

    def plain(exchange: Exchange) -> None:
        exchange.send(b"HTTP/1.0 200 OK\r\n\r\n" + event("ADDED", "1"))
        exchange.stall()

    it = bench(plain)
    watch = it.client.watch(CLAIMS, "n", resource_version="0")
    events = iter(watch)
    assert next(events).type == "ADDED"
    watch.close()
    assert list(events) == []


def test_a_watch_that_lost_its_history_raises_expired(bench: MakeBench) -> None:
    """An ERROR event of code 410 is Expired."""
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}

    def expire(exchange: Exchange) -> None:
        exchange.begin()
        exchange.chunk(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
        exchange.chunk(b"")

    it = bench(expire)
    with pytest.raises(Expired, match="too old"):
        list(it.client.watch(CLAIMS, "n", resource_version="0"))


def test_a_silent_watch_is_unreachable(bench: MakeBench) -> None:
    """A half-open connection shows after the read limit."""

    def silent(exchange: Exchange) -> None:
        exchange.begin()
        exchange.stall()

    it = bench(silent)
    with pytest.raises(Unreachable, match="timed out"):
        list(it.client.watch(CLAIMS, "n", resource_version="0", read_limit=0.2))


def test_a_reset_watch_is_unreachable(bench: MakeBench) -> None:
    """A connection that breaks in the middle is told from a watch that the server ended."""

    def break_off(exchange: Exchange) -> None:
        exchange.begin()
        exchange.chunk(event("ADDED", "1"))
        exchange.keep = False

    it = bench(break_off)
    events = iter(it.client.watch(CLAIMS, "n", resource_version="0"))
    assert next(events).type == "ADDED"
    with pytest.raises(Unreachable):
        next(events)


@pytest.mark.parametrize("encrypted", [False, True])
def test_closing_ends_a_waiting_iteration(
    bench: MakeBench, certificates: Certificates, encrypted: bool
) -> None:
    """Close from another thread ends an iteration that waits for an event, and may come twice."""

    def one_event(exchange: Exchange) -> None:
        exchange.begin()
        exchange.chunk(event("ADDED", "1"))
        exchange.stall()

    it = bench(one_event, tls=certificates if encrypted else None)
    watch = it.client.watch(CLAIMS, "n", resource_version="0")
    begun = threading.Event()
    got: list[WatchEvent] = []

    def follow() -> None:
        for each in watch:
            got.append(each)
            begun.set()

    thread = threading.Thread(target=follow)
    thread.start()
    assert begun.wait(PATIENCE)
    watch.close()
    watch.close()
    thread.join(PATIENCE / 2)
    assert not thread.is_alive()
    assert len(got) == 1


def test_a_watch_closed_before_it_is_read_yields_nothing(bench: MakeBench) -> None:
    """A watch that nobody came to read leaves no connection behind."""

    def silent(exchange: Exchange) -> None:
        exchange.begin()
        exchange.stall()

    it = bench(silent)
    watch = it.client.watch(CLAIMS, "n", resource_version="0")
    watch.close()
    assert list(watch) == []
