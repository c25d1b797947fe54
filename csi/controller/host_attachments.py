"""The last layer: whether the host still, or already, has a volume attached to one of its nodes.

The trap: an attachment can outlive every machine that asked for it (a host node that died keeps its own for
minutes), on a node that nothing of ours names any more. So "none is left" is read from the list; one that is
expected on a known node is asked for by its name.
"""

from __future__ import annotations

import threading
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final

from csi.controller.failures import host_call
from csi.controller.sharing import SharedReading
from csi.controller.steps import Done, Wait
from csi.errors import TimedOut
from harvester.host_attachments import attachment_name, parse_host_attachment
from harvester.kinds import LONGHORN
from kube.client import Selector
from kube.errors import ApiError, Expired, Forbidden
from kube.permissions import Permission
from kube.resources import VOLUME_ATTACHMENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from csi.controller.changes import Patience
    from csi.controller.claims import HostClaim
    from csi.deadline import Deadline
    from harvester.host_attachments import HostAttachment
    from kube.client import Client, Watch
    from kube.objects import Object

PERMISSIONS: Final = (
    Permission(
        VOLUME_ATTACHMENTS,
        ("list", "watch"),
        optional="that a volume is attached to, or free of, a host node is told from attachment pods alone",
    ),
)

_PROVISIONER: Final = (
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
)
_PAGE: Final = 250
_PAUSE: Final = 1.0
"""Seconds between two looks where no watch tells of a change."""

Found = tuple["HostAttachment", ...] | None
"""None where the role may not read them."""


def is_longhorn(claim: HostClaim) -> bool:
    """Tell whether the claim's volume is Longhorn's:

    Its handle is the PV's name, and it is always attached.
    """
    return any(claim.annotations.get(key) == LONGHORN for key in _PROVISIONER)


class HostAttachments:
    """Reads VolumeAttachments of the host, live. Raises only CsiError."""

    def __init__(
        self, client: Client, patience: Patience, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._patience = patience
        self._clock = clock
        self._all = SharedReading(self._list)

    def of(self, claim: HostClaim) -> Found:
        """Return all attachments of the claim's volume."""
        if not claim.volume_name:
            return ()
        found = self._all()
        return None if found is None else tuple(a for a in found if a.volume_name == claim.volume_name)

    def on(self, claim: HostClaim, node: str) -> Found:
        """Return the attachments of the claim's volume: those on one node where its name there is known."""
        if not is_longhorn(claim) or not claim.volume_name:
            return self.of(claim)
        name = attachment_name(claim.volume_name, LONGHORN, node)
        with host_call(f"look for host attachment {name}"):
            try:
                items = self._client.list(VOLUME_ATTACHMENTS, selector=_named(name)).items
            except Forbidden:
                return None
        return tuple(map(parse_host_attachment, items))

    def wait(self, look: Callable[[], tuple[Found, Done | Wait]], deadline: Deadline) -> None:
        """Wait until `look` comes to Done; it returns what it found too. Raises as Changes.wait does."""
        state, since = "", self._clock()
        while True:
            found, step = look()
            if isinstance(step, Done):
                return
            if step.what != state:
                state, since = step.what, self._clock()
            deadline.check(state)
            if (quiet := self._clock() - since) >= self._patience.stall:
                raise TimedOut(f"nothing has changed for {quiet:.0f} s while waiting for {state}; call again")
            if not (found and self._hears(found[0], deadline)):
                _pause(min(_PAUSE, deadline.remaining()), deadline)

    def _hears(self, known: HostAttachment, deadline: Deadline) -> bool:
        """Follow one attachment until it is gone or something else is said of it; False after silence."""
        limit = min(self._patience.silence, deadline.remaining())
        if limit <= 0:
            return False
        try:
            watch = self._client.watch(
                VOLUME_ATTACHMENTS,
                selector=_named(known.name),
                resource_version=known.resource_version,
                read_limit=limit,
            )
            with closing(watch), _ended_by(deadline, watch):
                return any(event.type == "DELETED" or _differs(event.object, known) for event in watch)
        except ApiError:
            return False

    def _list(self) -> Found:
        with host_call("look at the host's volume attachments"):
            try:
                return tuple(self._pages())
            except Forbidden:
                return None
            except Expired:
                items = self._client.list(VOLUME_ATTACHMENTS).items
                return tuple(map(parse_host_attachment, items))

    def _pages(self) -> Iterator[HostAttachment]:
        page = self._client.list(VOLUME_ATTACHMENTS, limit=_PAGE)
        yield from map(parse_host_attachment, page.items)
        while page.proceed:
            page = self._client.list(VOLUME_ATTACHMENTS, limit=_PAGE, proceed=page.proceed)
            yield from map(parse_host_attachment, page.items)


def _named(name: str) -> Selector:
    return Selector(fields=f"metadata.name={name}")


def _differs(obj: Object, known: HostAttachment) -> bool:
    now = parse_host_attachment(obj)
    return (now.attached, now.trouble) != (known.attached, known.trouble)


@contextmanager
def _ended_by(deadline: Deadline, watch: Watch) -> Iterator[None]:
    unlisten = deadline.listen(watch.close)
    try:
        yield
    finally:
        unlisten()


def _pause(seconds: float, deadline: Deadline) -> None:
    bell = threading.Event()
    unlisten = deadline.listen(bell.set)
    bell.wait(seconds)
    unlisten()
