"""Which host claims are volumes of this guest cluster.

The trap: one namespace of the host serves several clusters, and the root disks of their machines. A claim
without our mark is nobody's until a guest volume of our driver names it: upstream made it then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from csi.errors import Unavailable
from csi.model import DRIVER_NAME
from kube.errors import ApiError, NotFound
from kube.objects import text, uid_of
from kube.permissions import Permission
from kube.resources import NAMESPACES, VOLUMES

if TYPE_CHECKING:
    from csi.controller.claims import HostClaim
    from csi.model import VolumeId
    from kube.client import Client
    from kube.objects import Object

GUEST_PERMISSIONS: Final = (Permission(NAMESPACES, ("get",)), Permission(VOLUMES, ("get", "list")))

_PAGE: Final = 200


class Guest(Protocol):
    """What ownership needs of the guest cluster. Raises only CsiError."""

    def cluster_id(self) -> str:
        """Return the UID of the namespace kube-system, which stands for the cluster."""
        ...

    def has_volume(self, volume: VolumeId) -> bool:
        """Tell whether a PersistentVolume of our driver names the volume."""
        ...


class GuestCluster:
    """The guest cluster's API, read live."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def cluster_id(self) -> str:
        """Return the UID of the namespace kube-system."""
        try:
            uid = uid_of(self._client.get(NAMESPACES, "kube-system"))
        except ApiError as error:
            raise Unavailable(f"read the guest cluster's identity: {error.message}") from error
        if not uid:
            raise Unavailable("the guest cluster's namespace kube-system has no UID")
        return uid

    def has_volume(self, volume: VolumeId) -> bool:
        """Look at the volume of that name first: external-provisioner names both the same."""
        try:
            return self._is_named(volume) or self._is_listed(volume)
        except ApiError as error:
            raise Unavailable(f"look for the guest volume of {volume}: {error.message}") from error

    def _is_named(self, volume: VolumeId) -> bool:
        try:
            return _names(self._client.get(VOLUMES, volume), volume)
        except NotFound:
            return False

    def _is_listed(self, volume: VolumeId) -> bool:
        page = self._client.list(VOLUMES, limit=_PAGE)
        while not any(_names(item, volume) for item in page.items):
            if not page.proceed:
                return False
            page = self._client.list(VOLUMES, limit=_PAGE, proceed=page.proceed)
        return True


def _names(guest_volume: Object, volume: VolumeId) -> bool:
    source = ("spec", "csi")
    return (
        text(guest_volume, *source, "driver") == DRIVER_NAME
        and text(guest_volume, *source, "volumeHandle") == volume
    )


class Ownership:
    """Tells ours from others'. `cluster_id` "" means the guest's own; one of the two must be there."""

    def __init__(self, guest: Guest | None, cluster_id: str = "") -> None:
        self._guest = guest
        self._cluster = cluster_id

    def cluster(self) -> str:
        """Return the id with which our claims are marked; read once, when first needed."""
        if not self._cluster:
            if self._guest is None:
                raise Unavailable("without a guest API the cluster's id must be given (--cluster-id)")
            self._cluster = self._guest.cluster_id()
        return self._cluster

    @property
    def is_certain(self) -> bool:
        """Whether a guest API tells which unmarked claims are its volumes."""
        return self._guest is not None

    def owns(self, claim: HostClaim) -> bool:
        """Tell whether the claim is a volume of this cluster; Unavailable when that cannot be known."""
        if claim.mark.cluster:
            return claim.mark.cluster == self.cluster()
        return self._guest is not None and self._guest.has_volume(claim.name)
