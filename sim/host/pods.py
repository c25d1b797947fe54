"""The pods of a machine: its launcher, and the attachment pod that holds its hot-plugged volumes.

No scheduler runs here: a pod is born on its node. It has no grace period, so that a deleted pod is gone at
once, as KubeVirt deletes attachment pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube.client import Selector
from kube.objects import labels_of, mapping, name_of, namespace_of, text, uid_of
from kube.resources import PODS
from sim.host import shapes, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kube.client import Client
    from kube.objects import Object

IMAGE: Final = "registry.suse.com/suse/sles/15.7/virt-launcher:1.8.4"
EMPTY_DIRECTORY: Final = "hotplug-disks"
LAUNCHER_PREFIX: Final = "virt-launcher-"


def launcher(instance: Object, node: str, labels: Mapping[str, str] | None = None) -> Object:
    """Return the pod that runs the instance on the host node; it mounts what is not hot-plugged."""
    name = name_of(instance)
    mounted = [
        volume
        for volume in shapes.volumes_of(mapping(instance, "spec"))
        if shapes.claim_of(volume) and not shapes.is_hotpluggable(volume)
    ]
    metadata: Object = {
        "generateName": f"{LAUNCHER_PREFIX}{name}-",
        "namespace": namespace_of(instance),
        "labels": {
            **labels_of(instance),
            words.APP: words.LAUNCHER,
            words.MACHINE_NAME: name,
            "kubevirt.io/created-by": uid_of(instance),
            **(labels or {}),
        },
        "annotations": {"kubevirt.io/domain": name},
        "ownerReferences": [shapes.owner_reference(instance)],
    }
    return _pod(metadata, "compute", node, [_claim_volume(v) for v in mounted])


def attachment(launcher_pod: Object, volumes: Iterable[Object]) -> Object:
    """Return the one pod that holds all hot-plugged volumes of the launcher's instance, on its node."""
    metadata: Object = {
        "generateName": "hp-volume-",
        "namespace": namespace_of(launcher_pod),
        "labels": {words.APP: words.HOTPLUG},
        "ownerReferences": [shapes.owner_reference(launcher_pod)],
    }
    mounted = [_claim_volume(volume) for volume in volumes]
    return _pod(metadata, "hotplug-disk", text(launcher_pod, "spec", "nodeName"), mounted, EMPTY_DIRECTORY)


def machine_of(pod: Object) -> str:
    """Return the name of the machine that a launcher or an attachment pod belongs to, or ""."""
    if name := shapes.machine_name(pod):
        return name
    owners = mapping(pod, "metadata").get("ownerReferences") or [{}]
    launcher_name = text(owners[0], "name")
    if not launcher_name.startswith(LAUNCHER_PREFIX):
        return ""
    return launcher_name.removeprefix(LAUNCHER_PREFIX).rpartition("-")[0]


def list_attachments(api: Client, namespace: str) -> list[Object]:
    """Read all attachment pods of a namespace, live."""
    return api.list(PODS, namespace, Selector(labels=f"{words.APP}={words.HOTPLUG}")).items


def list_launchers(api: Client, instance: Object) -> list[Object]:
    """Read the launcher pods of an instance, live."""
    selector = Selector(labels=f"kubevirt.io/created-by={uid_of(instance)}")
    return api.list(PODS, namespace_of(instance), selector).items


def _claim_volume(volume: Object) -> Object:
    return {"name": text(volume, "name"), "persistentVolumeClaim": {"claimName": shapes.claim_of(volume)}}


def _pod(metadata: Object, container: str, node: str, volumes: list[Object], *empty: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {
            "nodeName": node,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "containers": [{"name": container, "image": IMAGE}],
            "volumes": [*({"name": name, "emptyDir": {}} for name in empty), *volumes],
        },
    }
