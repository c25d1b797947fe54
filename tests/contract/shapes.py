"""Objects that the contract tests write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kube.resources import Resource

if TYPE_CHECKING:
    from kube.objects import Json, Object

WIDGETS = Resource("example.test", "v1", "widgets", "Widget")
"""A custom kind with a status subresource and a schema."""
GADGETS = Resource("example.test", "v1", "gadgets", "Gadget")
"""One without either: whatever is sent is kept."""


def claim(name: str, **metadata: Json) -> Object:
    """Return a claim."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, **metadata},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }


def config_map(name: str, data: Object | None = None, **metadata: Json) -> Object:
    """Return a config map."""
    body: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}
    return {**body, "data": data} if data else body


def pod(name: str, **spec: Json) -> Object:
    """Return a pod; without a node nothing has to stop it."""
    container = {"name": "main", "image": "none"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], **spec},
    }


def widget(name: str, size: Json = 1, **metadata: Json) -> Object:
    """Return a widget."""
    return {
        "apiVersion": WIDGETS.api_version,
        "kind": WIDGETS.kind,
        "metadata": {"name": name, **metadata},
        "spec": {"size": size},
    }


def gadget(name: str, **fields: Json) -> Object:
    """Return a gadget."""
    return {
        "apiVersion": GADGETS.api_version,
        "kind": GADGETS.kind,
        "metadata": {"name": name},
        **fields,
    }


def definition(resource: Resource, *versions: Object) -> Object:
    """Return the definition of a custom kind."""
    names = {
        "plural": resource.plural,
        "singular": resource.kind.lower(),
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.qualified},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": names,
            "versions": list(versions),
        },
    }


def served(name: str, schema: Object, *, storage: bool = True, status: bool = False) -> Object:
    """Return one version of a definition."""
    version = {"name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": schema}}
    return {**version, "subresources": {"status": {}}} if status else version


FREE: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
WIDGET_SCHEMA: Object = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer"},
                "mode": {"type": "string", "enum": ["fast", "slow"]},
                "parts": {
                    "type": "array",
                    "maxItems": 2,
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}},
                    },
                },
                "tags": {"type": "object", "additionalProperties": {"type": "string"}},
                "free": FREE,
            },
        },
        "status": FREE,
    },
}
DEFINITIONS = (
    definition(
        WIDGETS, served("v1", WIDGET_SCHEMA, status=True), served("v1beta1", WIDGET_SCHEMA, storage=False)
    ),
    definition(GADGETS, served("v1", FREE)),
)
