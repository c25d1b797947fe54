"""The informer against a server that misbehaves; tests/contract has it against servers that do not."""

from __future__ import annotations

import itertools
import json
import queue
import threading
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import parse_qs, urlsplit

import pytest
from structlog.testing import capture_logs

from kube.backoff import Backoff
from kube.errors import TooManyRequests, Unreachable
from kube.informer import Informer, Pace
from kube.objects import name_of
from kube.resources import CLAIMS

from .bench import Bench
from .wire import PATIENCE, Exchange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kube.errors import ApiError
    from kube.objects import Object
    from kube.store import Change

QUICK = Pace(poll=0.01, backoff=Backoff(first=0.01, limit=0.02))


def claim(name: str, version: int, uid: str = "") -> Object:
    return {"metadata": {"name": name, "namespace": "n", "uid": uid or name, "resourceVersion": str(version)}}


def page(version: int, *objects: Object, proceed: str = "") -> bytes:
    return json.dumps(
        {"metadata": {"resourceVersion": str(version), "continue": proceed}, "items": objects}
    ).encode()


def line(kind: str, obj: Object) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def failure(code: int, message: str) -> bytes:
    return json.dumps({"kind": "Status", "code": code, "message": message}).encode()


def is_watch(exchange: Exchange) -> bool:
    return "watch=true" in exchange.heard.path


class Play:
    """Answers lists and watches from two scripts; the last entry of a script is played for ever."""

    def __init__(
        self, lists: list[Callable[[Exchange], None]], watches: list[Callable[[Exchange], None]]
    ) -> None:
        self._lists = lists
        self._watches = watches

    def __call__(self, exchange: Exchange) -> None:
        script = self._watches if is_watch(exchange) else self._lists
        (script.pop(0) if len(script) > 1 else script[0])(exchange)


def listed(body: bytes) -> Callable[[Exchange], None]:
    return lambda exchange: exchange.reply(200, body)


def streamed(*lines: bytes, end: bool = True) -> Callable[[Exchange], None]:
    """Return a watch that sends these lines and then ends, or is silent."""

    def send(exchange: Exchange) -> None:
        exchange.begin()
        for each in lines:
            exchange.chunk(each)
        if end:
            exchange.chunk(b"")
        else:
            exchange.stall()

    return send


SILENCE = streamed(end=False)


class Following:
    """An informer on a wire, and what it told its handler."""

    def __init__(self, play: Callable[[Exchange], None], pace: Pace) -> None:
        self._bench = Bench(play)
        self.wire, self.client = self._bench.wire, self._bench.client
        self.informer = Informer(
            self.client, CLAIMS, "n", pace=pace, indexers={"uid": lambda obj: [obj["metadata"]["uid"]]}
        )
        self.told: queue.SimpleQueue[Change] = queue.SimpleQueue()
        self.informer.on_change(self.told.put)

    def changes(self, count: int) -> list[tuple[str | None, str | None]]:
        """Wait for so many changes and return them as names with versions."""
        return [
            (short(change.old), short(change.new))
            for change in (self.told.get(timeout=PATIENCE) for _ in range(count))
        ]

    def queries(self, watch: bool) -> list[dict[str, str]]:
        """Return what the lists, or the watches, asked for."""
        asked = [parse_qs(urlsplit(heard.path).query) for heard in self.wire.heard]
        return [
            {key: values[0] for key, values in query.items()}
            for query in asked
            if ("watch" in query) is watch
        ]

    def close(self) -> None:
        self.informer.stop()
        self._bench.close()


def short(obj: Object | None) -> str | None:
    return None if obj is None else f"{name_of(obj)}@{obj['metadata']['resourceVersion']}"


Follow: TypeAlias = "Callable[[Callable[[Exchange], None]], Following]"


@pytest.fixture
def follow() -> Iterator[Follow]:
    """Return a maker of informers that run; they are cleared away after the test."""
    made: list[Following] = []

    def make(play: Callable[[Exchange], None]) -> Following:
        made.append(Following(play, QUICK))
        made[-1].informer.start()
        return made[-1]

    yield make
    for each in made:
        each.close()
    left = [thread.name for thread in threading.enumerate() if thread.name.startswith("informer")]
    assert left == []


