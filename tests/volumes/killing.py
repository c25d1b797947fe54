"""A process that is killed at one of its calls to the host, before the call is sent or after its answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from kube.client import EVERYTHING, Client, Page, Patch, Selector, Watch

if TYPE_CHECKING:
    from collections.abc import Callable

    from kube.objects import Object
    from kube.resources import Resource

T = TypeVar("T")


class Killed(BaseException):
    """The end of the process: no code of ours may survive it."""


@dataclass
class MortalClient:
    """A client whose process dies at call number `dies_at` (from 0), sent or not; it counts its calls."""

    inner: Client
    dies_at: int = -1
    sent: bool = True
    calls: list[str] = field(default_factory=list)

    def _do(self, verb: str, resource: Resource, call: Callable[[], T]) -> T:
        dies = len(self.calls) == self.dies_at
        self.calls.append(f"{verb} {resource.plural}")
        if dies and not self.sent:
            raise Killed
        try:
            return call()
        finally:
            if dies:
                raise Killed  # Whatever the answer was: an error is one too.

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object:
        """See Client."""
        return self._do("get", resource, lambda: self.inner.get(resource, name, namespace))

    def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        selector: Selector = EVERYTHING,
        *,
        limit: int | None = None,
        proceed: str = "",
    ) -> Page:
        """See Client."""
        return self._do(
            "list",
            resource,
            lambda: self.inner.list(resource, namespace, selector, limit=limit, proceed=proceed),
        )

    def create(self, resource: Resource, obj: Object, namespace: str | None = None) -> Object:
        """See Client."""
        return self._do("create", resource, lambda: self.inner.create(resource, obj, namespace))

    def replace(self, resource: Resource, obj: Object, subresource: str | None = None) -> Object:
        """See Client."""
        return self._do("replace", resource, lambda: self.inner.replace(resource, obj, subresource))

    def patch(
        self,
        resource: Resource,
        name: str,
        patch: Patch,
        namespace: str | None = None,
        subresource: str | None = None,
    ) -> Object:
        """See Client."""
        return self._do(
            "patch", resource, lambda: self.inner.patch(resource, name, patch, namespace, subresource)
        )

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> None:
        """See Client."""
        self._do(
            "delete",
            resource,
            lambda: self.inner.delete(resource, name, namespace, uid=uid, resource_version=resource_version),
        )

    def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        selector: Selector = EVERYTHING,
        *,
        resource_version: str,
        read_limit: float = 90.0,
    ) -> Watch:
        """See Client."""
        return self._do(
            "watch",
            resource,
            lambda: self.inner.watch(
                resource, namespace, selector, resource_version=resource_version, read_limit=read_limit
            ),
        )
