"""A reconciler as our controllers are built, on both servers: an informer finds the work, a queue does it."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

from kube.backoff import Backoff
from kube.client import EVERYTHING, JsonPatch, MergePatch
from kube.errors import Conflict, NotFound
from kube.informer import Informer, Pace
from kube.objects import dig, name_of, text
from kube.resources import CONFIG_MAPS
from kube.workqueue import WorkQueue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube.store import Change

    from .conftest import Api

PATIENCE = 20.0
QUICK = Backoff(first=0.01, limit=0.5)
OBJECTS = 8
WRITES = 5


class Copier:
    """Copies `data.x` of each config map to `data.copied`, several workers at once."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._queue: WorkQueue[str] = WorkQueue(QUICK)
        self._lock = threading.Lock()
        self._working: Counter[str] = Counter()
        self.overlaps = 0
        self.reached = threading.Condition()
        self.informer = Informer(api.client, CONFIG_MAPS, api.namespace, EVERYTHING, pace=Pace(backoff=QUICK))
        self.informer.on_change(self._enqueue)

    def __enter__(self) -> Copier:
        self._queue.run_workers(4, self._copy)
        self.informer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.informer.stop()
        assert self._queue.shutdown()

    def until_all_are_copied(self) -> bool:
        """Wait until every object's copy is what was written last."""
        with self.reached:
            return self.reached.wait_for(self._all_are_copied, PATIENCE)

    def _all_are_copied(self) -> bool:
        ours = [obj for obj in self.informer.store.list() if name_of(obj).startswith("object-")]
        last = str(WRITES - 1)
        return len(ours) == OBJECTS and all(
            (text(obj, "data", "x"), text(obj, "data", "copied")) == (last, last) for obj in ours
        )

    def _enqueue(self, change: Change) -> None:
        self._queue.add(name_of(change.new or change.old or {}))
        with self.reached:
            self.reached.notify_all()

    def _copy(self, name: str) -> None:
        with self._lock:
            self.overlaps += self._working[name]
            self._working[name] += 1
        try:
            self._look(name)
        except (Conflict, NotFound):
            self._queue.retry(name)
        finally:
            with self._lock:
                self._working[name] -= 1

    def _look(self, name: str) -> None:
        obj = self._api.client.get(CONFIG_MAPS, name, self._api.namespace)
        if dig(obj, "data", "x") is None or text(obj, "data", "x") == text(obj, "data", "copied"):
            return
        copied = JsonPatch(
            [
                {"op": "test", "path": "/data/x", "value": obj["data"]["x"]},
                {"op": "add", "path": "/data/copied", "value": obj["data"]["x"]},
            ]
        )
        self._api.client.patch(CONFIG_MAPS, name, copied, self._api.namespace)


def names() -> Iterator[str]:
    """Yield the names of the test's objects."""
    return (f"object-{number}" for number in range(OBJECTS))


def test_every_object_reaches_its_last_state(api: Api) -> None:
    """However writes and work interleave, the last write is worked on, and no object by two at once."""
    with Copier(api) as copier:
        for name in names():
            api.client.create(CONFIG_MAPS, {"metadata": {"name": name}, "data": {"x": "0"}}, api.namespace)
        for number in range(1, WRITES):
            for name in names():
                written = MergePatch({"data": {"x": str(number)}})
                api.client.patch(CONFIG_MAPS, name, written, api.namespace)
        assert copier.until_all_are_copied()
    assert copier.overlaps == 0
