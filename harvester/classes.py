"""Storage classes of the host, and what a claim of each must look like. Pure.

The trap: Longhorn's `migratable` counts only with ReadWriteMany and Block. Without it ReadWriteMany means a
share over NFS, which cannot be Block; a claim that asks for both stays Pending for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harvester.kinds import DEFAULT_CLASS, LONGHORN, LVM, MIGRATABLE
from kube.objects import annotations_of, dig, name_of, text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kube.objects import Object

READ_WRITE_ONCE: Final = "ReadWriteOnce"
READ_WRITE_MANY: Final = "ReadWriteMany"


@dataclass(frozen=True, slots=True)
class HostClass:
    """A StorageClass of the host."""

    name: str
    provisioner: str
    waits_for_consumer: bool
    """A claim binds only once a pod uses it: for us, when it is plugged into a machine."""
    migratable: bool
    default: bool
    expandable: bool
    created: str
    """metadata.creationTimestamp, RFC 3339 in UTC: sorts as text."""

    @property
    def gives_raw_disks(self) -> bool:
        """Whether the provisioner is one of those that Harvester itself brings: they are used with Block."""
        return self.provisioner in (LONGHORN, LVM)

    @property
    def disk_access_mode(self) -> str:
        """The access mode of a claim of this class that becomes a disk of one machine.

        ReadWriteMany lets the machine migrate, so it is asked for wherever the class can give it with a raw
        disk; of a provisioner that we do not know that is assumed, as upstream always has.
        """
        only_one = self.provisioner == LVM or (self.provisioner == LONGHORN and not self.migratable)
        return READ_WRITE_ONCE if only_one else READ_WRITE_MANY


def parse_class(obj: Object) -> HostClass:
    """Read a storage.k8s.io/v1 StorageClass."""
    return HostClass(
        name=name_of(obj),
        provisioner=text(obj, "provisioner"),
        waits_for_consumer=text(obj, "volumeBindingMode") == "WaitForFirstConsumer",
        migratable=text(obj, "parameters", MIGRATABLE).lower() == "true",
        default=annotations_of(obj).get(DEFAULT_CLASS) == "true",
        expandable=dig(obj, "allowVolumeExpansion") is True,
        created=text(obj, "metadata", "creationTimestamp"),
    )


def default_of(classes: Iterable[HostClass]) -> HostClass | None:
    """Return the class that the host gives to a claim that names none: of several defaults the newest.

    As the API server's DefaultStorageClass admission does; at the same second the first by name.
    """
    by_name = sorted((each for each in classes if each.default), key=lambda each: each.name)
    return max(by_name, key=lambda each: each.created, default=None)
