"""The Kubernetes API as our code speaks it: a small port on plain dicts. kube.rest implements it.

The trap: only the caller knows whether a call may be sent twice, so nothing here retries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kube.objects import Json, Object
    from kube.resources import Resource


@dataclass(frozen=True, slots=True)
class Selector:
    """What a list or a watch is narrowed to, in the API's own syntax; "" means all."""

    labels: str = ""
    fields: str = ""


EVERYTHING = Selector()


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list. `proceed` is the continue token, "" on the last page."""

    items: list[Object]
    resource_version: str
    proceed: str


@dataclass(frozen=True, slots=True)
class JsonPatch:
    """An RFC 6902 patch. Put a `test` first for whatever the decision stood on."""

    operations: Sequence[Object]


@dataclass(frozen=True, slots=True)
class MergePatch:
    """An RFC 7386 patch."""

    body: Mapping[str, Json]


Patch: TypeAlias = JsonPatch | MergePatch


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One line of a watch. For BOOKMARK only the resourceVersion of `object` means anything."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    object: Object


class Watch(Protocol):
    """An open watch: iterate it; `close` from any thread ends the iteration promptly."""

    def __iter__(self) -> Iterator[WatchEvent]:
        """Yield events until the server ends the watch; Expired is raised on 410."""
        ...

    def close(self) -> None:
        """End the watch; may be called from any thread, and twice."""
        ...


class Client(Protocol):
    """The API server. Every call has a time limit and raises only kube.errors.ApiError."""

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object:
        """Read one object, live."""
        ...

    def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        selector: Selector = EVERYTHING,
        *,
        limit: int | None = None,
        proceed: str = "",
    ) -> Page:
        """Read one page; without `limit` all objects. `namespace` None means all namespaces."""
        ...

    def create(self, resource: Resource, obj: Object, namespace: str | None = None) -> Object:
        """Create the object; raises AlreadyExists when its name is taken."""
        ...

    def replace(self, resource: Resource, obj: Object, subresource: str | None = None) -> Object:
        """PUT the object as given, its resourceVersion as the precondition."""
        ...

    def patch(
        self,
        resource: Resource,
        name: str,
        patch: Patch,
        namespace: str | None = None,
        subresource: str | None = None,
    ) -> Object:
        """Patch one object; a failed JSON-patch `test` raises Conflict."""
        ...

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> None:
        """Delete one object; `uid` makes it the incarnation that was looked at (else Conflict).

        `resource_version` makes it the very state that was looked at, to which nobody wrote since.
        """
        ...

    def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        selector: Selector = EVERYTHING,
        *,
        resource_version: str,
        read_limit: float = 90.0,
    ) -> Watch:
        """Open a watch with bookmarks; silence of `read_limit` seconds raises Unreachable."""
        ...
