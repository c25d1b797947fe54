"""Faults: each meets the calls that it is meant for, as often as it is meant to, and no others."""

from __future__ import annotations

import contextlib
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from kube.client import EVERYTHING, MergePatch
from kube.errors import NotFound, TooManyRequests, Unreachable
from kube.objects import dig, name_of, version_of
from kube.resources import CONFIG_MAPS, SECRETS
from sim.apiserver.faults import Delay, Fail, LoseAnswer, Refuse, Stale, calls
from sim.apiserver.wire import HangUp
from tests.contract.shapes import config_map

if TYPE_CHECKING:
    from kube.rest import RestClient
    from sim.apiserver.calls import Call
    from sim.apiserver.faults import Effect, Moment
    from sim.apiserver.server import ApiServer

    from .conftest import Connect

HOME = "default"
BUSY = Fail(429, "TooManyRequests", "too many requests, please try again later")


def make(client: RestClient, name: str) -> None:
    client.create(CONFIG_MAPS, config_map(name), HOME)


def exists(client: RestClient, name: str) -> bool:
    try:
        return bool(client.get(CONFIG_MAPS, name, HOME))
    except NotFound:
        return False


@pytest.mark.parametrize(
    ("effect", "error", "applied"),
    [
        pytest.param(BUSY, TooManyRequests, False, id="fail"),
        pytest.param(Refuse(), Unreachable, False, id="refuse"),
        pytest.param(LoseAnswer(), Unreachable, True, id="lose-the-answer"),
    ],
)
def test_a_write_fails_before_or_after_it_is_applied(
    server: ApiServer, client: RestClient, effect: Effect, error: type[Exception], applied: bool
) -> None:
    """A refused write has not happened, a lost answer hides one that has; the next call is served."""
    rule = server.faults.add(calls("create", CONFIG_MAPS), effect)
    with pytest.raises(error):
        make(client, "a")
    assert rule.hits == 1
    assert exists(client, "a") is applied
    make(client, "b")


def test_a_refusal_is_lost_like_any_answer(server: ApiServer, client: RestClient) -> None:
    """A client that lost an answer cannot know whether it was an error."""
    make(client, "a")
    server.faults.add(calls("create"), LoseAnswer())
    with pytest.raises(Unreachable):
        make(client, "a")


def test_a_delayed_call_is_overtaken(server: ApiServer, client: RestClient, connect_to: Connect) -> None:
    """A delay holds one call up, and nobody else; at the server's end it is let go."""
    server.faults.add(calls("create", CONFIG_MAPS), Delay(3600.0))
    other = connect_to(server, server.admin_token)
    arrived = threading.Event()
    server.faults.at_crash_points(lambda *_: arrived.set())

    def slow() -> None:
        with contextlib.suppress(Unreachable):
            make(client, "a")

    thread = threading.Thread(target=slow)
    thread.start()
    assert arrived.wait(10)
    make(other, "b")
    assert not exists(other, "a")
    server.stop()
    thread.join(10)
    assert not thread.is_alive()


def test_a_rule_counts_its_calls(server: ApiServer, client: RestClient) -> None:
    """`times` calls are hit, None means all, and remove and clear end a rule."""
    twice = server.faults.add(calls("get"), BUSY, times=2)
    for _ in range(2):
        with pytest.raises(TooManyRequests):
            client.get(CONFIG_MAPS, "a", HOME)
    with pytest.raises(NotFound):
        client.get(CONFIG_MAPS, "a", HOME)
    assert twice.hits == 2
    always = server.faults.add(calls("get"), BUSY, times=None)
    for _ in range(3):
        with pytest.raises(TooManyRequests):
            client.get(CONFIG_MAPS, "a", HOME)
    server.faults.remove(always)
    with pytest.raises(NotFound):
        client.get(CONFIG_MAPS, "a", HOME)
    server.faults.add(calls("get"), BUSY, times=None)
    server.faults.clear()
    with pytest.raises(NotFound):
        client.get(CONFIG_MAPS, "a", HOME)


def test_a_rule_meets_only_what_it_names(server: ApiServer, client: RestClient, connect_to: Connect) -> None:
    """Verb, kind, name, namespace, subresource and user narrow a rule."""
    server.add_user("other", "other-token", ("system:masters",))
    other = connect_to(server, "other-token")
    rule = server.faults.add(
        calls("get", CONFIG_MAPS, name="a", namespace=HOME, subresource="", user="other"), BUSY, times=None
    )
    make(client, "a")
    make(client, "b")
    client.get(CONFIG_MAPS, "a", HOME)
    other.get(CONFIG_MAPS, "b", HOME)
    other.list(CONFIG_MAPS, HOME)
    with pytest.raises(NotFound):
        other.get(CONFIG_MAPS, "a", "kube-system")
    with pytest.raises(NotFound):
        other.get(SECRETS, "a", HOME)
    assert rule.hits == 0
    with pytest.raises(TooManyRequests):
        other.get(CONFIG_MAPS, "a", HOME)


