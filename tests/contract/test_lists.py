"""Lists: what selectors choose, and how a list is read page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from kube.client import EVERYTHING, Selector
from kube.errors import Expired, Invalid
from kube.objects import dig, name_of, text, version_of
from kube.resources import CLAIMS, CONFIG_MAPS, EVENTS, PODS

from .shapes import GADGETS, config_map, gadget, pod

if TYPE_CHECKING:
    from .conftest import Api


def names(api: Api, labels: str = "", fields: str = "") -> str:
    """Return the initials of the config maps that selectors choose; a real server may add one of its own."""
    chosen = api.client.list(CONFIG_MAPS, api.namespace, Selector(labels, fields)).items
    return "".join(name_of(each) for each in chosen if len(name_of(each)) == 1)


@pytest.fixture
def labelled(api: Api) -> Api:
    """Make config maps with labels, and one without."""
    for name, labels in {"a": {"x": "1"}, "b": {"x": "2", "y": "z"}, "c": {"y": ""}, "d": {}}.items():
        api.client.create(CONFIG_MAPS, config_map(name, labels=labels), api.namespace)
    return api


@pytest.mark.parametrize(
    ("labels", "chosen"),
    [
        ("", "abcd"),
        ("x=1", "a"),
        ("x==1", "a"),
        ("x!=1", "bcd"),
        ("x", "ab"),
        ("!x", "cd"),
        ("x in (1, 2)", "ab"),
        ("x in (2),y=z", "b"),
        ("x notin (1)", "bcd"),
        ("y=", "c"),
        ("x,y", "b"),
        (" x = 1 ", "a"),
        ("x=1,x=2", ""),
    ],
)
def test_a_label_selector_chooses(labelled: Api, labels: str, chosen: str) -> None:
    """Equality, sets and presence; a missing label is unequal to every value and in no set."""
    assert names(labelled, labels) == chosen


@pytest.mark.parametrize(
    ("fields", "chosen"),
    [
        ("metadata.name=a", "a"),
        ("metadata.name==a", "a"),
        ("metadata.name!=a", "bcd"),
        ("metadata.name=a,metadata.name=b", ""),
        ("metadata.namespace=elsewhere", ""),
        ("metadata.namespace!=elsewhere,metadata.name!=b", "acd"),
    ],
)
def test_a_field_selector_chooses(labelled: Api, fields: str, chosen: str) -> None:
    """Names and namespaces can be selected of every kind."""
    assert names(labelled, "", fields) == chosen


@pytest.mark.parametrize("labels", ["a===b", "a in", "a in b", "!", "a=b=c", ",", "x y"])
def test_a_label_selector_that_cannot_be_read_is_refused(api: Api, labels: str) -> None:
    """It is answered with 400, for a list and for a watch."""
    with pytest.raises(Invalid, match=r"unable to parse requirement|found '"):
        api.client.list(CONFIG_MAPS, api.namespace, Selector(labels))
    with pytest.raises(Invalid):
        api.client.watch(CONFIG_MAPS, api.namespace, Selector(labels), resource_version="1")


def test_other_fields_only_where_a_kind_has_them(api: Api) -> None:
    """Pods are selected by node, events by their object; an unknown field is refused by its name."""
    api.client.create(PODS, pod("a", nodeName="n1"), api.namespace)
    api.client.create(PODS, pod("b", nodeName="n2"), api.namespace)
    on_node = api.client.list(PODS, api.namespace, Selector(fields="spec.nodeName=n2"))
    assert [name_of(each) for each in on_node.items] == ["b"]
    involved = "involvedObject.name=a,involvedObject.kind=Pod,involvedObject.namespace!=x"
    assert api.client.list(EVENTS, api.namespace, Selector(fields=involved)).items == []
    with pytest.raises(Invalid, match=r"spec\.nodeName"):
        api.client.list(CLAIMS, api.namespace, Selector(fields="spec.nodeName=n2"))


def test_a_list_is_in_the_order_of_names_and_of_one_version(api: Api) -> None:
    """A list's version is at least that of its newest object."""
    for name in ("c", "a", "b"):
        newest = api.client.create(CONFIG_MAPS, config_map(name), api.namespace)
    page = api.client.list(CONFIG_MAPS, api.namespace, Selector(fields="metadata.name!=kube-root-ca.crt"))
    assert [name_of(each) for each in page.items] == ["a", "b", "c"]
    assert int(page.resource_version) >= int(version_of(newest))
    assert page.proceed == ""


def test_a_list_over_all_namespaces(api: Api) -> None:
    """Without a namespace in the path a list has the objects of all."""
    api.client.create(CONFIG_MAPS, config_map("a", labels={"run": api.namespace}), api.namespace)
    api.client.create(CONFIG_MAPS, config_map(api.namespace, labels={"run": api.namespace}), "default")
    found = api.client.list(CONFIG_MAPS, None, Selector(f"run={api.namespace}")).items
    assert [name_of(each) for each in found] == ["a", api.namespace]
    api.client.delete(CONFIG_MAPS, api.namespace, "default")


