"""Pods on the host's nodes: each becomes Ready when it had its time and its volumes are there.

The kubelet's part, as far as volumes go. The trap: a pod that cannot have one of its volumes stays Pending
for ever, and says little: only that a container is being created.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube.objects import dig, is_terminating, items, mapping, namespace_of, strings, text, uid_of
from kube.resources import PODS
from sim.host import shapes, words
from sim.host.calls import amend, now
from sim.host.timers import Timers

if TYPE_CHECKING:
    from collections.abc import Callable

    from kube.client import Client
    from kube.objects import Object
    from kube.store import Key
    from sim.host.cache import Cache
    from sim.host.profile import Profile

UNBOUND: Final = "pod has unbound immediate PersistentVolumeClaims"
WRONG_NODE: Final = "node(s) had volume node affinity conflict"


class PodController:
    """Works on pods by name."""

    def __init__(self, api: Client, cache: Cache, profile: Callable[[], Profile]) -> None:
        self._api = api
        self._cache = cache
        self._profile = profile
        self._starting = Timers()

    def reconcile(self, key: Key) -> float | None:
        """Bring the pod one step on; return the seconds after which to look again."""
        pod = self._cache.pod(key.namespace, key.name)
        if pod is None or is_terminating(pod) or shapes.is_ready(pod) or shapes.has_ended(pod):
            return None
        left = self._starting.left(uid_of(pod), self._profile().pod_start)
        unschedulable = "" if shapes.is_scheduled(pod) else self._unschedulable(pod)
        if unschedulable or not self._attached(pod):
            self._write(pod, _waiting(pod, unschedulable))
            return None
        if left:
            self._write(pod, _waiting(pod, ""))
            return left
        self._starting.forget(uid_of(pod))
        self._write(pod, _running(pod))
        return None

    def _unschedulable(self, pod: Object) -> str:
        """Return why no node takes the pod, or ""."""
        for name in shapes.claims_of(pod):
            claim = self._cache.claim(namespace_of(pod), name)
            if text(claim, "status", "phase") != words.BOUND:
                return UNBOUND if claim is not None else f'persistentvolumeclaim "{name}" not found'
            volume = self._cache.volume(text(claim, "spec", "volumeName"))
            if not _reachable(volume, text(pod, "spec", "nodeName")):
                return WRONG_NODE
        return ""

    def _attached(self, pod: Object) -> bool:
        claims = self._cache.claims(namespace_of(pod), items(pod, "spec", "volumes"))
        volumes = [text(claim, "spec", "volumeName") for claim in claims.values()]
        return all(self._is_attached(volume, text(pod, "spec", "nodeName")) for volume in volumes)

    def _is_attached(self, volume: str, node: str) -> bool:
        return any(
            text(attachment, "spec", "nodeName") == node
            and dig(attachment, "status", "attached") is True
            and not is_terminating(attachment)
            for attachment in self._cache.attachments_of(volume)
        )

    def _write(self, pod: Object, status: Object) -> None:
        shown = mapping(pod, "status")
        if any(shown.get(key) != value for key, value in status.items()):
            amend(self._api, PODS, pod, {"status": status}, "status")


def _reachable(volume: Object | None, node: str) -> bool:
    """Tell whether the volume can be had on the node: an LVM volume lives on one."""
    terms = items(volume, "spec", "nodeAffinity", "required", "nodeSelectorTerms")
    expressions = [each for term in terms for each in items(term, "matchExpressions")]
    return volume is not None and all(node in strings(each, "values") for each in expressions)


def _waiting(pod: Object, unschedulable: str) -> Object:
    scheduled: Object = {"type": "PodScheduled", "status": "True"}
    if unschedulable:
        scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        return {"phase": "Pending", "conditions": [{**scheduled, "message": unschedulable}]}
    container = text(items(pod, "spec", "containers")[0], "name")
    message = f"containers with unready status: [{container}]"
    unready = {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": message}
    state = {"waiting": {"reason": "ContainerCreating"}}
    return {"phase": "Pending", "conditions": [scheduled, unready], "containerStatuses": [_state(pod, state)]}


def _running(pod: Object) -> Object:
    conditions = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}]
    states = [_state(pod, {"running": {"startedAt": now()}}, ready=True)]
    return {"phase": words.RUNNING, "conditions": conditions, "containerStatuses": states}


def _state(pod: Object, state: Object, *, ready: bool = False) -> Object:
    container = items(pod, "spec", "containers")[0]
    shown = {"name": text(container, "name"), "image": text(container, "image"), "imageID": ""}
    return {**shown, "ready": ready, "restartCount": 0, "started": ready, "state": state}
