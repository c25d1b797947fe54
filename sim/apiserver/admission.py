"""What admission webhooks are asked and answer, in the terms of an AdmissionReview.

A hook is called without any lock, so it may itself ask the server. What it is asked about is as real: an
update comes with both states, a deletion with the old one only, and what is only a dry run says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from kube.objects import Object
    from kube.resources import Resource

Operation: TypeAlias = Literal["CREATE", "UPDATE", "DELETE"]


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """One write before it is applied. Objects must not be changed: answer with a changed copy."""

    operation: Operation
    resource: Resource
    subresource: str
    namespace: str
    """"" for a cluster-scoped object."""
    name: str
    user: str
    groups: tuple[str, ...]
    object: Object | None
    """The new state, with kind and apiVersion; None on DELETE."""
    old_object: Object | None
    """The stored state; None on CREATE."""
    dry_run: bool


@dataclass(frozen=True, slots=True)
class Allowed:
    """Let the write go on, with `object` in place of the one that was asked about when there is one."""

    object: Object | None = None


@dataclass(frozen=True, slots=True)
class Denied:
    """Refuse the write. A `webhook` of "" is a refusal by the server itself (a quota): no frame is added."""

    webhook: str
    message: str
    code: int = 403
    reason: str = "Forbidden"

    @property
    def words(self) -> str:
        """The message as the client reads it."""
        if not self.webhook:
            return self.message
        return f'admission webhook "{self.webhook}" denied the request: {self.message}'


Verdict: TypeAlias = Allowed | Denied


class AdmissionHook(Protocol):
    """One webhook, or several in a row. Called from many threads at once."""

    def review(self, request: AdmissionRequest) -> Verdict:
        """Judge one write; a hook that is not concerned answers Allowed()."""
        ...
