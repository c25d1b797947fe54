"""What a CreateVolume request asks of the host, and whether a claim that is there answers it. Pure.

The trap: once a claim exists, a final error makes the sidecar forget it. So the request itself is judged
before the host is touched, and a claim that is there is compared before anything else is looked at.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from csi.controller.marks import FREE, NEVER_ATTACHED, Mark
from csi.controller.names import volume_id_for
from csi.controller.sizes import size_for
from csi.controller.validate_plan import why_not
from csi.errors import AlreadyExists, Busy, InvalidArgument
from harvester.classes import READ_WRITE_MANY
from harvester.kinds import DISK_FILE, GUEST_CLUSTER_LABEL
from kube.quantity import format_bytes
from kube.resources import CLAIMS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from csi.controller.claims import HostClaim
    from csi.model import CreateRequest, VolumeId
    from harvester.classes import HostClass
    from kube.objects import Object

HOST_CLASS: Final = "hostStorageClass"
"""StorageClass parameter, upstream's: the host's storage class."""
HOST_MODE: Final = "hostVolumeMode"
"""StorageClass parameter, upstream's: `filesystem` for a class of the host that gives no raw disks."""
_BLOCK, _FILESYSTEM = "block", "filesystem"
KUBERNETES_KEYS: Final = "csi.storage.k8s.io/"
"""Parameters that the sidecars add: the names of PVC and PV, and what they keep for themselves."""


@dataclass(frozen=True, slots=True)
class Order:
    """A CreateVolume request, judged: it can be asked of the host as it is."""

    volume: VolumeId
    request: str
    size: int
    """Bytes to ask for."""
    required: int
    limit: int
    asked: str
    """What must be the same when the request comes again."""
    host_class: str
    """The host's class by name, "" for the host's default."""
    filesystem: bool
    """Whether the host claim is to hold a file system with a disk image, instead of being a raw disk."""
    unknown: tuple[str, ...]
    """Parameters that mean nothing to us."""


def plan_order(request: CreateRequest, default_class: str = "") -> Order:
    """Judge a request by itself. Raises InvalidArgument or OutOfRange.

    `default_class` is the host class of a request that names none; "" leaves it to the host.
    """
    if refusal := why_not(request.capabilities):
        raise InvalidArgument(refusal)
    if request.has_source:
        raise InvalidArgument("a volume made from a snapshot or another volume is not served")
    own = {key: val for key, val in request.parameters.items() if not key.startswith(KUBERNETES_KEYS)}
    return Order(
        volume=volume_id_for(request.name),
        request=request.name,
        size=size_for(request.required, request.limit),
        required=request.required,
        limit=request.limit,
        asked=_asked(request, own),
        host_class=own.get(HOST_CLASS) or default_class,
        filesystem=_filesystem(own),
        unknown=tuple(sorted(own.keys() - {HOST_CLASS, HOST_MODE})),
    )


def _filesystem(parameters: Mapping[str, str]) -> bool:
    mode = parameters.get(HOST_MODE, _BLOCK)
    if mode.lower() not in (_BLOCK, _FILESYSTEM):
        raise InvalidArgument(f"parameter {HOST_MODE} is {mode!r}; it can be {_BLOCK} or {_FILESYSTEM}")
    return mode.lower() == _FILESYSTEM


def _asked(request: CreateRequest, parameters: Mapping[str, str]) -> str:
    """Write down what must be the same in a repeat; mount flags may be secret and do not shape the volume.

    Nor do the names that the sidecars add: whether they add them is a flag of theirs, which may change.
    """
    capabilities = sorted(
        {(c.mode.value, "block" if c.block else f"mount {c.fs_type}".strip()) for c in request.capabilities}
    )
    return json.dumps({"capabilities": capabilities, "parameters": dict(parameters)}, sort_keys=True)


def plan_claim(order: Order, host_class: HostClass | None, cluster: str, guest_label: str = "") -> Object:
    """Return the claim to create; `host_class` is None where the role may not read the host's classes.

    `guest_label` is the cluster's name in Rancher: with it Rancher deletes the claim together with the
    cluster, whatever its reclaim policy says. Raises InvalidArgument where the class cannot give it.
    """
    mark = Mark(
        cluster=cluster, request=order.request, asked=order.asked, fresh=NEVER_ATTACHED, attached_to=FREE
    )
    annotations = mark.annotations()
    if order.filesystem:
        _allow_filesystem(host_class)
        annotations[DISK_FILE] = "true"
    spec: Object = {
        "accessModes": [host_class.disk_access_mode if host_class else READ_WRITE_MANY],
        "volumeMode": "Filesystem" if order.filesystem else "Block",
        "resources": {"requests": {"storage": format_bytes(order.size)}},
    }
    if name := host_class.name if host_class else order.host_class:
        spec["storageClassName"] = name
    metadata: Object = {"name": order.volume, "annotations": annotations}
    if guest_label:
        metadata["labels"] = {GUEST_CLUSTER_LABEL: guest_label}
    return {"apiVersion": CLAIMS.api_version, "kind": CLAIMS.kind, "metadata": metadata, "spec": spec}


def _allow_filesystem(host_class: HostClass | None) -> None:
    if host_class is not None and host_class.gives_raw_disks:
        raise InvalidArgument(
            f"parameter {HOST_MODE}: {_FILESYSTEM} is for classes that give no raw disks; "
            f"host storage class {host_class.name} ({host_class.provisioner}) does: leave the parameter out"
        )


def check_same(order: Order, claim: HostClaim, cluster: str) -> None:
    """Pass when the claim is what this request made before, as it asks for it now.

    What was requested is compared, not what the host gave: it may have rounded. Raises Busy while a claim of
    that name is being deleted, AlreadyExists where it is another's or was asked for otherwise (CSI spec,
    CreateVolume).
    """
    if claim.terminating:
        raise Busy(f"host claim {claim.name} is being deleted; call again when it is gone")
    if claim.mark.cluster != cluster:
        raise AlreadyExists(
            f"host claim {claim.name} is there but not a volume of this cluster; it is left alone"
        )
    if claim.mark.request != order.request:
        raise AlreadyExists(f"volume {claim.name} was made for request {claim.mark.request!r}")
    if not order.required <= claim.requested <= (order.limit or claim.requested):
        raise AlreadyExists(
            f"volume {claim.name} exists with {claim.requested} bytes; "
            f"asked for now are {order.required} at least and {order.limit or 'any number'} at most"
        )
    if claim.mark.asked != order.asked:
        raise AlreadyExists(
            f"volume {claim.name} exists, asked for with {claim.mark.asked}; asked for now with {order.asked}"
        )


def why_unbound(claim: HostClaim, namespace: str) -> str:
    """Say what can be seen of a claim that does not bind; guests may not read the host's events."""
    seen = "; ".join(claim.conditions) or "it shows no condition"
    return (
        f"host claim {namespace}/{claim.name} ({format_bytes(claim.requested)}, "
        f"storage class {claim.storage_class}) is {claim.phase}, not Bound: {seen}. The reason is in the "
        f"host's events: the platform team sees it with `kubectl -n {namespace} describe pvc {claim.name}`. "
        "It is safe to call again"
    )
