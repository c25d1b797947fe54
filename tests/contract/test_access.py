"""Who may do what: tokens, roles, and the words of a refusal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kube.client import MergePatch, Selector
from kube.errors import Forbidden, NotFound, Unauthorized
from kube.objects import dig, name_of, text
from kube.resources import (
    ACCESS_REVIEWS,
    CLAIMS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    NODES,
    ROLE_BINDINGS,
    ROLES,
)

from .conftest import ACCOUNT, GUEST
from .shapes import WIDGETS, claim, config_map, widget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kube.objects import Object
    from kube.rest import RestClient

    from .conftest import Api

RBAC = "rbac.authorization.k8s.io"


@pytest.fixture
def guest(api: Api) -> Iterator[RestClient]:
    """Return a client of the user who has no rights yet."""
    client = api.connect(GUEST.token)
    yield client
    client.close()


def rule(group: str, resource: str, *verbs: str, names: tuple[str, ...] = ()) -> Object:
    """Return one policy rule."""
    granted: Object = {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}
    return {**granted, "resourceNames": list(names)} if names else granted


def grant(api: Api, subject: Object, *rules: Object) -> None:
    """Bind a role with these rules to a subject, in the test's namespace."""
    role = {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": {"name": "r"}, "rules": list(rules)}
    api.client.create(ROLES, role, api.namespace)
    ref = {"apiGroup": RBAC, "kind": "Role", "name": "r"}
    bind(api, subject, ref)


def bind(api: Api, subject: Object, ref: Object) -> None:
    """Bind a role to a subject in the test's namespace."""
    binding = {"metadata": {"name": "b"}, "roleRef": ref, "subjects": [subject]}
    api.client.create(
        ROLE_BINDINGS, {"apiVersion": f"{RBAC}/v1", "kind": "RoleBinding", **binding}, api.namespace
    )


USER: Object = {"kind": "User", "name": GUEST.name, "apiGroup": RBAC}


def test_an_unknown_token_is_unauthorized(api: Api) -> None:
    """A token that nobody has is a 401, whatever is asked for."""
    stranger = api.connect("nobody")
    with pytest.raises(Unauthorized):
        stranger.list(CLAIMS)
    assert api.send("GET", "/version", token="nobody").code == 401
    stranger.close()


def test_without_a_token_one_sees_that_the_server_lives(api: Api) -> None:
    """Health and version are open to all; anything else is forbidden to the anonymous user, by name."""
    for path in ("/healthz", "/livez", "/readyz"):
        answer = api.send("GET", path, token="")
        assert (answer.code, answer.body) == (200, "ok")
    assert text(api.send("GET", "/version", token="").body, "major") == "1"
    refused = api.send("GET", "/api/v1/pods", token="")
    assert refused.code == 403
    assert 'User "system:anonymous" cannot list resource "pods"' in text(refused.body, "message")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        pytest.param(
            "/api/v1/persistentvolumeclaims",
            'persistentvolumeclaims is forbidden: User "guest" cannot list resource "persistentvolumeclaims" '
            'in API group "" at the cluster scope',
            id="list-everywhere",
        ),
        pytest.param(
            "/apis/kubevirt.io/v1/namespaces/x/virtualmachines/foo",
            'virtualmachines.kubevirt.io "foo" is forbidden: User "guest" cannot get resource '
            '"virtualmachines" in API group "kubevirt.io" in the namespace "x"',
            id="get-of-an-unknown-kind",
        ),
        pytest.param(
            "/api/v1/namespaces/x/persistentvolumeclaims/c/status",
            'persistentvolumeclaims "c" is forbidden: User "guest" cannot get resource '
            '"persistentvolumeclaims/status" in API group "" in the namespace "x"',
            id="subresource",
        ),
        pytest.param(
            "/api/v1/namespaces/x",
            'namespaces "x" is forbidden: User "guest" cannot get resource "namespaces" in API group "" '
            'in the namespace "x"',
            id="namespace",
        ),
        pytest.param(
            "/api/v1/namespaces/x/pods?watch=1&fieldSelector=metadata.name%3Dp",
            'pods "p" is forbidden: User "guest" cannot watch resource "pods" in API group "" '
            'in the namespace "x"',
            id="watch-of-one-name",
        ),
        pytest.param("/metrics", 'forbidden: User "guest" cannot get path "/metrics"', id="no-resource"),
    ],
)
def test_a_refusal_says_who_may_not_do_what(api: Api, path: str, message: str) -> None:
    """The words are those that operators search for, and what our programs read."""
    refused = api.send("GET", path, token=GUEST.token)
    assert (refused.code, text(refused.body, "reason")) == (403, "Forbidden")
    assert text(refused.body, "message") == message


def test_a_service_account_is_named_in_full(api: Api) -> None:
    """The user name of an account holds its namespace."""
    account = api.connect(ACCOUNT.token)
    with pytest.raises(Forbidden, match=f'User "{ACCOUNT.name}" cannot delete resource "configmaps"'):
        account.delete(CONFIG_MAPS, "a", api.namespace)
    account.close()


