"""See everything that becomes of some objects, in the order in which it does."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from kube.informer import Informer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kube.client import Client
    from kube.objects import Object
    from kube.resources import Resource
    from kube.store import Change

Seen = TypeVar("Seen")


@contextmanager
def history(
    api: Client, resource: Resource, namespace: str | None, view: Callable[[Object], Seen]
) -> Iterator[list[Seen]]:
    """Yield a list that grows by what `view` makes of each state of each object, repeats left out.

    An object that is gone is not told.
    """
    seen: list[Seen] = []

    def take(change: Change) -> None:
        if change.new is not None and (not seen or seen[-1] != view(change.new)):
            seen.append(view(change.new))

    informer = Informer(api, resource, namespace)
    informer.on_change(take)
    informer.start()
    assert informer.wait_synced(10)
    try:
        yield seen
    finally:
        informer.stop()


def in_order(seen: Sequence[object], *expected: object) -> bool:
    """Tell whether the expected were seen, in this order, with anything in between."""
    rest = iter(seen)
    return all(any(each == one for one in rest) for each in expected)
