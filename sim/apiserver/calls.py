"""What a request means in the words of RBAC, read from its method, path and query. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from kube.resources import NAMESPACES, Resource
from sim.apiserver.failures import bad_request, method_not_allowed
from sim.apiserver.selectors import selected_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sim.apiserver.kinds import Kinds

_VERBS: Final[Mapping[str, str]] = {
    "GET": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
READS: Final = ("get", "list", "watch")


@dataclass(frozen=True, slots=True)
class User:
    """Who asks. Everybody with a token is in `system:authenticated` too."""

    name: str
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """One request. `resource` is None for a path such as /version; its `kind` is "" when it is not known."""

    user: User
    verb: str
    path: str
    resource: Resource | None = None
    namespace: str = ""
    name: str = ""
    """For a list and a watch, the one name that their field selector asks for."""
    subresource: str = ""

    @property
    def writes(self) -> bool:
        """Whether it may change anything."""
        return self.verb not in READS


@dataclass(frozen=True, slots=True)
class Place:
    """What a path names, before the verb is known."""

    resource: Resource
    namespace: str
    name: str
    subresource: str


def split(target: str) -> tuple[str, Mapping[str, str]]:
    """Return the path and the query of a request target."""
    parts = urlsplit(target)
    return parts.path, dict(parse_qsl(parts.query, keep_blank_values=True))


def read_call(user: User, method: str, path: str, query: Mapping[str, str], kinds: Kinds) -> Call:
    """Return the call that a request is; raises Failure when the method cannot be one."""
    if (verb := _VERBS.get(method)) is None:
        raise method_not_allowed()
    if (place := _place(path, kinds)) is None:
        return Call(user, verb, path)
    name = place.name
    if verb == "get" and not name:
        verb = "watch" if query.get("watch") in ("1", "true") else "list"
        name = selected_name(query.get("fieldSelector", ""))
    elif verb in ("update", "patch") and not name:
        raise bad_request("name must be provided")
    elif verb == "delete" and not name:
        verb = "deletecollection"
    return Call(user, verb, path, place.resource, place.namespace, name, place.subresource)


def _place(path: str, kinds: Kinds) -> Place | None:
    root, *steps = [unquote(step) for step in path.strip("/").split("/")]
    if root == "api" and len(steps) > 1:
        group, (version, *steps) = "", steps
    elif root == "apis" and len(steps) > 2:
        group, version, *steps = steps
    else:
        return None
    namespace = ""
    if steps[0] == NAMESPACES.plural and len(steps) > 1 and not group and _is_namespace_itself(steps):
        namespace = steps[1]
    elif steps[0] == NAMESPACES.plural and len(steps) > 2:
        namespace, steps = steps[1], steps[2:]
    kind = kinds.find(group, version, steps[0])
    resource = kind.resource if kind else Resource(group, version, steps[0], "", namespaced=bool(namespace))
    return Place(resource, namespace, "/".join(steps[1:2]), "/".join(steps[2:]))


def _is_namespace_itself(steps: list[str]) -> bool:
    return len(steps) == 2 or steps[2] in ("status", "finalize")
