"""VolumeAttachments: one for each volume and host node where a pod mounts it.

The parts of the attach/detach controller and of external-attacher. The trap: a volume leaves its node some
time after the last pod there is gone, and until then no other machine's pod may have it: moving on earlier
is what corrupts data. The two nodes of a live migration are the exception.
"""

from __future__ import annotations

import contextlib
import hashlib
from typing import TYPE_CHECKING

from harvester.kinds import LONGHORN, LONGHORN_VOLUMES
from kube.client import MergePatch
from kube.errors import AlreadyExists, NotFound
from kube.objects import is_terminating, mapping, name_of, text, uid_of
from kube.resources import PODS, VOLUME_ATTACHMENTS
from sim.host import pods, shapes, words
from sim.host.calls import amend, now, remove
from sim.host.timers import Timers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kube.client import Client
    from kube.objects import Object
    from kube.store import Key
    from sim.host.cache import Cache
    from sim.host.profile import Profile


def attachment_name(handle: str, driver: str, node: str) -> str:
    """Return the name that Kubernetes gives a VolumeAttachment (pkg/volume/csi, getAttachmentName)."""
    return f"csi-{hashlib.sha256(f'{handle}{driver}{node}'.encode()).hexdigest()}"


def volume_attachment(volume: Object, node: str) -> Object:
    """Return the attachment of a volume to a host node."""
    driver, handle = text(volume, "spec", "csi", "driver"), text(volume, "spec", "csi", "volumeHandle")
    return {
        "apiVersion": VOLUME_ATTACHMENTS.api_version,
        "kind": VOLUME_ATTACHMENTS.kind,
        "metadata": {"name": attachment_name(handle, driver, node)},
        "spec": {
            "attacher": driver,
            "nodeName": node,
            "source": {"persistentVolumeName": name_of(volume)},
        },
    }


def volume_of(attachment: Object) -> str:
    """Return the name of the volume that is attached."""
    return text(attachment, "spec", "source", "persistentVolumeName")


class AttachmentController:
    """Works on volumes by name. `broken` tells why a volume cannot be attached, by name."""

    def __init__(
        self, api: Client, cache: Cache, profile: Callable[[], Profile], broken: Mapping[str, str]
    ) -> None:
        self._api = api
        self._cache = cache
        self._profile = profile
        self._broken = broken
        self._detaching = Timers()
        self._told: dict[str, Object] = {}

    def reconcile(self, key: Key) -> float | None:
        """Attach and detach the volume as its pods ask; return the seconds after which to look again."""
        volume = self._cache.volume(key.name)
        if volume is None:
            self._told.pop(key.name, None)
        wanted = self._wanted(volume)
        attachments = {text(a, "spec", "nodeName"): a for a in self._cache.attachments_of(key.name)}
        wait: float | None = None
        for node, attachment in attachments.items():
            if node in wanted:
                self._detaching.forget(uid_of(attachment))
                self._settle(attachment, key.name)
            elif left := self._detaching.left(uid_of(attachment), self._profile().detach):
                wait = left
            elif volume is None or node not in self._live_nodes(volume):
                self._detach(attachment)
        if volume is not None and wanted.keys() - attachments.keys():
            self._attach(volume, wanted)
        self._tell_longhorn(volume, attachments)
        return wait

    def _wanted(self, volume: Object | None) -> dict[str, str]:
        """Return the nodes where pods mount the volume, each with the machine that they run."""
        reference = mapping(volume, "spec", "claimRef")
        mounting = self._cache.pods_of_claim(text(reference, "namespace"), text(reference, "name"))
        return {
            text(pod, "spec", "nodeName"): pods.machine_of(pod)
            for pod in mounting
            if shapes.is_scheduled(pod) and not shapes.has_ended(pod)
        }

    def _attach(self, volume: Object, wanted: Mapping[str, str]) -> None:
        """Attach the volume where it is wanted, unless it is on the node of another machine still."""
        live = self._api.list(VOLUME_ATTACHMENTS).items
        held = {text(a, "spec", "nodeName") for a in live if volume_of(a) == name_of(volume)}
        for node, machine in wanted.items():
            if node not in held and all(wanted.get(other) == machine for other in held):
                with contextlib.suppress(AlreadyExists):
                    self._api.create(VOLUME_ATTACHMENTS, volume_attachment(volume, node))
                held.add(node)

    def _live_nodes(self, volume: Object) -> set[str]:
        namespace = text(volume, "spec", "claimRef", "namespace")
        claim = text(volume, "spec", "claimRef", "name")
        live = self._api.list(PODS, namespace).items
        mounting = (pod for pod in live if claim in shapes.claims_of(pod) and not shapes.has_ended(pod))
        return {text(pod, "spec", "nodeName") for pod in mounting}

    def _settle(self, attachment: Object, volume: str) -> None:
        """Write that the volume is attached, or why it cannot be."""
        status: Object = {"attached": True, "attachError": None}
        if why := self._broken.get(volume):
            words_ = f"rpc error: code = Aborted desc = volume {volume} is not ready for workloads: {why}"
            status = {"attached": False, "attachError": {"message": words_, "time": now()}}
        shown = mapping(attachment, "status")
        told = text(shown, "attachError", "message") == text(status, "attachError", "message")
        if shown.get("attached") is not status["attached"] or not told:
            with contextlib.suppress(NotFound):
                amend(self._api, VOLUME_ATTACHMENTS, attachment, {"status": status}, "status")

    def _detach(self, attachment: Object) -> None:
        self._detaching.forget(uid_of(attachment))
        remove(self._api, VOLUME_ATTACHMENTS, attachment)

    def _tell_longhorn(self, volume: Object | None, attachments: Mapping[str, Object]) -> None:
        """Keep the state of Longhorn's own record of the volume; nobody else writes it."""
        if volume is None or is_terminating(volume) or text(volume, "spec", "csi", "driver") != LONGHORN:
            return
        name = name_of(volume)
        status = _longhorn_state(attachments, broken=name in self._broken)
        if self._told.get(name) != status:
            patch = MergePatch({"status": status})
            with contextlib.suppress(NotFound):
                self._api.patch(LONGHORN_VOLUMES, name, patch, words.LONGHORN_SYSTEM, "status")
            self._told[name] = status


def _longhorn_state(attachments: Mapping[str, Object], *, broken: bool) -> Object:
    nodes = [node for node, a in attachments.items() if mapping(a, "status").get("attached") is True]
    if nodes:
        return {"state": "attached", "robustness": "healthy", "currentNodeID": nodes[0]}
    state = "attaching" if attachments and not broken else "detached"
    return {"state": state, "robustness": "faulted" if broken else "unknown", "currentNodeID": ""}
