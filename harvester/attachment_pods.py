"""Attachment pods (hp-volume-...): through them KubeVirt brings hot-plugged volumes to a machine's host node.

The trap: such a pod does not say which machine it serves. Its owner is the launcher pod, whose name begins
with the machine's; the API server cuts what it generates names from at 58 characters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harvester.kinds import HOTPLUG_POD_LABEL, HOTPLUG_POD_VALUE
from kube.objects import dig, is_terminating, items, name_of, text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube.objects import Object

SELECTED: Final = f"{HOTPLUG_POD_LABEL}={HOTPLUG_POD_VALUE}"
"""Label selector of attachment pods."""

_RANDOM_LENGTH: Final = 5
_GENERATED_LENGTH: Final = 58


@dataclass(frozen=True, slots=True)
class AttachmentPod:
    """One attachment pod."""

    name: str
    launcher: str
    """What the name of the launcher pod that owns it was generated from; see `launcher_of`."""
    node: str
    claims: frozenset[str]
    phase: str
    ready: bool
    terminating: bool
    why: str
    """What the pod says of its not being ready, "" when it says nothing."""

    @property
    def ended(self) -> bool:
        """Whether its containers have ended for good, so that it holds no volume any more."""
        return self.phase in {"Succeeded", "Failed"}

    def __str__(self) -> str:
        """Describe the pod in an error's sentence."""
        going = ", being deleted" if self.terminating else ""
        return f"attachment pod {self.name} ({self.phase}{going}{f': {self.why}' if self.why else ''})"


def launcher_of(machine: str) -> str:
    """Return what the names of the machine's launcher pods are generated from.

    Two machines whose names are alike over 43 characters look like one here: they wait for each other.
    """
    return f"virt-launcher-{machine}-"[:_GENERATED_LENGTH]


def parse_attachment_pod(pod: Object) -> AttachmentPod:
    """Read an hp-volume pod; missing fields read as empty."""
    owners = items(pod, "metadata", "ownerReferences")
    launcher = next((text(owner, "name") for owner in owners if text(owner, "kind") == "Pod"), "")
    volumes = items(pod, "spec", "volumes")
    return AttachmentPod(
        name=name_of(pod),
        launcher=launcher[:-_RANDOM_LENGTH],
        node=text(pod, "spec", "nodeName"),
        claims=frozenset(filter(None, (text(v, "persistentVolumeClaim", "claimName") for v in volumes))),
        phase=text(pod, "status", "phase") or "Pending",
        ready=_is_ready(pod),
        terminating=is_terminating(pod),
        why="; ".join(_complaints(pod)),
    )


def _is_ready(pod: Object) -> bool:
    states = items(pod, "status", "containerStatuses")
    running = text(pod, "status", "phase") == "Running" and bool(states)
    return running and all(dig(state, "ready") is True for state in states)


def _complaints(pod: Object) -> Iterator[str]:
    yield from filter(None, (text(pod, "status", "message"),))
    for condition in items(pod, "status", "conditions"):
        if text(condition, "status") == "False" and text(condition, "message"):
            yield f"{text(condition, 'reason') or text(condition, 'type')}: {text(condition, 'message')}"
    for state in items(pod, "status", "containerStatuses"):
        reason, message = (
            text(state, "state", "waiting", "reason"),
            text(state, "state", "waiting", "message"),
        )
        if message or reason not in {"", "ContainerCreating"}:
            yield ": ".join(filter(None, (reason, message)))