@pytest.mark.usefixtures("widgets")
def test_the_items_of_a_builtin_kind_leave_their_kind_to_the_list(api: Api) -> None:
    """The trap for a reader: kind and apiVersion are in the items of custom kinds only."""
    api.client.create(CONFIG_MAPS, config_map("a"), api.namespace)
    api.client.create(GADGETS, gadget("a"), api.namespace)
    builtin = api.send("GET", CONFIG_MAPS.path(api.namespace)).body
    custom = api.send("GET", GADGETS.path(api.namespace)).body
    assert (builtin["kind"], custom["kind"]) == ("ConfigMapList", "GadgetList")
    assert "kind" not in builtin["items"][0]
    assert custom["items"][0]["kind"] == "Gadget"


def test_the_pages_of_a_list_show_one_moment(api: Api) -> None:
    """What is written between two pages is not seen in the later one; all have the first one's version."""
    for name in "abcde":
        api.client.create(CONFIG_MAPS, config_map(name), api.namespace)
    first = api.client.list(CONFIG_MAPS, api.namespace, limit=2)
    api.client.delete(CONFIG_MAPS, "c", api.namespace)
    api.client.create(CONFIG_MAPS, config_map("cc"), api.namespace)
    api.client.create(CONFIG_MAPS, config_map("f"), api.namespace)
    seen, page = list(first.items), first
    while page.proceed:
        page = api.client.list(CONFIG_MAPS, api.namespace, limit=2, proceed=page.proceed)
        assert page.resource_version == first.resource_version
        assert len(page.items) <= 2
        seen += page.items
    assert [name_of(each) for each in seen if len(name_of(each)) < 3] == list("abcde")


def test_a_page_says_how_many_are_left(api: Api) -> None:
    """It is said of a whole list, but not of a selection, whose size nobody knows."""
    for name in "abc":
        api.client.create(CONFIG_MAPS, config_map(name, labels={"x": "y"}), api.namespace)
    path = CONFIG_MAPS.path(api.namespace)
    assert dig(api.send("GET", f"{path}?limit=1").body, "metadata", "remainingItemCount") == 2
    selected = api.send("GET", f"{path}?limit=1&labelSelector=x").body
    assert dig(selected, "metadata", "remainingItemCount") is None
    assert dig(selected, "metadata", "continue")


def test_a_list_that_takes_too_long_has_expired(api: Api) -> None:
    """When the version of the first page is forgotten, the next page is answered with 410."""
    for name in "abc":
        api.client.create(CONFIG_MAPS, config_map(name), api.namespace)
    first = api.client.list(CONFIG_MAPS, api.namespace, limit=1)
    newest = api.client.create(CONFIG_MAPS, config_map("d"), api.namespace)
    api.forget_before(version_of(newest))
    with pytest.raises(Expired, match="The provided continue parameter is too old") as caught:
        api.client.list(CONFIG_MAPS, api.namespace, limit=1, proceed=first.proceed)
    assert (caught.value.code, caught.value.reason) == (410, "Expired")


@pytest.mark.parametrize(
    ("query", "code"),
    [
        pytest.param("limit=x", 400, id="limit-is-a-number"),
        pytest.param("continue=bogus", 400, id="bad-token"),
        pytest.param("resourceVersion=x", 400, id="bad-version"),
        pytest.param("limit=1&resourceVersion=5&continue={token}", 400, id="version-with-token"),
    ],
)
def test_a_page_that_is_asked_for_wrongly(api: Api, query: str, code: int) -> None:
    """A malformed limit, token or version is refused."""
    for name in "ab":
        api.client.create(CONFIG_MAPS, config_map(name), api.namespace)
    token = quote(api.client.list(CONFIG_MAPS, api.namespace, EVERYTHING, limit=1).proceed)
    path = CONFIG_MAPS.path(api.namespace)
    assert api.send("GET", f"{path}?{query.format(token=token)}").code == code


def test_a_version_from_the_future_is_refused(api: Api) -> None:
    """A list that must be newer than what there is ends with 504, after the server's patience."""
    answer = api.send("GET", f"{CONFIG_MAPS.path(api.namespace)}?resourceVersion=999999999")
    assert answer.code == 504
    assert text(answer.body, "message").startswith("Timeout: Too large resource version: 999999999")


def test_a_list_as_of_an_exact_version(api: Api) -> None:
    """A list can be asked for as it was."""
    first = api.client.create(CONFIG_MAPS, config_map("a"), api.namespace)
    api.client.create(CONFIG_MAPS, config_map("b"), api.namespace)
    query = f"resourceVersionMatch=Exact&resourceVersion={version_of(first)}&fieldSelector=metadata.name!=x"
    then = api.send("GET", f"{CONFIG_MAPS.path(api.namespace)}?{query}").body
    assert "a" in [name_of(each) for each in then["items"]]
    assert "b" not in [name_of(each) for each in then["items"]]
