"""Hot-plugged volumes of instances: attachment pods and the entries of volumeStatus.

The part of virt-controller that looks at a running VMI's volumes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kube.objects import items, mapping, name_of, namespace_of, text, uid_of
from kube.resources import PODS
from sim.host import pods, shapes, words
from sim.host.calls import remove
from sim.host.hotplug_plan import Blocked, Pods, plan_pods, volume_status

if TYPE_CHECKING:
    from kube.client import Client
    from kube.objects import Object
    from sim.host.cache import Cache
    from sim.host.shapes import AttachmentPod


class Hotplug:
    """Decides on what the cache shows; before a pod is created, pods are read live."""

    def __init__(self, api: Client, cache: Cache) -> None:
        self._api = api
        self._cache = cache

    def status(self, instance: Object, launcher: Object) -> list[Object]:
        """Return the volumeStatus that the instance should have now."""
        return volume_status(instance, self._pods(launcher), self._claims(instance))

    def sync(self, instance: Object, launcher: Object) -> str:
        """Create and delete attachment pods as needed; return why nothing can be done, or ""."""
        claims = self._claims(instance)
        plan = plan_pods(instance, self._pods(launcher), claims)
        if isinstance(plan, Pods) and plan.create:
            plan = plan_pods(instance, self._live_pods(launcher), claims)
        if isinstance(plan, Blocked):
            return plan.why
        self._act(plan, instance, launcher)
        return ""

    def end(self, launcher: Object) -> bool:
        """Delete all attachment pods of a launcher that ends; tell whether none is left."""
        left = self._cache.pods_of(uid_of(launcher))
        for pod in left:
            remove(self._api, PODS, pod)
        return not left

    def _act(self, plan: Pods, instance: Object, launcher: Object) -> None:
        if plan.create:
            volumes = [v for v in shapes.hotplug_volumes(instance) if text(v, "name") in plan.create]
            self._api.create(PODS, pods.attachment(launcher, volumes), namespace_of(instance))
        for pod in self._cache.pods_of(uid_of(launcher)):
            if name_of(pod) in plan.delete:
                remove(self._api, PODS, pod)

    def _pods(self, launcher: Object) -> list[AttachmentPod]:
        return [shapes.attachment_pod(pod) for pod in self._cache.pods_of(uid_of(launcher))]

    def _live_pods(self, launcher: Object) -> list[AttachmentPod]:
        uid = uid_of(launcher)
        live = pods.list_attachments(self._api, namespace_of(launcher))
        return [shapes.attachment_pod(pod) for pod in live if shapes.owned_by(pod, uid)]

    def _claims(self, instance: Object) -> dict[str, Object]:
        return self._cache.claims(namespace_of(instance), shapes.volumes_of(mapping(instance, "spec")))


def synchronized(instance: Object, why: str, reason: str = words.PVC_NOT_READY) -> list[Object]:
    """Return the instance's conditions with Synchronized False because of `why`, or without it when ""."""
    conditions = items(instance, "status", "conditions")
    if not why:
        return shapes.without_condition(conditions, "Synchronized")
    condition = {"type": "Synchronized", "status": "False", "reason": reason, "message": why}
    return shapes.with_condition(conditions, condition)
