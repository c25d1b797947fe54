"""A copy of one kind's objects, kept up to date by a list and a watch.

The traps: a watch can be silent because nothing happens or because the connection is dead, so that it is read
with a limit; the server forgets old versions (410), and after a restore from a backup it may never reach ours
again, so that both end in a new list; a whole list of 1,000 machines costs 60 MB for ever, so that it is read
and reduced page by page. What the copy lacks may exist nevertheless: it proves presence, never absence.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

import structlog

from kube.backoff import Backoff
from kube.client import EVERYTHING, Selector
from kube.errors import ApiError, Expired, Forbidden, TooManyRequests, Unreachable
from kube.objects import version_of
from kube.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kube.client import Client, Watch, WatchEvent
    from kube.objects import Object
    from kube.resources import Resource
    from kube.store import Change, Indexer

Handler: TypeAlias = "Callable[[Change], None]"
"""Called on the informer's thread, after the store knows; it must not wait."""

_PATIENCE: Final = 3
"""Connections in a row that may bring no event before the informer lists again."""
_LONGEST_WISH: Final = 60.0
"""Seconds that a server may ask us to wait: a proxy's `Retry-After` of a day must not blind us so long."""
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Pace:
    """How an informer asks. Times in seconds."""

    page: int = 50
    """Objects that are read at once."""
    read_limit: float = 90.0
    """Silence on a watch that counts as a dead connection: bookmarks come each minute.

    Not of a kind that had no object since the server started: its watch is opened anew, which harms nobody.
    """
    poll: float = 15.0
    """Between two lists where the role forbids to watch."""
    backoff: Backoff = field(default_factory=Backoff)
    """After a connection failed, or ended soon."""

    def pause(self, failures: int, error: ApiError | None) -> float:
        """Return the seconds to wait after so many tries in a row; a longer wish of the server is heeded."""
        asked = error.retry_after if isinstance(error, TooManyRequests) else 0.0
        return max(min(asked, _LONGEST_WISH), self.backoff.delay(failures))


