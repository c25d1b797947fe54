"""The informer on the in-memory server and on a real kube-apiserver alike."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING

import pytest

from kube import json_patch
from kube.backoff import Backoff
from kube.client import EVERYTHING, JsonPatch, Selector
from kube.informer import Informer, Pace
from kube.objects import name_of, namespace_of, text
from kube.reduce import keep
from kube.resources import CONFIG_MAPS, NAMESPACES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube.objects import Object
    from kube.store import Change

    from .conftest import Api

PATIENCE = 20.0
QUICK = Pace(backoff=Backoff(first=0.01, limit=0.5))
COLOUR = "colour"


class Following:
    """A running informer on the config maps of the test's namespace, and what it told."""

    def __init__(self, api: Api, selector: Selector = EVERYTHING) -> None:
        self.informer = Informer(
            api.client,
            CONFIG_MAPS,
            api.namespace,
            selector,
            transform=keep("data.x"),
            indexers={COLOUR: lambda obj: [text(obj, "metadata", "labels", COLOUR)]},
            pace=QUICK,
        )
        self._told: queue.SimpleQueue[Change] = queue.SimpleQueue()
        self.informer.on_change(self._told.put)
        self.informer.start()
        assert self.informer.wait_synced(PATIENCE)

    def change_of(self, name: str) -> Change:
        """Wait for the next change of one object; a namespace has objects that are not the test's."""
        while True:
            change = self._told.get(timeout=PATIENCE)
            if name_of(change.new or change.old or {}) == name:
                return change

    def names(self) -> list[str]:
        return sorted(name_of(obj) for obj in self.informer.store.by_index(COLOUR, "red"))


@pytest.fixture
def following(api: Api) -> Iterator[Following]:
    """Follow the config maps of the test's namespace."""
    it = Following(api)
    yield it
    it.informer.stop()


def config_map(name: str, x: str = "1", colour: str = "red") -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {COLOUR: colour}},
        "data": {"x": x, "y": "not kept"},
    }


def set_to(path: str, value: str) -> JsonPatch:
    return JsonPatch([json_patch.replace(path, value)])


def test_an_object_is_followed_from_its_creation_to_its_end(api: Api, following: Following) -> None:
    """Handlers hear what was and what is; the store keeps up, reduced to the named fields."""
    api.client.create(CONFIG_MAPS, config_map("a"), api.namespace)
    added = following.change_of("a")
    assert added.old is None
    assert added.new is not None
    assert added.new["data"] == {"x": "1"}

    api.client.patch(CONFIG_MAPS, "a", set_to("/data/x", "2"), api.namespace)
    changed = following.change_of("a")
    assert [text(obj, "data", "x") for obj in (changed.old, changed.new)] == ["1", "2"]
    assert following.informer.store.get("a", api.namespace) == changed.new

    api.client.delete(CONFIG_MAPS, "a", api.namespace)
    gone = following.change_of("a")
    assert gone.old == changed.new
    assert gone.new is None
    assert following.informer.store.get("a", api.namespace) is None


def test_what_was_there_before_is_told_too(api: Api) -> None:
    """A list longer than a page is whole, and each object is told as added, once."""
    names = [f"m-{number:03}" for number in range(QUICK.page + 7)]
    for name in names:
        api.client.create(CONFIG_MAPS, config_map(name), api.namespace)
    it = Following(api)
    try:
        assert it.names() == names
        assert [it.change_of(name).old for name in names] == [None] * len(names)
    finally:
        it.informer.stop()


def test_an_object_that_leaves_the_selection_is_gone(api: Api) -> None:
    """For a selector, a label taken off is as good as a deletion, and the other way round."""
    api.client.create(CONFIG_MAPS, config_map("a"), api.namespace)
    it = Following(api, Selector(labels=f"{COLOUR}=red"))
    try:
        assert it.change_of("a").old is None
        api.client.patch(CONFIG_MAPS, "a", set_to(f"/metadata/labels/{COLOUR}", "blue"), api.namespace)
        assert it.change_of("a").new is None
        api.client.patch(CONFIG_MAPS, "a", set_to(f"/metadata/labels/{COLOUR}", "red"), api.namespace)
        assert it.change_of("a").old is None
    finally:
        it.informer.stop()


def test_the_index_follows_the_object(api: Api, following: Following) -> None:
    """An object is found under its present value only."""
    api.client.create(CONFIG_MAPS, config_map("a"), api.namespace)
    following.change_of("a")
    assert following.names() == ["a"]
    api.client.patch(CONFIG_MAPS, "a", set_to(f"/metadata/labels/{COLOUR}", "blue"), api.namespace)
    following.change_of("a")
    assert following.names() == []
    assert [name_of(obj) for obj in following.informer.store.by_index(COLOUR, "blue")] == ["a"]


def test_an_object_made_anew_is_another_one(api: Api, following: Following) -> None:
    """A name that is deleted and created again is told as gone and as added, with another UID."""
    first = api.client.create(CONFIG_MAPS, config_map("a"), api.namespace)
    api.client.delete(CONFIG_MAPS, "a", api.namespace)
    second = api.client.create(CONFIG_MAPS, config_map("a"), api.namespace)
    seen = [following.change_of("a") for _ in range(3)]
    assert [
        (text(change.old, "metadata", "uid"), text(change.new, "metadata", "uid")) for change in seen
    ] == [
        ("", first["metadata"]["uid"]),
        (first["metadata"]["uid"], ""),
        ("", second["metadata"]["uid"]),
    ]


def test_another_namespace_is_not_followed(api: Api, following: Following) -> None:
    """An informer on one namespace knows nothing of the others."""
    other = f"{api.namespace}-other"
    api.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}})
    api.client.create(CONFIG_MAPS, config_map("there"), other)
    api.client.create(CONFIG_MAPS, config_map("here"), api.namespace)
    following.change_of("here")
    assert {namespace_of(obj) for obj in following.informer.store.list()} == {api.namespace}


def test_stop_ends_the_watch_and_the_thread(api: Api, following: Following) -> None:
    """Stop does not wait for the next event, and what happens afterwards is not heard."""
    thread = next(each for each in threading.enumerate() if each.name == "informer-configmaps")
    following.informer.stop()
    assert not thread.is_alive()
    api.client.create(CONFIG_MAPS, config_map("late"), api.namespace)
    assert following.informer.store.get("late", api.namespace) is None
