"""The host's storage classes, read live: few, small, and changed by others at any time."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from csi.controller.failures import host_call
from harvester.classes import HostClass, default_of, parse_class
from kube.errors import Forbidden, NotFound
from kube.permissions import Permission
from kube.resources import STORAGE_CLASSES

if TYPE_CHECKING:
    from kube.client import Client

PERMISSIONS: Final = (
    Permission(
        STORAGE_CLASSES,
        ("get", "list"),
        optional="a misspelt hostStorageClass shows only as a claim that stays Pending, "
        "and CreateVolume does not wait for Bound",
    ),
)


class NoClass(Enum):
    """Why a class cannot be told."""

    MISSING = auto()
    UNREADABLE = auto()
    """The role forbids it."""


class HostClasses:
    """Storage classes. Raises only CsiError."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def find(self, name: str) -> HostClass | NoClass:
        """Return the class of that name; for "" the one that the host gives to a claim that names none."""
        if not name:
            known = self.all()
            return NoClass.UNREADABLE if known is None else default_of(known) or NoClass.MISSING
        with host_call(f"read host storage class {name}"):
            try:
                return parse_class(self._client.get(STORAGE_CLASSES, name))
            except NotFound:
                return NoClass.MISSING
            except Forbidden:
                return NoClass.UNREADABLE

    def all(self) -> tuple[HostClass, ...] | None:
        """Return all classes by name, or None where the role forbids it."""
        with host_call("list the host's storage classes"):
            try:
                found = self._client.list(STORAGE_CLASSES).items
            except Forbidden:
                return None
        return tuple(sorted(map(parse_class, found), key=lambda each: each.name))

    def in_words(self) -> str:
        """Say which classes there are, for the reader of an error."""
        known = self.all()
        if known is None:
            return "this cluster's role may not read which classes the host has"
        names = ", ".join(f"{each.name} (default)" if each.default else each.name for each in known)
        return f"the host has: {names}" if names else "the host has no storage class"