def test_a_stale_answer_is_of_an_older_version(server: ApiServer, client: RestClient) -> None:
    """A get and a list can be answered as the server was, whole and with the old version."""
    make(client, "a")
    then = server.version
    make(client, "b")
    client.patch(CONFIG_MAPS, "a", MergePatch({"data": {"x": "1"}}), HOME)
    server.faults.add(calls(resource=CONFIG_MAPS), Stale(then), times=3)
    page = client.list(CONFIG_MAPS, HOME)
    assert ([name_of(each) for each in page.items], page.resource_version) == (["a"], then)
    assert dig(client.get(CONFIG_MAPS, "a", HOME), "data") is None
    with pytest.raises(NotFound):
        client.get(CONFIG_MAPS, "b", HOME)
    assert dig(client.get(CONFIG_MAPS, "a", HOME), "data") == {"x": "1"}


def test_a_frozen_watch_holds_everything_back(server: ApiServer, client: RestClient) -> None:
    """Nothing that is written after the freeze arrives before the thaw; then all of it, in order."""
    with closing(client.watch(CONFIG_MAPS, HOME, EVERYTHING, resource_version=server.version)) as open_watch:
        events = iter(open_watch)
        make(client, "a")
        assert name_of(next(events).object) == "a"
        server.faults.freeze_watches(calls(resource=CONFIG_MAPS))
        seen: list[str] = []
        reader = threading.Thread(target=lambda: seen.extend(name_of(next(events).object) for _ in range(2)))
        reader.start()
        make(client, "b")
        with closing(client.watch(SECRETS, HOME, EVERYTHING, resource_version=server.version)) as others:
            client.create(SECRETS, {"metadata": {"name": "s"}}, HOME)
            assert name_of(next(iter(others)).object) == "s"
        make(client, "c")
        assert seen == []
        server.faults.thaw()
        reader.join(10)
        assert seen == ["b", "c"]


def test_a_watch_that_is_opened_under_a_freeze_is_frozen(server: ApiServer, client: RestClient) -> None:
    """A client that opens its watch anew does not get around a freeze; ending the watches ends it."""
    version = server.version
    make(client, "a")
    server.faults.freeze_watches(calls("watch", CONFIG_MAPS))
    open_watch = client.watch(CONFIG_MAPS, HOME, EVERYTHING, resource_version=version)
    assert [call.resource for call in server.faults.open_watches] == [CONFIG_MAPS]
    assert server.faults.end_watches() == 1
    assert list(open_watch) == []


def test_crash_points_stand_on_both_sides_of_a_write(server: ApiServer, client: RestClient) -> None:
    """A callback sees each call before and after it is applied, and can cut the connection there."""
    reached: list[tuple[Moment, str, str]] = []

    def crash(moment: Moment, call: Call) -> None:
        reached.append((moment, call.verb, call.name))
        if reached[-1][:2] == ("after", "create"):
            raise HangUp

    server.faults.at_crash_points(crash)
    with pytest.raises(Unreachable):
        make(client, "a")
    assert exists(client, "a")
    assert reached == [
        ("before", "create", ""),
        ("after", "create", ""),
        ("before", "get", "a"),
        ("after", "get", "a"),
    ]


def test_the_log_names_every_call(server: ApiServer, client: RestClient) -> None:
    """Verb, kind, name, user and code are there for tests and benchmarks; a watch once it is open."""
    server.requests.clear()
    make(client, "a")
    made = client.get(CONFIG_MAPS, "a", HOME)
    with pytest.raises(NotFound):
        client.get(CONFIG_MAPS, "b", HOME)
    client.watch(CONFIG_MAPS, HOME, EVERYTHING, resource_version=version_of(made)).close()
    server.faults.add(calls(), Refuse())
    with pytest.raises(Unreachable):
        client.list(CONFIG_MAPS)
    logged = [(r.call.verb, r.call.name, r.code) for r in server.requests.all()]
    assert logged == [
        ("create", "", 201),
        ("get", "a", 200),
        ("get", "b", 404),
        ("watch", "", 200),
        ("list", "", 0),
    ]
    assert server.requests.count("get", CONFIG_MAPS, "admin") == 2
    assert server.requests.count(resource=SECRETS) == 0