@pytest.mark.parametrize(
    ("subject", "token"),
    [
        pytest.param(USER, GUEST.token, id="user"),
        pytest.param({"kind": "Group", "name": "guests", "apiGroup": RBAC}, GUEST.token, id="group"),
        pytest.param(
            {"kind": "ServiceAccount", "name": "robot", "namespace": "default"}, ACCOUNT.token, id="account"
        ),
        pytest.param(
            {"kind": "Group", "name": "system:serviceaccounts:default", "apiGroup": RBAC},
            ACCOUNT.token,
            id="all-accounts-of-a-namespace",
        ),
    ],
)
def test_a_role_grants_its_verbs_in_its_namespace(
    api: Api, eventually: Callable[[Callable[[], object]], None], subject: Object, token: str
) -> None:
    """Only the named verbs on the named kind, and nothing elsewhere."""
    grant(api, subject, rule("", "configmaps", "create", "get"))
    client = api.connect(token)
    eventually(lambda: client.create(CONFIG_MAPS, config_map("a"), api.namespace))
    assert name_of(client.get(CONFIG_MAPS, "a", api.namespace)) == "a"
    with pytest.raises(Forbidden, match="cannot list"):
        client.list(CONFIG_MAPS, api.namespace)
    with pytest.raises(Forbidden, match="cannot delete"):
        client.delete(CONFIG_MAPS, "a", api.namespace)
    for resource, namespace in ((CONFIG_MAPS, "default"), (CLAIMS, api.namespace)):
        with pytest.raises(Forbidden, match="cannot get"):
            client.get(resource, "a", namespace)
    client.close()


def test_a_rule_may_name_its_objects(
    api: Api, guest: RestClient, eventually: Callable[[Callable[[], object]], None]
) -> None:
    """A named rule grants reads of that name, and a list or watch only when it asks for that name."""
    api.client.create(CONFIG_MAPS, config_map("a"), api.namespace)
    api.client.create(CONFIG_MAPS, config_map("b"), api.namespace)
    grant(api, USER, rule("", "configmaps", "get", "list", "watch", names=("a",)))
    eventually(lambda: guest.get(CONFIG_MAPS, "a", api.namespace))
    only = Selector(fields="metadata.name=a")
    assert len(guest.list(CONFIG_MAPS, api.namespace, only).items) == 1
    guest.watch(CONFIG_MAPS, api.namespace, only, resource_version="0").close()
    with pytest.raises(Forbidden):
        guest.get(CONFIG_MAPS, "b", api.namespace)
    with pytest.raises(Forbidden):
        guest.list(CONFIG_MAPS, api.namespace)


def test_a_subresource_is_granted_by_itself(
    api: Api, guest: RestClient, eventually: Callable[[Callable[[], object]], None]
) -> None:
    """The right to a kind is none to its status."""
    api.client.create(CLAIMS, claim("a"), api.namespace)
    grant(api, USER, rule("", "persistentvolumeclaims", "*"))
    eventually(lambda: guest.get(CLAIMS, "a", api.namespace))
    bound = MergePatch({"status": {"phase": "Bound"}})
    with pytest.raises(Forbidden, match='cannot patch resource "persistentvolumeclaims/status"'):
        guest.patch(CLAIMS, "a", bound, api.namespace, "status")


@pytest.mark.usefixtures("widgets")
def test_a_cluster_role_is_bound_where_its_binding_is(
    api: Api, guest: RestClient, eventually: Callable[[Callable[[], object]], None]
) -> None:
    """A ClusterRole grants in one namespace by a RoleBinding, everywhere by a ClusterRoleBinding."""
    name = api.namespace
    rules = [rule("example.test", "*", "create", "list"), rule("", "nodes", "list")]
    role: Object = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": rules,
    }
    api.client.create(CLUSTER_ROLES, role)
    ref = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
    bind(api, USER, ref)
    eventually(lambda: guest.create(WIDGETS, widget("a"), api.namespace))
    for resource in (WIDGETS, NODES):
        with pytest.raises(Forbidden):
            guest.list(resource)
    binding: Object = {"metadata": {"name": name}, "roleRef": ref, "subjects": [USER]}
    api.client.create(CLUSTER_ROLE_BINDINGS, binding)
    try:
        eventually(lambda: guest.list(WIDGETS))
        guest.list(NODES)
    finally:
        api.client.delete(CLUSTER_ROLE_BINDINGS, name)
        api.client.delete(CLUSTER_ROLES, name)


def test_rights_come_before_existence(api: Api, guest: RestClient) -> None:
    """Who may not read is not told whether there is anything."""
    with pytest.raises(Forbidden):
        guest.get(CONFIG_MAPS, "missing", api.namespace)
    with pytest.raises(NotFound):
        api.client.get(CONFIG_MAPS, "missing", api.namespace)


def test_everybody_may_ask_what_they_may(
    api: Api, guest: RestClient, eventually: Callable[[Callable[[], object]], None]
) -> None:
    """A SelfSubjectAccessReview answers for the one who asks."""

    def allowed(client: RestClient, **attributes: str) -> bool:
        about = {"resourceAttributes": {"namespace": api.namespace, **attributes}}
        sent: Object = {"apiVersion": ACCESS_REVIEWS.api_version, "kind": ACCESS_REVIEWS.kind, "spec": about}
        return bool(dig(client.create(ACCESS_REVIEWS, sent), "status", "allowed"))

    assert allowed(api.client, verb="delete", resource="configmaps")
    assert not allowed(guest, verb="get", resource="configmaps")
    grant(
        api,
        USER,
        rule("", "configmaps", "get", names=("a",)),
        rule("example.test", "widgets/status", "patch"),
    )
    eventually(
        lambda: (
            guest.list(CONFIG_MAPS) if not allowed(guest, verb="get", resource="configmaps", name="a") else 0
        )
    )
    assert not allowed(guest, verb="get", resource="configmaps")
    assert allowed(guest, verb="patch", group="example.test", resource="widgets", subresource="status")
    assert not allowed(guest, verb="patch", group="example.test", resource="widgets")
