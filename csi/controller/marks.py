"""What we write on host claims: our annotations, their values, and the JSON patches that change them. Pure.

The trap: a claim without `attached-to` is not free. Upstream's claims have no such annotation while they are
attached, and a value that cannot be read was written by somebody for a reason: only "" means free.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kube.objects import Object

PREFIX: Final = "companion.harvesterhci.io/"
ATTACHED_TO: Final = PREFIX + "attached-to"
"""Who holds the claim: "" nobody, else `<vm name>/<vm uid>/<RFC 3339 time>`."""
CLUSTER: Final = PREFIX + "cluster"
"""Id of the guest cluster whose volume this is."""
REQUEST: Final = PREFIX + "request"
"""Name of the CreateVolume request that made the claim."""
ASKED: Final = PREFIX + "asked"
"""What must be the same when that request comes again: canonical JSON of capabilities and parameters."""
FRESH: Final = PREFIX + "fresh"
"""`never-attached` on a claim made without a source; at its first attach a time (RFC 3339) until which
nothing on it can be of worth; then `used`. Missing means `used`."""

NEVER_ATTACHED: Final = "never-attached"
USED: Final = "used"
FREE: Final = ""

_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


def stamp(moment: datetime) -> str:
    """Write an aware time as RFC 3339 in UTC, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment_of(stamped: str) -> datetime | None:
    """Read an RFC 3339 time; None where it is none, or has no zone."""
    try:
        moment = datetime.fromisoformat(stamped)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


@dataclass(frozen=True, slots=True)
class Holder:
    """The machine that holds a claim, by the mark.

    Where the mark is unreadable, `machine` is all of it, `uid` is "" and the time long ago.
    """

    machine: str
    uid: str
    since: datetime

    def __str__(self) -> str:
        """Write the value of `attached-to`, to the microsecond: no two takes of a claim write the same."""
        return f"{self.machine}/{self.uid}/{self.since.astimezone(UTC).isoformat().replace('+00:00', 'Z')}"


def parse_holder(value: str) -> Holder | None:
    """Read a value of `attached-to`; None when nobody holds the claim."""
    if value == FREE:
        return None
    machine, uid, since = [*value.split("/", 2), "", ""][:3]
    moment = moment_of(since)
    if not (machine and uid and moment):
        return Holder(machine=value, uid="", since=_LONG_AGO)
    return Holder(machine, uid, moment)


@dataclass(frozen=True, slots=True)
class Mark:
    """Our annotations on one claim; "" where one is missing."""

    cluster: str = ""
    request: str = ""
    asked: str = ""
    fresh: str = ""
    attached_to: str | None = None
    """As written, for the `test` of a patch; None where there is no such annotation."""

    @property
    def holder(self) -> Holder | None:
        """Who holds the claim; None for nobody and for a claim that does not say (see `attached_to`)."""
        return None if self.attached_to is None else parse_holder(self.attached_to)

    @property
    def fresh_until(self) -> datetime | None:
        """The time until which the disk holds nothing of worth, once it was attached for the first time."""
        return moment_of(self.fresh)

    def annotations(self) -> dict[str, str]:
        """Return the annotations of a claim that bears this mark."""
        known = {CLUSTER: self.cluster, REQUEST: self.request, ASKED: self.asked, FRESH: self.fresh}
        written = {key: value for key, value in known.items() if value}
        return written if self.attached_to is None else written | {ATTACHED_TO: self.attached_to}


def parse_mark(annotations: Mapping[str, str]) -> Mark:
    """Read the mark of a claim; all fields empty on a claim that is none of ours."""
    return Mark(
        cluster=annotations.get(CLUSTER, ""),
        request=annotations.get(REQUEST, ""),
        asked=annotations.get(ASKED, ""),
        fresh=annotations.get(FRESH, ""),
        attached_to=annotations.get(ATTACHED_TO),
    )


def change(key: str, old: str, new: str) -> list[Object]:
    """Return JSON-patch operations that change one annotation of ours while it still has the old value."""
    path = annotation_path(key)
    return [{"op": "test", "path": path, "value": old}, {"op": "replace", "path": path, "value": new}]


def mark_unmarked(
    resource_version: str, annotations: Mapping[str, str], ours: Mapping[str, str]
) -> list[Object]:
    """Return JSON-patch operations that add our annotations to a claim that nobody touched since it was read.

    A `test` of a path that is not there fails, so the resourceVersion is tested instead. `annotations` are
    those that were read; the API server drops an empty map, and `add` then needs the map itself.
    """
    test: Object = {"op": "test", "path": "/metadata/resourceVersion", "value": resource_version}
    if not annotations:
        return [test, {"op": "add", "path": "/metadata/annotations", "value": dict(ours)}]
    return [
        test,
        *({"op": "add", "path": annotation_path(key), "value": value} for key, value in ours.items()),
    ]


def annotation_path(key: str) -> str:
    """Return the JSON pointer of an annotation (RFC 6901: `~` and `/` are escaped)."""
    return "/metadata/annotations/" + key.replace("~", "~0").replace("/", "~1")
