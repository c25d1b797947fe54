"""Values that the tests of volumes start from."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from csi.controller.claims import HostClaim, parse_claim
from csi.controller.create_plan import plan_claim, plan_order
from csi.model import AccessMode, Capability, CreateRequest
from harvester.classes import HostClass
from harvester.kinds import LONGHORN

if TYPE_CHECKING:
    from kube.objects import Object

CLUSTER = "6a3e2a56-cluster"
GIB = 1024**3
MIB = 1024**2

MOUNT = Capability(AccessMode.SINGLE_NODE_WRITER, fs_type="ext4")
BLOCK = Capability(AccessMode.SINGLE_NODE_WRITER, block=True)

FAST = HostClass(
    name="fast",
    provisioner=LONGHORN,
    waits_for_consumer=False,
    migratable=True,
    default=False,
    expandable=True,
    created="2026-01-01T00:00:00Z",
)


def request(name: str = "pvc-1", /, **changes: object) -> CreateRequest:
    """Return a request for 1 GiB, changed by field."""
    plain = CreateRequest(name=name, required=GIB, limit=0, capabilities=(MOUNT,))
    return replace(plain, **changes)  # type: ignore[arg-type]  # fields by name, checked when the test runs


def made(asked: CreateRequest, **changes: object) -> HostClaim:
    """Return the bound claim that the host makes of a request of this cluster, changed by field."""
    obj: Object = plan_claim(plan_order(asked), FAST, CLUSTER)
    obj["metadata"] |= {
        "uid": "uid-1",
        "resourceVersion": "7",
        "finalizers": ["kubernetes.io/pvc-protection"],
    }
    obj["status"] = {"phase": "Bound", "capacity": dict(obj["spec"]["resources"]["requests"])}
    return replace(parse_claim(obj), **changes)  # type: ignore[arg-type]  # fields by name, as above
