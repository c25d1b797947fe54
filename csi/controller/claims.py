"""Host claims: the value that everything decides from, and the live calls of creation and deletion.

The trap: a cache may say that a claim is there, never that it is not. What is answered "gone" is read here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NewType, Protocol

from csi.controller.failures import host_call
from csi.controller.marks import Mark, parse_mark
from csi.controller.names import is_object_name
from csi.model import VolumeId
from harvester.kinds import GOLDEN_IMAGE
from kube.errors import NotFound
from kube.objects import (
    annotations_of,
    dig,
    is_terminating,
    items,
    labels_of,
    name_of,
    strings,
    text,
    uid_of,
    version_of,
)
from kube.permissions import Permission
from kube.quantity import parse_bytes
from kube.resources import CLAIMS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from csi.deadline import Deadline
    from kube.client import Client
    from kube.objects import Object

PERMISSIONS: Final = (Permission(CLAIMS, ("get", "create", "delete")),)

ClaimUid = NewType("ClaimUid", str)


@dataclass(frozen=True, slots=True)
class HostClaim:
    """A PersistentVolumeClaim of the host as one read showed it. Sizes in bytes."""

    name: VolumeId
    uid: ClaimUid
    resource_version: str
    phase: str
    """Pending, Bound or Lost."""
    volume_name: str
    """Name of the host PV, "" until bound; a Longhorn volume has the same name."""
    storage_class: str
    access_modes: tuple[str, ...]
    volume_mode: str
    requested: int
    capacity: int
    """What the host gave; 0 until bound."""
    mark: Mark
    annotations: Mapping[str, str] = field(repr=False)
    labels: Mapping[str, str] = field(repr=False)
    finalizers: tuple[str, ...]
    terminating: bool
    golden_image: bool
    conditions: tuple[str, ...]
    """What the host says of it, as `Type (reason: message)`."""

    @property
    def bound(self) -> bool:
        """Whether a volume stands behind the claim."""
        return self.phase == "Bound"

    @property
    def size(self) -> int:
        """The bytes the host gives, or will give once bound."""
        return self.capacity or self.requested


def parse_claim(obj: Object) -> HostClaim:
    """Read a v1 PersistentVolumeClaim; missing fields read as empty."""
    annotations = annotations_of(obj)
    return HostClaim(
        name=VolumeId(name_of(obj)),
        uid=ClaimUid(uid_of(obj)),
        resource_version=version_of(obj),
        phase=text(obj, "status", "phase") or "Pending",
        volume_name=text(obj, "spec", "volumeName"),
        storage_class=text(obj, "spec", "storageClassName"),
        access_modes=strings(obj, "spec", "accessModes"),
        volume_mode=text(obj, "spec", "volumeMode") or "Filesystem",
        requested=_bytes(obj, "spec", "resources", "requests", "storage"),
        capacity=_bytes(obj, "status", "capacity", "storage"),
        mark=parse_mark(annotations),
        annotations=annotations,
        labels=labels_of(obj),
        finalizers=strings(obj, "metadata", "finalizers"),
        terminating=is_terminating(obj),
        golden_image=annotations.get(GOLDEN_IMAGE) == "true",
        conditions=tuple(_condition(each) for each in items(obj, "status", "conditions")),
    )


def _bytes(obj: Object, *path: str) -> int:
    """Read a quantity, which JSON may also hold as a number."""
    return parse_bytes(str(dig(obj, *path))) or 0


def _condition(condition: Object) -> str:
    kind, said = (
        text(condition, "type"),
        ": ".join(filter(None, (text(condition, "reason"), text(condition, "message")))),
    )
    return f"{kind} ({said})" if said else kind


class ClaimWatch(Protocol):
    """Waits for a claim to change."""

    def wait_for_claim(
        self, name: VolumeId, until: Callable[[HostClaim | None], bool], deadline: Deadline
    ) -> HostClaim | None:
        """Return the claim once `until` holds of it, or as a last live read shows it when the time is over.

        None is a claim that a live read did not find. Raises Cancelled or Unavailable when interrupted.
        """
        ...


class HostClaims:
    """The claims of our namespace, live."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self.namespace = namespace

    def find(self, name: VolumeId, uid: ClaimUid | None = None) -> HostClaim | None:
        """Return the claim, or None on a real 404, and where it is not the incarnation with that `uid`.

        A name that no object can bear is not even asked for. Raises CsiError.
        """
        if not is_object_name(name):
            return None
        with host_call(f"read host claim {self.namespace}/{name}"):
            try:
                claim = parse_claim(self._client.get(CLAIMS, name, self.namespace))
            except NotFound:
                return None
        return claim if uid in (None, claim.uid) else None

    def create(self, claim: Object) -> HostClaim:
        """Make the claim. Raises ApiError: what a refusal or a taken name means, only the caller knows."""
        return parse_claim(self._client.create(CLAIMS, claim, self.namespace))

    def delete(self, claim: HostClaim) -> None:
        """Delete the claim only in the state that was looked at. Raises ApiError, Conflict if it changed.

        The resourceVersion orders this delete and the mark of an attachment: one of the two fails.
        """
        self._client.delete(
            CLAIMS,
            claim.name,
            self.namespace,
            uid=claim.uid,
            resource_version=claim.resource_version,
        )
