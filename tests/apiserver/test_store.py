"""The store: what it was at any version that is kept, and what its followers are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.apiserver import store as module
from sim.apiserver.store import ChangedError, Event, Feed, ForgottenError, Key, Store, TakenError

if TYPE_CHECKING:
    from kube.objects import Object
    from sim.apiserver.store import Stored

PLACE = "things"
KEYS = [Key("n", name) for name in "abc"]


def thing(number: int) -> Object:
    return {"metadata": {"name": "x"}, "number": number}


def write(store: Store, key: Key, number: int, *, remove: bool) -> None:
    """Create, replace or remove an object, as it fits to what is there."""
    old = store.get(PLACE, key)
    if old is None:
        store.create(PLACE, key, thing(number))
    elif remove:
        store.remove(PLACE, key, old)
    else:
        store.replace(PLACE, key, old, thing(number))


def numbers(rows: list[tuple[Key, Stored]]) -> dict[Key, tuple[int, int]]:
    return {key: (stored.object["number"], stored.version) for key, stored in rows}


@given(st.lists(st.tuples(st.sampled_from(KEYS), st.booleans()), max_size=30))
def test_every_version_can_be_read_again(writes: list[tuple[Key, bool]]) -> None:
    """A list as of a version is what a list was at that version; a replay of all events ends where we are."""
    store = Store()
    feed: Feed[Event] = Feed(lambda event: event)
    store.follow(PLACE, feed, store.version)
    then = {store.version: numbers(store.scan(PLACE)[0])}
    for number, (key, remove) in enumerate(writes):
        write(store, key, number, remove=remove)
        then[store.version] = numbers(store.scan(PLACE)[0])
    for version, rows in then.items():
        assert numbers(store.scan(PLACE, version)[0]) == rows
    replayed: dict[Key, tuple[int, int]] = {}
    for event in feed.take(0) if writes else []:
        replayed.pop(event.key, None)
        if event.new is not None:
            replayed[event.key] = (event.new.object["number"], event.version)
    assert replayed == then[store.version]


def test_a_write_is_made_on_what_the_writer_saw() -> None:
    """A state that is not the present one, or a name that is taken, is not written over."""
    store = Store()
    first = store.create(PLACE, KEYS[0], thing(1))
    with pytest.raises(TakenError):
        store.create(PLACE, KEYS[0], thing(2))
    second = store.replace(PLACE, KEYS[0], first, thing(2))
    with pytest.raises(ChangedError):
        store.replace(PLACE, KEYS[0], first, thing(3))
    with pytest.raises(ChangedError):
        store.remove(PLACE, KEYS[0], first)
    store.remove(PLACE, KEYS[0], second)
    with pytest.raises(ChangedError):
        store.remove(PLACE, KEYS[0], second)


def test_the_history_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest events of a kind are forgotten when there are too many; those of others are not."""
    monkeypatch.setattr(module, "HISTORY", 3)
    store = Store()
    other = store.create("others", KEYS[0], thing(0)).version
    for number in range(5):
        write(store, KEYS[0], number, remove=False)
    newest = store.version
    with pytest.raises(ForgottenError):
        store.scan(PLACE, newest - 4)
    assert numbers(store.scan(PLACE, newest - 3)[0]) == {KEYS[0]: (1, newest - 3)}
    with pytest.raises(ForgottenError):
        store.follow(PLACE, Feed(lambda event: event), newest - 4)
    feed: Feed[Event] = Feed(lambda event: event)
    store.follow(PLACE, feed, newest - 3)
    assert [event.version for event in feed.take(0)] == [newest - 2, newest - 1, newest]
    assert store.scan("others", other)[1] == other
    store.forget_before(newest)
    with pytest.raises(ForgottenError):
        store.scan("others", other)
