"""Watches: what is told, in which order, and how they begin and end."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING

import pytest

from kube.client import EVERYTHING, MergePatch, Selector
from kube.errors import Expired
from kube.objects import annotations_of, dig, is_terminating, labels_of, name_of, version_of
from kube.resources import CLAIMS, CONFIG_MAPS, PODS

from .shapes import WIDGETS, claim, config_map, pod, widget

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube.client import WatchEvent
    from kube.objects import Object
    from kube.resources import Resource
    from kube.rest import RestWatch

    from .conftest import Api


def watch(api: Api, resource: Resource, selector: Selector = EVERYTHING) -> RestWatch:
    """Open a watch from now on."""
    version = api.client.list(resource, api.namespace, selector, limit=1).resource_version
    return api.client.watch(resource, api.namespace, selector, resource_version=version)


def told(events: Iterator[WatchEvent], count: int) -> list[tuple[str, Object]]:
    """Return the next events, without bookmarks and without what a real server adds by itself."""
    ours = (
        (event.type, event.object)
        for event in events
        if event.type != "BOOKMARK" and name_of(event.object) != "kube-root-ca.crt"
    )
    return list(islice(ours, count))


def raw(api: Api, query: str) -> list[Object]:
    """Return what a watch of config maps says in one second, over plain HTTPS."""
    path = f"{CONFIG_MAPS.path(api.namespace)}?watch=1&timeoutSeconds=1&{query}"
    answer = api.send("GET", path)
    assert answer.code == 200
    if isinstance(answer.body, dict):  # a single line
        return [answer.body]
    return [json.loads(line) for line in answer.body.splitlines()]


def label(api: Api, name: str, labels: Object) -> Object:
    """Change labels of a config map."""
    return api.client.patch(CONFIG_MAPS, name, MergePatch({"metadata": {"labels": labels}}), api.namespace)


def test_a_watch_tells_all_that_comes_after_its_version(api: Api) -> None:
    """Nothing is lost between a list and a watch from its version, and the order is that of the writes."""
    version = api.client.list(CONFIG_MAPS, api.namespace).resource_version
    made = api.client.create(CONFIG_MAPS, config_map("a"), api.namespace)
    changed = label(api, "a", {"x": "1"})
    with closing(
        api.client.watch(CONFIG_MAPS, api.namespace, EVERYTHING, resource_version=version)
    ) as open_watch:
        events = iter(open_watch)
        assert told(events, 2) == [("ADDED", made), ("MODIFIED", changed)]
        again = label(api, "a", {"x": "2"})
        assert told(events, 1) == [("MODIFIED", again)]
        api.client.delete(CONFIG_MAPS, "a", api.namespace)
        [(kind, last)] = told(events, 1)
    assert kind == "DELETED"
    assert int(version_of(last)) > int(version_of(again))
    assert {**last, "metadata": {**last["metadata"], "resourceVersion": version_of(again)}} == again


def test_a_watch_without_a_version_begins_with_what_is_there(api: Api) -> None:
    """Version "" or 0 tells the present objects as ADDED first."""
    made = api.client.create(CONFIG_MAPS, config_map("a"), api.namespace)
    for query in ("", "resourceVersion=0&"):
        [event] = raw(api, f"{query}fieldSelector=metadata.name%3Da")
        assert (event["type"], version_of(event["object"])) == ("ADDED", version_of(made))


def test_the_end_of_what_is_there_can_be_marked(api: Api) -> None:
    """With sendInitialEvents a bookmark follows the present objects, as newer clients ask for."""
    api.client.create(CONFIG_MAPS, config_map("a"), api.namespace)
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    added, mark, *_ = raw(api, f"{query}&fieldSelector=metadata.name%3Da")
    assert (added["type"], mark["type"]) == ("ADDED", "BOOKMARK")
    assert annotations_of(mark["object"]) == {"k8s.io/initial-events-end": "true"}
    assert int(version_of(mark["object"])) >= int(version_of(added["object"]))


def test_a_watch_ends_when_its_time_is_over(api: Api) -> None:
    """timeoutSeconds ends a watch in good order, whether or not anything happened."""
    version = api.client.list(CONFIG_MAPS, api.namespace).resource_version
    kinds = {event["type"] for event in raw(api, f"resourceVersion={version}")}
    assert kinds <= {"ADDED"}  # a real server may add its own


def test_a_selector_makes_objects_come_and_go(api: Api) -> None:
    """An object that begins to match is ADDED, one that ceases to is DELETED, in the state that matched."""
    api.client.create(CONFIG_MAPS, config_map("a"), api.namespace)
    with closing(watch(api, CONFIG_MAPS, Selector("x=1"))) as open_watch:
        events = iter(open_watch)
        label(api, "a", {"x": "0"})
        label(api, "a", {"x": "1"})
        label(api, "a", {"x": "1", "y": "2"})
        left = label(api, "a", {"x": "2"})
        label(api, "a", {"x": "1"})
        seen = told(events, 4)
    assert [kind for kind, _ in seen] == ["ADDED", "MODIFIED", "DELETED", "ADDED"]
    assert labels_of(seen[2][1]) == {"x": "1", "y": "2"}
    assert version_of(seen[2][1]) == version_of(left)


def test_one_name_can_be_watched(api: Api) -> None:
    """A watch of one name hears of that object only."""
    with closing(watch(api, CONFIG_MAPS, Selector(fields="metadata.name=b"))) as open_watch:
        for name in "abc":
            api.client.create(CONFIG_MAPS, config_map(name), api.namespace)
        label(api, "b", {"x": "1"})
        seen = told(iter(open_watch), 2)
    assert [(kind, name_of(obj)) for kind, obj in seen] == [("ADDED", "b"), ("MODIFIED", "b")]


def test_a_watch_of_one_namespace_hears_nothing_of_others(api: Api) -> None:
    """And a watch of all namespaces hears of both."""
    everywhere = Selector(f"run={api.namespace}")
    version = api.client.list(CONFIG_MAPS).resource_version
    with (
        closing(watch(api, CONFIG_MAPS)) as here,
        closing(api.client.watch(CONFIG_MAPS, None, everywhere, resource_version=version)) as all_over,
    ):
        for name, namespace in ((api.namespace, "default"), ("a", api.namespace)):
            api.client.create(CONFIG_MAPS, config_map(name, labels={"run": api.namespace}), namespace)
        assert [name_of(obj) for _, obj in told(iter(here), 1)] == ["a"]
        assert [name_of(obj) for _, obj in told(iter(all_over), 2)] == [api.namespace, "a"]
    api.client.delete(CONFIG_MAPS, api.namespace, "default")


def test_a_version_that_is_forgotten_has_expired(api: Api) -> None:
    """A watch from before the kept history opens, and its first event is an error: list again."""
    old = api.client.create(CONFIG_MAPS, config_map("old"), api.namespace)
    api.client.create(CONFIG_MAPS, config_map("missed"), api.namespace)
    new = api.client.create(CONFIG_MAPS, config_map("new"), api.namespace)
    api.forget_before(version_of(new))
    [error] = raw(api, f"resourceVersion={version_of(old)}")
    assert (error["type"], error["object"]["code"], error["object"]["reason"]) == ("ERROR", 410, "Expired")
    stale = api.client.watch(CONFIG_MAPS, api.namespace, EVERYTHING, resource_version=version_of(old))
    with closing(stale), pytest.raises(Expired):
        next(iter(stale))
    assert [e for e in raw(api, f"resourceVersion={version_of(new)}") if e["type"] == "ERROR"] == []


def test_the_last_finalizer_off_is_told_as_a_deletion(api: Api) -> None:
    """The mark is a change; the write that takes the last finalizer off is the end, not one more change."""
    api.client.create(CLAIMS, claim("a"), api.namespace)
    with closing(watch(api, CLAIMS)) as open_watch:
        api.client.delete(CLAIMS, "a", api.namespace)
        api.client.patch(CLAIMS, "a", MergePatch({"metadata": {"finalizers": None}}), api.namespace)
        (marked, with_mark), (gone, last) = told(iter(open_watch), 2)
    assert (marked, gone) == ("MODIFIED", "DELETED")
    assert is_terminating(with_mark)
    assert is_terminating(last)


def test_the_mark_of_a_pod_is_told_before_its_end(api: Api) -> None:
    """A pod that goes at once is first seen as being deleted."""
    api.client.create(PODS, pod("a"), api.namespace)
    with closing(watch(api, PODS)) as open_watch:
        api.client.delete(PODS, "a", api.namespace)
        (marked, with_mark), (gone, _) = told(iter(open_watch), 2)
    assert (marked, gone) == ("MODIFIED", "DELETED")
    assert dig(with_mark, "metadata", "deletionGracePeriodSeconds") == 0


@pytest.mark.usefixtures("widgets")
def test_each_version_of_a_kind_is_told_in_that_version(api: Api) -> None:
    """Versions of one kind show the same objects, each with its own apiVersion."""
    path = WIDGETS.path(api.namespace).replace("/v1/", "/v1beta1/")
    api.client.create(WIDGETS, widget("a"), api.namespace)
    event = api.send("GET", f"{path}?watch=1&timeoutSeconds=1").body
    assert (event["type"], event["object"]["apiVersion"]) == ("ADDED", "example.test/v1beta1")
    assert api.send("GET", f"{path}/a").body["apiVersion"] == "example.test/v1beta1"


def test_a_closed_watch_ends_its_reader(api: Api) -> None:
    """Closing from another thread ends the iteration, without an error."""
    open_watch = watch(api, CONFIG_MAPS)
    ended = threading.Event()

    def read() -> None:
        for _ in open_watch:
            pass
        ended.set()

    reader = threading.Thread(target=read)
    reader.start()
    open_watch.close()
    assert ended.wait(10)
    reader.join()
