"""Who asks, and may they: bearer tokens, and RBAC from the stored roles and bindings.

The trap: a rule that names objects grants a list or a watch only when its field selector asks for that name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube.objects import items, mapping, strings, text
from kube.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES, Resource
from sim.apiserver.calls import Call, User
from sim.apiserver.failures import forbidden, unauthorized
from sim.apiserver.store import Key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kube.objects import Object
    from sim.apiserver.store import Store

MASTERS: Final = "system:masters"
"""The group that may do everything, whatever the roles say."""
AUTHENTICATED: Final = "system:authenticated"
ANONYMOUS: Final = User("system:anonymous", ("system:unauthenticated",))
_ACCOUNT: Final = "system:serviceaccount:"
_HEALTH: Final = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
_RBAC: Final = "rbac.authorization.k8s.io"


class Tokens:
    """The bearer tokens that are known."""

    def __init__(self) -> None:
        self._users: dict[str, User] = {}

    def add(self, token: str, name: str, groups: Iterable[str]) -> None:
        """Let a token stand for a user. A service account is in the groups of its kind too."""
        implied = [AUTHENTICATED]
        if name.startswith(_ACCOUNT):
            namespace = name.removeprefix(_ACCOUNT).partition(":")[0]
            implied = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED]
        self._users[token] = User(name, tuple(dict.fromkeys([*groups, *implied])))

    def remove(self, token: str) -> None:
        """Let a token be unknown again."""
        self._users.pop(token, None)

    def user(self, authorization: str) -> User:
        """Return who sent this Authorization header; raises Failure (401) for an unknown token."""
        scheme, _, token = authorization.partition(" ")
        if not authorization:
            return ANONYMOUS
        user = self._users.get(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise unauthorized()
        return user


class Authorizer:
    """RBAC over the stored objects, read anew for each call."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def require(self, call: Call) -> None:
        """Raise Failure (403) unless the user may make the call."""
        if not self.allows(call):
            raise forbidden(_refusal(call), call.resource, call.name)

    def allows(self, call: Call) -> bool:
        """Tell whether a role of the user's grants the call."""
        if MASTERS in call.user.groups:
            return True
        if call.resource is None:
            return any(_grants_path(rule, call) for rule in self._rules(call))
        return any(_grants(rule, call, call.resource) for rule in self._rules(call))

    def _rules(self, call: Call) -> Iterator[Object]:
        for _, binding in self._bindings(CLUSTER_ROLE_BINDINGS, ""):
            if _binds(binding, call.user, ""):
                yield from self._role(binding, "")
        if call.namespace:
            for _, binding in self._bindings(ROLE_BINDINGS, call.namespace):
                if _binds(binding, call.user, call.namespace):
                    yield from self._role(binding, call.namespace)

    def _bindings(self, resource: Resource, namespace: str) -> Iterator[tuple[Key, Object]]:
        for key, stored in self._store.scan(resource.qualified)[0]:
            if key.namespace == namespace:
                yield key, stored.object

    def _role(self, binding: Object, namespace: str) -> Sequence[Object]:
        clusterwide = text(binding, "roleRef", "kind") == CLUSTER_ROLES.kind
        resource, home = (CLUSTER_ROLES, "") if clusterwide else (ROLES, namespace)
        role = self._store.get(resource.qualified, Key(home, text(binding, "roleRef", "name")))
        return items(role.object, "rules") if role else []


def _binds(binding: Object, user: User, namespace: str) -> bool:
    return any(_is_subject(subject, user, namespace) for subject in items(binding, "subjects"))


def _is_subject(subject: Object, user: User, namespace: str) -> bool:
    name = text(subject, "name")
    match text(subject, "kind"):
        case "User":
            return name == user.name
        case "Group":
            return name in user.groups
        case "ServiceAccount":
            return user.name == f"{_ACCOUNT}{text(subject, 'namespace') or namespace}:{name}"
        case _:
            return False


def _grants(rule: Object, call: Call, resource: Resource) -> bool:
    named = strings(rule, "resourceNames")
    plural = f"{resource.plural}/{call.subresource}" if call.subresource else resource.plural
    anywhere = f"*/{call.subresource}" if call.subresource else "*"
    return (
        _has(rule, "verbs", call.verb, "*")
        and _has(rule, "apiGroups", resource.group, "*")
        and _has(rule, "resources", plural, anywhere, "*")
        and (not named or call.name in named)
    )


def _grants_path(rule: Object, call: Call) -> bool:
    granted = strings(rule, "nonResourceURLs")
    return _has(rule, "verbs", call.verb, "*") and any(
        call.path == path or (path.endswith("*") and call.path.startswith(path[:-1])) for path in granted
    )


def _has(rule: Object, key: str, *wanted: str) -> bool:
    return not set(wanted).isdisjoint(strings(rule, key))


def _refusal(call: Call) -> str:
    if call.resource is None:
        return f'forbidden: User "{call.user.name}" cannot {call.verb} path "{call.path}"'
    resource = call.resource
    subject = f'{resource.qualified} "{call.name}"' if call.name else resource.qualified
    plural = f"{resource.plural}/{call.subresource}" if call.subresource else resource.plural
    where = f'in the namespace "{call.namespace}"' if call.namespace else "at the cluster scope"
    return (
        f'{subject} is forbidden: User "{call.user.name}" cannot {call.verb} resource "{plural}" '
        f'in API group "{resource.group}" {where}'
    )


def bootstrap_roles() -> list[tuple[Resource, Object]]:
    """Return the roles that every API server has, as far as a client depends on them."""
    paths = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", *_HEALTH]
    reviews = {
        "verbs": ["create"],
        "apiGroups": ["authorization.k8s.io"],
        "resources": ["selfsubjectaccessreviews"],
    }
    return [
        *_granted("cluster-admin", [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}], MASTERS),
        *_granted("system:basic-user", [reviews], AUTHENTICATED),
        *_granted("system:discovery", [{"verbs": ["get"], "nonResourceURLs": paths}], AUTHENTICATED),
        *_granted(
            "system:public-info-viewer",
            [{"verbs": ["get"], "nonResourceURLs": _HEALTH}],
            AUTHENTICATED,
            *ANONYMOUS.groups,
        ),
    ]


def _granted(name: str, rules: list[Object], *groups: str) -> list[tuple[Resource, Object]]:
    subjects = [{"kind": "Group", "name": group, "apiGroup": _RBAC} for group in groups]
    role = {"apiGroup": _RBAC, "kind": CLUSTER_ROLES.kind, "name": name}
    return [
        (CLUSTER_ROLES, {"metadata": {"name": name}, "rules": rules}),
        (CLUSTER_ROLE_BINDINGS, {"metadata": {"name": name}, "roleRef": role, "subjects": subjects}),
    ]


def asked_about(user: User, review: Object) -> Call:
    """Return the call that a SelfSubjectAccessReview asks about."""
    from_path = mapping(review, "spec", "nonResourceAttributes")
    about = mapping(review, "spec", "resourceAttributes")
    if from_path:
        return Call(user, text(from_path, "verb"), text(from_path, "path"))
    return Call(
        user,
        text(about, "verb"),
        "",
        Resource(text(about, "group"), text(about, "version") or "v1", text(about, "resource"), ""),
        text(about, "namespace"),
        text(about, "name"),
        text(about, "subresource"),
    )