def test_a_list_is_read_page_by_page(follow: Follow) -> None:
    """The pages are joined, and the informer is synced once all are read."""
    it = follow(
        Play([listed(page(5, claim("a", 1), proceed="more")), listed(page(5, claim("b", 2)))], [SILENCE])
    )
    assert it.informer.wait_synced(PATIENCE)
    assert it.changes(2) == [(None, "a@1"), (None, "b@2")]
    assert it.queries(watch=False) == [{"limit": "50"}, {"limit": "50", "continue": "more"}]


def test_a_list_that_grows_old_between_its_pages_is_read_at_once(follow: Follow) -> None:
    """A continue token that the server forgot leads to one whole list."""
    it = follow(
        Play(
            [
                listed(page(5, claim("a", 1), proceed="more")),
                lambda exchange: exchange.reply(410, failure(410, "the continue token is too old")),
                listed(page(9, claim("a", 1), claim("b", 2))),
            ],
            [SILENCE],
        )
    )
    assert it.changes(2) == [(None, "a@1"), (None, "b@2")]
    assert it.queries(watch=False)[-1] == {}


def test_a_broken_watch_is_resumed_where_it_broke(follow: Follow) -> None:
    """After a lost connection the watch goes on from the last version heard, bookmarks included."""
    it = follow(
        Play(
            [listed(page(5))],
            [
                streamed(line("ADDED", claim("a", 6)), line("BOOKMARK", claim("", 8))),
                Exchange.reset,
                streamed(line("MODIFIED", claim("a", 9)), end=False),
            ],
        )
    )
    assert it.changes(2) == [(None, "a@6"), ("a@6", "a@9")]
    assert [query["resourceVersion"] for query in it.queries(watch=True)] == ["5", "8", "8"]
    assert len(it.queries(watch=False)) == 1


def test_what_vanished_while_nobody_listened_is_told_as_gone(follow: Follow) -> None:
    """A 410 leads to a new list whose differences are told; an object made anew is one gone and one new."""
    expired = line("ERROR", {"kind": "Status", "code": 410, "message": "too old resource version"})
    it = follow(
        Play(
            [
                listed(
                    page(5, claim("gone", 1), claim("same", 2), claim("changed", 3), claim("anew", 4, "u1"))
                ),
                listed(
                    page(9, claim("same", 2), claim("changed", 7), claim("anew", 8, "u2"), claim("new", 9))
                ),
            ],
            [streamed(expired), SILENCE],
        )
    )
    it.changes(4)
    assert it.changes(5) == [
        ("gone@1", None),
        ("changed@3", "changed@7"),
        ("anew@4", None),
        (None, "anew@8"),
        (None, "new@9"),
    ]
    assert it.informer.store.by_index("uid", "u1") == ()
    assert [name_of(obj) for obj in it.informer.store.by_index("uid", "u2")] == ["anew"]


def test_a_server_that_never_reaches_our_version_is_listed_again(follow: Follow) -> None:
    """After a restore from a backup a watch may be silent for ever; a few silent ones end in a new list."""
    it = follow(Play([listed(page(500, claim("a", 400))), listed(page(7, claim("a", 6)))], [streamed()]))
    assert it.changes(2) == [(None, "a@400"), ("a@400", "a@6")]


def test_a_forbidden_watch_becomes_polling_and_is_said_once(follow: Follow) -> None:
    """A role without the verb watch makes the informer list from time to time; one log line says so."""

    def forbid(exchange: Exchange) -> None:
        exchange.reply(403, failure(403, "persistentvolumeclaims is forbidden: cannot watch"))

    with capture_logs() as lines:
        it = follow(
            Play(
                [listed(page(5)), listed(page(6)), listed(page(7, claim("a", 7)))],
                [forbid, forbid, forbid, SILENCE],
            )
        )
        assert it.changes(1) == [(None, "a@7")]
    assert [each["event"] for each in lines if each["log_level"] == "warning"] == ["watch forbidden, polling"]


def test_an_outage_is_said_once_and_its_end_too(follow: Follow) -> None:
    """However many tries fail in a row, the log has one line about it and one when the server is back."""
    with capture_logs() as lines:
        it = follow(
            Play(
                [*[lambda exchange: exchange.reply(503, b"down")] * 4, listed(page(5, claim("a", 1)))],
                [SILENCE],
            )
        )
        assert it.informer.wait_synced(PATIENCE)
    assert [each["event"] for each in lines] == ["list or watch failed", "heard again"]


