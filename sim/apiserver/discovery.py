"""What the server says about itself: version, groups, kinds, and as much OpenAPI as kubectl needs. Pure.

The trap: kubectl checks objects itself unless OpenAPI says that the server does (`fieldValidation`), and a
schema in which a kind is missing makes it refuse that kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube.resources import ACCESS_REVIEWS
from sim.apiserver.failures import NoSuchPath

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kube.objects import Object
    from sim.apiserver.kinds import Kind

VERSION: Final = {"major": "1", "minor": "36", "gitVersion": "v1.36.3+simulated", "platform": "linux/amd64"}
HEALTH: Final = frozenset({"/healthz", "/livez", "/readyz"})
_VERBS: Final = ["create", "delete", "get", "list", "patch", "update", "watch"]
_PATCHES: Final = ("application/json-patch+json", "application/merge-patch+json")


def describe(path: str, kinds: Iterable[Kind]) -> Object:
    """Return the document at a path; raises NoSuchPath."""
    if page := _PAGES.get(path.rstrip("/") or "/"):
        return page(kinds)
    versions = _versions(kinds)
    match path.strip("/").split("/"):
        case ["apis", group] if any(group == each for each, _ in versions):
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, versions)}
        case ["api", version] if ("", version) in versions:
            return _resources(version, versions["", version])
        case ["apis", group, version] if (group, version) in versions:
            return _resources(f"{group}/{version}", versions[group, version])
        case ["openapi", "v3", "api", version] if ("", version) in versions:
            return _openapi(versions["", version])
        case ["openapi", "v3", "apis", group, version] if (group, version) in versions:
            return _openapi(versions[group, version])
    raise NoSuchPath


def _versions(kinds: Iterable[Kind]) -> dict[tuple[str, str], list[Kind]]:
    """Return the kinds by group and version."""
    versions: dict[tuple[str, str], list[Kind]] = {}
    for kind in kinds:
        versions.setdefault((kind.resource.group, kind.resource.version), []).append(kind)
    return versions


def _group(group: str, versions: Iterable[tuple[str, str]]) -> Object:
    served = [
        {"groupVersion": f"{each}/{version}", "version": version}
        for each, version in versions
        if each == group
    ]
    return {"name": group, "versions": served, "preferredVersion": served[0]}


def _groups(kinds: Iterable[Kind]) -> Object:
    versions = _versions(kinds)
    names = dict.fromkeys(group for group, _ in versions if group)
    groups = [_group(name, versions) for name in names]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def _resources(group_version: str, kinds: Iterable[Kind]) -> Object:
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": [resource for kind in kinds for resource in _resource(kind)],
    }


def _resource(kind: Kind) -> list[Object]:
    resource = kind.resource
    common = {"namespaced": resource.namespaced, "kind": resource.kind}
    main = {"name": resource.plural, "singularName": resource.kind.lower(), **common}
    main["verbs"] = ["create"] if resource == ACCESS_REVIEWS else _VERBS
    extras = {"shortNames": list(kind.short_names), "categories": list(kind.categories)}
    main |= {key: value for key, value in extras.items() if value}
    parts = [
        {
            "name": f"{resource.plural}/{part}",
            "singularName": "",
            **common,
            "verbs": ["get", "patch", "update"],
        }
        for part in sorted(kind.subresources)
    ]
    return [main, *parts]


def _openapi_index(kinds: Iterable[Kind]) -> Object:
    paths = (f"apis/{group}/{version}" if group else f"api/{version}" for group, version in _versions(kinds))
    return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}"} for path in paths}}


def _openapi(kinds: Iterable[Kind]) -> Object:
    """Say of each kind only that it exists, how it is patched, and that the server checks its fields."""
    checked = [{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}]
    paths, schemas = {}, {}
    for kind in kinds:
        resource = kind.resource
        about = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        patch = {
            "x-kubernetes-action": "patch",
            "x-kubernetes-group-version-kind": about,
            "parameters": checked,
            "requestBody": {"content": {form: {} for form in _PATCHES}},
        }
        paths[resource.path("{namespace}", "{name}")] = {"patch": patch}
        schemas[f"{resource.group or 'core'}.{resource.version}.{resource.kind}"] = {
            "type": "object",
            "x-kubernetes-group-version-kind": [about],
        }
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": VERSION["gitVersion"]},
        "paths": paths,
        "components": {"schemas": schemas},
    }


_PAGES: Final[Mapping[str, Callable[[Iterable[Kind]], Object]]] = {
    "/version": lambda _: dict(VERSION),
    "/api": lambda _: {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": _groups,
    "/openapi/v3": _openapi_index,
}
