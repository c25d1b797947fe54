"""Which kinds the server knows: the built-in ones, and those that CustomResourceDefinitions add.

The trap: what a kind does with its status, its generation and unknown fields differs from kind to kind, and
clients depend on it. The built-in ones' rules are those of kube-apiserver 1.36.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kube import resources as kube
from kube.objects import items, mapping, strings, text
from kube.resources import Resource
from sim.apiserver.selectors import NAME, NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kube.objects import Object

STATUS: Final = "status"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind in one version, and how its objects behave."""

    resource: Resource
    subresources: frozenset[str] = frozenset()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    counts_generations: bool = False
    """Whether metadata.generation counts the changes outside of metadata and status."""
    registers_status: bool = False
    """Whether a create may bring a status, though there is a status subresource: a Node's may."""
    custom: bool = False
    schema: Object = field(default_factory=dict)
    fields: frozenset[str] = frozenset()
    """What a field selector may name besides the name and the namespace."""

    @property
    def place(self) -> str:
        """Where the store keeps the objects: versions of one kind share them."""
        return self.resource.qualified

    @property
    def selectable(self) -> frozenset[str]:
        """All that a field selector may name."""
        return self.fields | ({NAME, NAMESPACE} if self.resource.namespaced else {NAME})

    def whole(self, obj: Object) -> Object:
        """Return a stored object with its kind and this version."""
        return {"apiVersion": self.resource.api_version, "kind": self.resource.kind, **obj}

    def wire(self, body: bytes) -> bytes:
        """Return the JSON of a stored object with its kind and this version."""
        head = f'{{"kind":"{self.resource.kind}","apiVersion":"{self.resource.api_version}",'
        return head.encode() + body[1:]


_STATUS: Final = frozenset({STATUS})
_INVOLVED: Final = frozenset(
    {"reason", "type", *(f"involvedObject.{part}" for part in ("kind", "namespace", "name", "uid"))}
)
BUILT_IN: Final = (
    Kind(kube.CLAIMS, _STATUS, ("pvc",)),
    Kind(kube.VOLUMES, _STATUS, ("pv",)),
    Kind(
        kube.PODS,
        _STATUS,
        ("po",),
        ("all",),
        counts_generations=True,
        fields=frozenset({"spec.nodeName", "status.phase"}),
    ),
    Kind(kube.NAMESPACES, frozenset({STATUS, "finalize"}), ("ns",), fields=frozenset({"status.phase"})),
    Kind(kube.NODES, _STATUS, ("no",), registers_status=True, fields=frozenset({"spec.unschedulable"})),
    Kind(kube.EVENTS, short_names=("ev",), fields=_INVOLVED),
    Kind(kube.CONFIG_MAPS, short_names=("cm",)),
    Kind(kube.SECRETS, fields=frozenset({"type"})),
    Kind(kube.SERVICES, _STATUS, ("svc",), ("all",)),
    Kind(kube.SERVICE_ACCOUNTS, short_names=("sa",)),
    Kind(kube.STORAGE_CLASSES, short_names=("sc",)),
    Kind(kube.VOLUME_ATTACHMENTS, _STATUS),
    Kind(kube.CSI_NODES),
    Kind(kube.LEASES),
    Kind(kube.ROLES),
    Kind(kube.ROLE_BINDINGS),
    Kind(kube.CLUSTER_ROLES),
    Kind(kube.CLUSTER_ROLE_BINDINGS),
    Kind(kube.CRDS, _STATUS, ("crd", "crds"), counts_generations=True),
    Kind(kube.ACCESS_REVIEWS),
)


class Kinds:
    """All kinds that are known now. Reads need no lock: a new definition replaces the whole table."""

    def __init__(self) -> None:
        self._built_in = {_path(kind): kind for kind in BUILT_IN}
        self._all: Mapping[tuple[str, str, str], Kind] = self._built_in

    def define(self, definitions: Iterable[Object]) -> None:
        """Let the custom kinds be those of these CustomResourceDefinitions."""
        custom = (kind for definition in definitions for kind in parse_definition(definition))
        self._all = {**self._built_in, **{_path(kind): kind for kind in custom}}

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        """Return the kind that a path names."""
        return self._all.get((group, version, plural))

    def __iter__(self) -> Iterator[Kind]:
        """Iterate over all kinds in all their versions, the built-in ones first."""
        return iter(self._all.values())


def parse_definition(definition: Object) -> Iterator[Kind]:
    """Yield the kinds, one for each served version, that a CustomResourceDefinition defines."""
    spec = mapping(definition, "spec")
    names = mapping(spec, "names")
    for version in items(spec, "versions"):
        if version.get("served"):
            yield Kind(
                Resource(
                    group=text(spec, "group"),
                    version=text(version, "name"),
                    plural=text(names, "plural"),
                    kind=text(names, "kind"),
                    namespaced=text(spec, "scope") == "Namespaced",
                ),
                subresources=_STATUS if STATUS in mapping(version, "subresources") else frozenset(),
                short_names=strings(names, "shortNames"),
                categories=strings(names, "categories"),
                counts_generations=True,
                custom=True,
                schema=mapping(version, "schema", "openAPIV3Schema"),
            )


def _path(kind: Kind) -> tuple[str, str, str]:
    return kind.resource.group, kind.resource.version, kind.resource.plural