class Informer:
    """Follows one kind from `start` to `stop`; it is not started twice."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        namespace: str | None = None,
        selector: Selector = EVERYTHING,
        *,
        transform: Callable[[Object], Object] = lambda obj: obj,
        indexers: Mapping[str, Indexer] | None = None,
        pace: Pace = Pace(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Follow the kind in `namespace`, or in all where it is None.

        `transform` reduces each object before it is kept; metadata must stay (kube.store tells objects apart
        by name, namespace, uid and resourceVersion). `indexers` see reduced objects.
        """
        self.store = Store(indexers)
        self._client = client
        self._resource = resource
        self._namespace = namespace
        self._selector = selector
        self._transform = transform
        self._pace = pace
        self._clock = clock
        self._handlers: list[Handler] = []
        self._thread = threading.Thread(target=self._endless, name=f"informer-{resource.plural}", daemon=True)
        self._state = threading.Condition()
        self._synced = False
        self._started = False
        self._watch: Watch | None = None
        self._stopping = threading.Event()
        self._heard_at = -math.inf
        self._version = ""
        self._failures = 0
        self._lost = False
        self._polling = False
        self._log = _log.bind(resource=resource.qualified, namespace=namespace)

    def on_change(self, handler: Handler) -> None:
        """Call `handler` with each change from now on. One that raises is logged; the others are called."""
        self._handlers.append(handler)

    def start(self) -> None:
        """Begin to follow; nothing more where it has begun."""
        with self._state:
            if not self._started:
                self._started = True
                self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """End the watch and wait up to `timeout` seconds for the thread; nothing more where it has ended.

        A list that hangs just then outlives the wait and ends with its own time limit, unheard.
        """
        self._stopping.set()
        with self._state:
            watch, started = self._watch, self._started
            self._state.notify_all()
        if watch is not None:
            watch.close()
        if started and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    @property
    def synced(self) -> bool:
        """Whether the store has once held all objects, and handlers have been told of them."""
        return self._synced

    @property
    def heard_at(self) -> float:
        """When the server was last heard, on this informer's clock; minus infinity before that."""
        return self._heard_at

    def wait_synced(self, timeout: float) -> bool:
        """Wait until synced, at most `timeout` seconds; False also when the informer stops meanwhile."""
        with self._state:
            self._state.wait_for(lambda: self._synced or self._stopping.is_set(), timeout)
            return self._synced

    def _endless(self) -> None:
        """List and follow, again and again, whatever goes wrong, until the stop."""
        while not self._stopping.is_set():
            try:
                self._relist()
                self._continuous()
            except ApiError as error:
                self._rest(error)
            except Exception:  # noqa: BLE001 - the thread's edge: an indexer or the transform is at fault
                self._log.exception("informer failed")
                self._rest()

    def _continuous(self) -> None:
        """Watch over one connection after another, as long as the server knows our version."""
        quiet = 0
        while not self._stopping.is_set() and quiet < _PATIENCE:
            try:
                quiet = 0 if self._connection() else quiet + 1
                self._rest()
            except (Unreachable, TooManyRequests) as error:
                quiet += 1
                self._rest(error)
            except Forbidden as error:
                self._poll_instead(error)
                return

    def _connection(self) -> bool:
        """Take in the events of one connection until it ends; tell whether there were any."""
        watch = self._client.watch(
            self._resource,
            self._namespace,
            self._selector,
            resource_version=self._version,
            read_limit=self._pace.read_limit,
        )
        self._adopt(watch)
        opened, heard = self._clock(), False
        try:
            self._polling = False
            self._heard()
            for event in watch:
                self._take(event)
                heard = True
        except Unreachable as error:
            self._log.debug("watch broke off", error=error.message)
        finally:
            self._adopt(None)
            watch.close()
            if self._clock() - opened > self._pace.backoff.limit:
                self._failures = 0  # what lived long is no reason to wait long for the next
        return heard

    def _adopt(self, watch: Watch | None) -> None:
        """Let `stop` know the open watch; one that was opened while the stop came is closed."""
        with self._state:
            self._watch = watch
        if watch is not None and self._stopping.is_set():
            watch.close()

    def _take(self, event: WatchEvent) -> None:
        self._heard()
        self._failures = 0
        if event.type == "DELETED":
            self._announce(self.store.discard(event.object))
        elif event.type != "BOOKMARK":
            self._announce(self.store.put(self._transform(event.object)))
        self._version = version_of(event.object) or self._version

    def _relist(self) -> None:
        """Read all objects; what vanished meanwhile is told as gone."""
        try:
            objects = self._read_all(self._pace.page)
        except Expired:  # the list grew old while its pages were read
            objects = self._read_all(None)
        if self._stopping.is_set():
            return
        self._announce(self.store.replace(objects))
        with self._state:
            self._synced = True
            self._state.notify_all()

    def _read_all(self, limit: int | None) -> list[Object]:
        """Read page after page, each reduced before the next comes."""
        objects: list[Object] = []
        proceed = ""
        while not self._stopping.is_set():
            page = self._client.list(
                self._resource, self._namespace, self._selector, limit=limit, proceed=proceed
            )
            self._heard()
            objects += map(self._transform, page.items)
            self._version, proceed = page.resource_version, page.proceed
            if not proceed:
                break
        return objects

    def _announce(self, changes: Sequence[Change]) -> None:
        for change in changes:
            for handler in tuple(self._handlers):
                try:
                    handler(change)
                except Exception:  # noqa: BLE001 - a handler must not end the thread that serves all
                    self._log.exception("handler failed")

    def _heard(self) -> None:
        self._heard_at = self._clock()
        if self._lost:
            self._lost = False
            self._log.info("heard again")

    def _rest(self, error: ApiError | None = None) -> None:
        """Wait before the next try. A failure is said once, until the server is heard again."""
        self._failures += 1
        if error is not None and not isinstance(error, Expired) and not self._lost:
            self._lost = True
            self._log.warning("list or watch failed", error=error.message)
        self._stopping.wait(self._pace.pause(self._failures, error))

    def _poll_instead(self, error: Forbidden) -> None:
        """Wait for the time of the next list. That the role forbids to watch is said once."""
        if not self._polling:
            self._polling = True
            self._log.warning("watch forbidden, polling", every=self._pace.poll, error=error.message)
        self._stopping.wait(self._pace.poll)
