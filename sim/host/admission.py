"""The host's admission webhooks: which requests each one judges, and by which rule of `sim.host.refusals`.

As the real ones they look at what they have seen of the cluster, not at live reads: two requests at the same
moment can both be let through.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harvester.kinds import INSTANCES, MACHINES
from kube.objects import is_terminating, items, text
from kube.quantity import format_bytes, parse_bytes
from kube.resources import CLAIMS
from sim.apiserver.admission import Allowed, Denied
from sim.host import refusals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kube.objects import Object
    from kube.resources import Resource
    from sim.apiserver.admission import AdmissionRequest, Operation, Verdict
    from sim.host.cache import Cache
    from sim.host.refusals import Refusal

KUBEVIRT: Final = "system:serviceaccount:harvester-system:kubevirt-"
"""What the names of KubeVirt's own accounts begin with."""
HOST_ACCOUNT: Final = f"{KUBEVIRT}controller"
"""The account of a simulated host's controllers."""
GARBAGE_COLLECTOR: Final = "system:serviceaccount:kube-system:generic-garbage-collector"
KUBEVIRT_MACHINES: Final = "virtualmachine-validator.kubevirt.io"
KUBEVIRT_INSTANCES: Final = "virtualmachineinstances-update-validator.kubevirt.io"
HARVESTER: Final = "validator.harvesterhci.io"
QUOTA: Final = "default-quota"


@dataclass(frozen=True, slots=True)
class Webhook:
    """One rule of a webhook: what it is asked about, and how it judges. `name` stands in its refusals."""

    name: str
    resource: Resource
    operations: tuple[Operation, ...]
    judge: Callable[[AdmissionRequest], Refusal | None]
    subresources: tuple[str, ...] = ("",)

    def concerns(self, request: AdmissionRequest) -> bool:
        """Tell whether the webhook is asked about the request."""
        return (
            request.resource == self.resource
            and request.operation in self.operations
            and request.subresource in self.subresources
        )


class Admission:
    """All webhooks of a Harvester 1.9 host. Until `look_at` names what to look at, everything passes.

    `controllers` is the user that the host's controllers are, where it is none of KubeVirt's accounts.
    """

    def __init__(self, controllers: str = HOST_ACCOUNT) -> None:
        self._controllers = controllers
        self._cache: Cache | None = None
        self._quotas: dict[str, int] = {}

    def look_at(self, cache: Cache) -> None:
        """Judge by what this cache has seen."""
        self._cache = cache

    def limit_storage(self, namespace: str, quantity: str) -> None:
        """Let the claims of a namespace ask for no more storage than this in all."""
        self._quotas[namespace] = parse_bytes(quantity) or 0

    @property
    def webhooks(self) -> Sequence[Webhook]:
        """The webhooks in the order in which they are asked."""
        templates = ("", "status")
        return (
            Webhook(KUBEVIRT_MACHINES, MACHINES, ("CREATE", "UPDATE"), _machine),
            Webhook(KUBEVIRT_INSTANCES, INSTANCES, ("UPDATE",), self._instance),
            Webhook(HARVESTER, MACHINES, ("CREATE", "UPDATE"), self._claims_of_machine, templates),
            Webhook(HARVESTER, CLAIMS, ("CREATE",), self._new_claim),
            Webhook(HARVESTER, CLAIMS, ("DELETE",), self._claim_deletion),
        )

    def review(self, request: AdmissionRequest) -> Verdict:
        """Judge one write as the webhooks would, and after them the API server's own quota."""
        for webhook in self.webhooks:
            if webhook.concerns(request) and (refusal := webhook.judge(request)):
                return Denied(webhook.name, refusal.words, refusal.code, refusal.reason)
        return self._over_quota(request)

    def _over_quota(self, request: AdmissionRequest) -> Verdict:
        """Refuse a claim for which no quota is left; it is the server that does, so it names no webhook."""
        limit = self._quotas.get(request.namespace)
        if limit is None or (request.resource, request.operation) != (CLAIMS, "CREATE") or not self._cache:
            return Allowed()
        wanted = _requested(request.object)
        used = sum(map(_requested, self._cache.claims_in(request.namespace)))
        if used + wanted <= limit:
            return Allowed()
        shown = {"requested": wanted, "used": used, "limited": limit}
        words = ", ".join(f"{key}: requests.storage={format_bytes(size)}" for key, size in shown.items())
        claim = f'persistentvolumeclaims "{request.name}" is forbidden: '
        return Denied("", f"{claim}exceeded quota: {QUOTA}, {words}")

    def _instance(self, request: AdmissionRequest) -> Refusal | None:
        if request.object is None or request.old_object is None:
            return None
        by_kubevirt = request.user.startswith(KUBEVIRT) or request.user == self._controllers
        return refusals.refuse_instance_update(request.object, request.old_object, by_kubevirt=by_kubevirt)

    def _claims_of_machine(self, request: AdmissionRequest) -> Refusal | None:
        if self._cache is None or request.object is None or is_terminating(request.object):
            return None
        claims = self._cache.claims(request.namespace, refusals.template_volumes(request.object))
        others = [m for claim in claims for m in self._cache.machines_of_claim(request.namespace, claim)]
        return refusals.refuse_claims_of_machine(request.object, others, claims, self._provisioner)

    def _provisioner(self, claim: Object) -> str:
        name = text(claim, "spec", "storageClassName")
        return text(self._cache.storage_class(name) if self._cache else None, "provisioner")

    def _new_claim(self, request: AdmissionRequest) -> Refusal | None:
        if (cache := self._cache) is None or request.object is None:
            return None
        return refusals.refuse_claim_creation(
            request.object, class_exists=lambda name: cache.storage_class(name) is not None
        )

    def _claim_deletion(self, request: AdmissionRequest) -> Refusal | None:
        if self._cache is None or request.old_object is None or request.user == GARBAGE_COLLECTOR:
            return None
        users = self._cache.machines_of_claim(request.namespace, request.name)
        references = items(request.old_object, "metadata", "ownerReferences")
        owners = (self._cache.machine(request.namespace, text(owner, "name")) for owner in references)
        machines = [*users, *filter(None, owners)]
        return refusals.refuse_claim_deletion(request.old_object, machines)


def _machine(request: AdmissionRequest) -> Refusal | None:
    if request.object is None or is_terminating(request.object):
        return None
    return refusals.refuse_machine(request.object, request.old_object)


def _requested(claim: Object | None) -> int:
    return parse_bytes(text(claim, "spec", "resources", "requests", "storage")) or 0
