"""What a module needs of its role, said beside the code that needs it, and held against what is really used.

A flow test records the requests of a client and compares: a verb that is used but not declared would be
missing from the chart's role, one that is declared but not used is a right that nobody should have.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kube.requests import Verb
    from kube.resources import Resource
    from kube.rest import RequestRecord


@dataclass(frozen=True, slots=True)
class Permission:
    """Verbs on one kind, or on a subresource of it. `optional` says what is lost without them."""

    resource: Resource
    verbs: tuple[Verb, ...]
    subresource: str = ""
    optional: str = ""


@dataclass(frozen=True, slots=True)
class Right:
    """One verb on one kind or subresource: what a role is made of."""

    verb: Verb
    resource: Resource
    subresource: str = ""

    def __str__(self) -> str:
        """Return it in the words of kubectl: `patch virtualmachines.kubevirt.io/status`."""
        return f"{self.verb} {self.resource.qualified}" + (f"/{self.subresource}" if self.subresource else "")


@dataclass(frozen=True, slots=True)
class Difference:
    """How far use and declaration are apart; both are empty where they agree."""

    undeclared: frozenset[Right]
    unused: frozenset[Right]


class Recorder:
    """Remembers the rights that a client's requests took; made to be its `on_request`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._used: set[Right] = set()

    def __call__(self, record: RequestRecord) -> None:
        """Remember one request."""
        with self._lock:
            self._used.add(Right(record.verb, record.resource, record.subresource))

    @property
    def used(self) -> frozenset[Right]:
        """The rights that were used up to now."""
        with self._lock:
            return frozenset(self._used)


def rights(declared: Iterable[Permission]) -> frozenset[Right]:
    """Return the single rights of declarations."""
    return frozenset(
        Right(verb, permission.resource, permission.subresource)
        for permission in declared
        for verb in permission.verbs
    )


def compare(declared: Iterable[Permission], used: Iterable[Right]) -> Difference:
    """Return what was used undeclared and what was declared unused."""
    said, done = rights(declared), frozenset(used)
    return Difference(undeclared=done - said, unused=said - done)
