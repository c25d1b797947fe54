"""Storage classes of the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harvester.classes import default_of, parse_class
from harvester.kinds import LONGHORN

if TYPE_CHECKING:
    from kube.objects import Object


def storage_class(name: str, *, created: str = "2026-01-01T00:00:00Z", default: str = "true") -> Object:
    """Return a StorageClass as the API server gives it."""
    return {
        "metadata": {
            "name": name,
            "creationTimestamp": created,
            "annotations": {"storageclass.kubernetes.io/is-default-class": default},
        },
        "provisioner": LONGHORN,
        "parameters": {"migratable": "true"},
        "volumeBindingMode": "Immediate",
        "allowVolumeExpansion": True,
    }


def test_a_class_is_read() -> None:
    """The fields that decide what a claim looks like and whether it is waited for."""
    parsed = parse_class(storage_class("harvester-longhorn"))
    assert parsed.name == "harvester-longhorn"
    assert parsed.migratable
    assert parsed.default
    assert parsed.expandable
    assert not parsed.waits_for_consumer
    assert parse_class({"volumeBindingMode": "WaitForFirstConsumer"}).waits_for_consumer


def test_an_empty_class_is_read_without_complaint() -> None:
    """Missing and null maps read as empty."""
    parsed = parse_class({"metadata": {"name": "x", "annotations": None}, "parameters": None})
    assert not any((parsed.migratable, parsed.default, parsed.expandable, parsed.waits_for_consumer))


def test_of_several_defaults_the_newest_counts() -> None:
    """As the API server decides it; at the same second the first by name."""
    old = parse_class(storage_class("a"))
    new = parse_class(storage_class("c", created="2026-02-01T00:00:00Z"))
    twin = parse_class(storage_class("b", created="2026-02-01T00:00:00Z"))
    other = parse_class(storage_class("z", created="2026-03-01T00:00:00Z", default="false"))
    assert default_of([old, new, twin, other]) == twin
    assert default_of([other]) is None
