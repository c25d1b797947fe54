"""What a request is answered with when it is not done: a Status, in the real server's words.

Texts and codes are those of kube-apiserver 1.36, read from one; the contract suite holds them to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kube.objects import Object
    from kube.resources import Resource

MODIFIED: Final = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
UNPATCHABLE: Final = "the server rejected our request due to an error in our request"
RESTART: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new "
    "list without the continue parameter."
)


class Failure(Exception):
    """An answer that is no object. `details` says which object is meant, for a machine to read."""

    def __init__(self, code: int, reason: str, message: str, details: Object | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details

    @property
    def status(self) -> Object:
        """The Status object that says it."""
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            **({} if self.details is None else {"details": self.details}),
            "code": self.code,
        }


class NoSuchPath(Exception):
    """The path leads nowhere. The real server answers it in plain text, not with a Status."""


def bad_request(message: str) -> Failure:
    """The request cannot be understood."""
    return Failure(400, "BadRequest", message)


def unauthorized() -> Failure:
    """The token is not known."""
    return Failure(401, "Unauthorized", "Unauthorized")


def forbidden(message: str, resource: Resource | None, name: str, details: Object | None = None) -> Failure:
    """The user may not do it, or the state of the namespace forbids it; `message` is the whole text."""
    about = {} if resource is None else _details(resource, name)
    return Failure(403, "Forbidden", message, {**about, **(details or {})})


def not_found(resource: Resource, name: str) -> Failure:
    """There is no such object, or it has no such subresource."""
    return Failure(404, "NotFound", f'{resource.qualified} "{name}" not found', _details(resource, name))


def no_such_kind() -> Failure:
    """The core group has no such kind. The other groups answer that in plain text, see NoSuchPath."""
    return Failure(404, "NotFound", "the server could not find the requested resource", {})


def method_not_allowed() -> Failure:
    """The path is right, the verb is not."""
    message = "the server does not allow this method on the requested resource"
    return Failure(405, "MethodNotAllowed", message, {})


def already_exists(resource: Resource, name: str) -> Failure:
    """The name is taken."""
    message = f'{resource.qualified} "{name}" already exists'
    return Failure(409, "AlreadyExists", message, _details(resource, name))


def conflict(resource: Resource, name: str, why: str = MODIFIED) -> Failure:
    """Somebody else wrote first."""
    message = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return Failure(409, "Conflict", message, _details(resource, name))


def wrong_incarnation(resource: Resource, name: str, why: str) -> Failure:
    """A precondition of a delete does not hold. The real server names the kind here, not the resource."""
    message = f'Operation cannot be fulfilled on {_kind(resource)} "{name}": {why}'
    return Failure(409, "Conflict", message, {**_details(resource, name), "kind": resource.kind})


def expired(message: str) -> Failure:
    """The version that was asked for is forgotten."""
    return Failure(410, "Expired", message)


def unsupported(accepted: Sequence[str]) -> Failure:
    """The body is in a form that the server does not read."""
    words = "the body of the request was in an unknown format - accepted media types include: "
    return Failure(415, "UnsupportedMediaType", words + ", ".join(accepted))


def unpatchable() -> Failure:
    """A JSON patch cannot be applied, or a `test` in it failed: the answer does not tell which."""
    return Failure(422, "Invalid", UNPATCHABLE, {})


def invalid(resource: Resource, name: str, causes: Sequence[str]) -> Failure:
    """The object breaks rules; each cause is `field: Kind of fault: words`."""
    why = causes[0] if len(causes) == 1 else f"[{', '.join(causes)}]"
    message = f'{_kind(resource)} "{name}" is invalid: {why}'
    fields = [{"message": cause.partition(": ")[2], "field": cause.partition(": ")[0]} for cause in causes]
    details = {**_details(resource, name), "kind": resource.kind, "causes": fields}
    return Failure(422, "Invalid", message, details)


def _kind(resource: Resource) -> str:
    return f"{resource.kind}.{resource.group}" if resource.group else resource.kind


def _details(resource: Resource, name: str) -> Object:
    named: Object = {"name": name} if name else {}
    group: Object = {"group": resource.group} if resource.group else {}
    return {**named, **group, "kind": resource.plural}