def test_a_handler_that_raises_is_logged_and_harms_nobody(follow: Follow) -> None:
    """The other handlers are told, and the informer goes on."""

    def refuse(_change: Change) -> None:
        raise RuntimeError("a fault of the handler's")

    go = threading.Event()

    def wait_and_add(exchange: Exchange) -> None:
        go.wait(PATIENCE)
        streamed(line("ADDED", claim("a", 6)), line("ADDED", claim("b", 7)), end=False)(exchange)

    with capture_logs() as lines:
        it = follow(Play([listed(page(5))], [wait_and_add]))
        it.informer.on_change(refuse)
        go.set()
        assert it.changes(2) == [(None, "a@6"), (None, "b@7")]
        assert it.informer.store.get("b", "n") is not None
        it.informer.stop()
    assert [each["event"] for each in lines if each["log_level"] == "error"] == ["handler failed"] * 2


def test_stop_ends_an_open_watch_and_may_come_twice(follow: Follow) -> None:
    """Stop does not wait for the next event; nothing is asked of the server afterwards."""
    it = follow(Play([listed(page(5, claim("a", 1)))], [SILENCE]))
    it.changes(1)
    it.informer.stop()
    it.informer.stop()
    asked = len(it.wire.heard)
    it.informer.start()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("informer")]
    assert len(it.wire.heard) == asked


def test_waiting_for_an_informer_that_stops_ends(follow: Follow) -> None:
    """A waiter is woken by the stop, and told that the copy is not complete."""
    it = follow(Play([Exchange.stall], [SILENCE]))
    answers: queue.SimpleQueue[bool] = queue.SimpleQueue()
    waiter = threading.Thread(target=lambda: answers.put(it.informer.wait_synced(PATIENCE * 2)))
    waiter.start()
    it.informer.stop(timeout=0)
    assert answers.get(timeout=PATIENCE) is False
    waiter.join(PATIENCE)
    it.wire.close()
    it.informer.stop()


def test_a_list_that_the_stop_cut_short_is_not_believed(follow: Follow) -> None:
    """Objects of pages that were never read must not seem to be gone."""
    stopped = threading.Event()

    def second_page(exchange: Exchange) -> None:
        stopped.wait(PATIENCE)
        exchange.reply(200, page(5, claim("b", 2)))

    it = follow(Play([listed(page(5, claim("a", 1), proceed="more")), second_page], [SILENCE]))
    it.informer.stop(timeout=0)
    stopped.set()
    it.informer.stop()
    assert not it.informer.synced
    assert it.told.empty()


def test_a_connection_that_lived_long_is_followed_by_a_short_pause() -> None:
    """An idle kind's watch that the server ends each half hour is no row of failures."""
    bench = Bench(Play([listed(page(5)), listed(page(6, claim("a", 6)))], [streamed()]))
    minutes = itertools.count(step=60.0)
    informer = Informer(
        bench.client,
        CLAIMS,
        "n",
        pace=Pace(backoff=Backoff(first=0.01, factor=10_000.0)),
        clock=minutes.__next__,
    )
    told: queue.SimpleQueue[Change] = queue.SimpleQueue()
    informer.on_change(told.put)
    informer.start()
    assert short(told.get(timeout=PATIENCE).new) == "a@6"
    informer.stop()
    bench.close()


@pytest.mark.parametrize(
    ("failures", "error", "pause"),
    [
        (1, None, 1.0),
        (3, Unreachable("no answer"), 4.0),
        (1, TooManyRequests("slow down", retry_after=7.0), 7.0),
        (9, TooManyRequests("slow down", retry_after=7.0), 30.0),
        (1, TooManyRequests("come back tomorrow", retry_after=86_400.0), 60.0),
    ],
)
def test_the_pause_is_the_longer_of_ours_and_the_servers(
    failures: int, error: ApiError | None, pause: float
) -> None:
    """A Retry-After is heeded within reason, and never shortens our own back-off."""
    assert Pace(backoff=Backoff(first=1.0, jitter=0.0)).pause(failures, error) == pause


def test_the_last_word_of_the_server_is_dated(follow: Follow) -> None:
    """An informer that has heard nothing yet says so by minus infinity."""
    it = follow(Play([listed(page(5))], [SILENCE]))
    assert it.informer.wait_synced(PATIENCE)
    assert it.informer.heard_at > 0
    assert Informer(client=it.client, resource=CLAIMS).heard_at == float("-inf")
