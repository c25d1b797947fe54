"""What a guest's kubeconfig may do on a Harvester host: the roles of a release as RBAC objects. Pure.

The trap: the guest's ServiceAccount has the cloud provider's role in its own namespace only and the CSI
driver's role in the whole cluster; it may patch machines everywhere but read them only at home.

Source: Harvester 1.9, deploy/charts/harvester/templates/rbac.yaml and pkg/api/kubeconfig.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, SERVICE_ACCOUNTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kube.objects import Object
    from kube.resources import Resource

CLOUD_PROVIDER: Final = "harvesterhci.io:cloudprovider"
CSI_DRIVER: Final = "harvesterhci.io:csi-driver"
AUTHENTICATED: Final = "harvester-authenticated"
RBAC: Final = "rbac.authorization.k8s.io"

READ: Final = ("get", "list", "watch")
ALL: Final = ("*",)


def rule(group: str, resources: Sequence[str], verbs: Sequence[str], names: Sequence[str] = ()) -> Object:
    """Return one policy rule; `names` narrows it to objects of these names."""
    allowed: Object = {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}
    return {**allowed, "resourceNames": list(names)} if names else allowed


CLOUD_PROVIDER_RULES: Final = (
    rule("loadbalancer.harvesterhci.io", ["loadbalancers"], [*READ, "update", "create", "delete"]),
    rule(
        "subresources.kubevirt.io",
        [
            "virtualmachines/addvolume",
            "virtualmachines/removevolume",
            "virtualmachineinstances/addvolume",
            "virtualmachineinstances/removevolume",
            "virtualmachineinstances/guestosinfo",
        ],
        ["get", "update"],
    ),
    rule("kubevirt.io", ["virtualmachines", "virtualmachineinstances"], READ),
    rule("", ["pods"], READ),
    rule("", ["persistentvolumeclaims", "persistentvolumeclaims/status"], ALL),
)

CSI_DRIVER_RULES_1_9: Final = (
    rule("storage.k8s.io", ["storageclasses"], READ),
    rule("harvesterhci.io", ["networkfilesystems", "networkfilesystems/status"], ALL),
    rule("longhorn.io", ["volumes", "volumes/status"], ["get", "list"]),
    rule("storage.k8s.io", ["volumeattachments"], READ),
    rule(
        "harvesterhci.io",
        ["settings"],
        ["get", "list"],
        names=["csi-online-expand-validation", "csi-driver-config"],
    ),
    rule(
        "snapshot.storage.k8s.io",
        [
            "volumesnapshots",
            "volumesnapshotcontents",
            "volumesnapshotclasses",
            "volumesnapshots/status",
            "volumesnapshotcontents/status",
        ],
        ALL,
    ),
    rule("harvesterhci.io", ["volumeremotebackups", "volumeremoterestores"], ALL),
    rule("kubevirt.io", ["virtualmachines"], ["patch"]),
)

AUTHENTICATED_RULES: Final = (
    rule(
        "harvesterhci.io",
        ["settings"],
        ["get", "watch"],
        names=[
            "server-version",
            "default-storage-class",
            "harvester-csi-ccm-versions",
            "default-vm-termination-grace-period-seconds",
        ],
    ),
    rule("network.harvesterhci.io", ["clusternetworks"], READ),
)


def cluster_roles(csi_driver: Sequence[Object]) -> list[tuple[Resource, Object]]:
    """Return the roles that Harvester's chart installs, and what every authenticated user gets."""
    subject = {"kind": "Group", "name": "system:authenticated", "apiGroup": RBAC}
    return [
        (CLUSTER_ROLES, _role(CLOUD_PROVIDER, CLOUD_PROVIDER_RULES)),
        (CLUSTER_ROLES, _role(CSI_DRIVER, csi_driver)),
        (CLUSTER_ROLES, _role(AUTHENTICATED, AUTHENTICATED_RULES)),
        (CLUSTER_ROLE_BINDINGS, _binding("ClusterRoleBinding", AUTHENTICATED, AUTHENTICATED, subject)),
    ]


def guest(namespace: str, account: str) -> list[tuple[Resource, Object]]:
    """Return a guest's ServiceAccount and bindings, as Harvester's kubeconfig API makes them."""
    metadata = {"name": account, "namespace": namespace}
    subject = {"kind": "ServiceAccount", **metadata}
    at_home = _binding("RoleBinding", account, CLOUD_PROVIDER, subject)
    at_home["metadata"] = metadata
    everywhere = _binding("ClusterRoleBinding", f"{namespace}-{account}", CSI_DRIVER, subject)
    return [
        (SERVICE_ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
        (ROLE_BINDINGS, at_home),
        (CLUSTER_ROLE_BINDINGS, everywhere),
    ]


def _role(name: str, rules: Sequence[Object]) -> Object:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": list(rules),
    }


def _binding(kind: str, name: str, role: str, subject: Object) -> Object:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": kind,
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }
