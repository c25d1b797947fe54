"""May a disk be formatted, may it be mounted, or must it be left alone? Pure.

The trap: "blkid found nothing" is not "blank". It says the same of random bytes, of a raw volume in use by a
database, and of a disk whose end cannot be read. Formatting needs a positive proof, and there are just three:
both ends are zero; our own mark says that we began to format it and nobody has mounted it since; or the disk
is so fresh that nobody can have written to it yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from csi.errors import InUse

UNTOUCHED: Final = (
    "it is left untouched. If what is on it is needed, use it where it was made; else delete the PVC and "
    "make a new one"
)


@dataclass(frozen=True, slots=True)
class Content:
    """What one look at a disk found; both ends were read without an error."""

    signatures: tuple[str, ...] = ()
    """File systems, partition tables, LVM, RAID, LUKS, swap ... as blkid names them."""
    ambivalent: bool = False
    """blkid found several signatures that exclude each other."""
    zero: bool = False
    """First and last MiB hold nothing but zeros."""
    marked: bool = False
    """Our mark of an unfinished format of this very volume is there."""
    never_mounted: bool = False
    """The wanted file system, if that is what is there, was never mounted writable."""
    fingerprint: str = ""
    """Digest of what was looked at, to see that nothing was written between this look and a format."""


@dataclass(frozen=True, slots=True)
class Use:
    """The wanted file system is there: mount it."""


@dataclass(frozen=True, slots=True)
class Make:
    """Nothing of worth is there, for the reason given: make the file system."""

    proof: str


ContentPlan: TypeAlias = Use | Make


@dataclass(frozen=True, slots=True)
class Permission:
    """What the request and the controller allow."""

    wanted: str
    """File system name."""
    may_format: bool
    fresh: bool = False
    readonly: bool = False


def plan_content(seen: Content, permission: Permission) -> ContentPlan:
    """Decide; raises InUse with what was found when the disk must be left as it is."""
    if seen.ambivalent:
        raise InUse(f"the disk carries several signatures that exclude each other; {UNTOUCHED}")
    if seen.signatures not in ((), (permission.wanted,)):
        found = " and ".join(seen.signatures)
        raise InUse(f"the disk carries {found}, and {permission.wanted} is asked for; {UNTOUCHED}")
    if seen.signatures and not (seen.marked and seen.never_mounted):
        return Use()
    proof = _proof(seen, permission)
    _refuse_without_permission(permission)
    return Make(proof)


def _proof(seen: Content, permission: Permission) -> str:
    if seen.marked:
        return "unfinished"
    if seen.zero:
        return "blank"
    if permission.fresh:
        return "fresh"
    raise InUse(
        f"the disk holds data without a known signature (a raw block volume? an encrypted disk?); {UNTOUCHED}"
    )


def _refuse_without_permission(permission: Permission) -> None:
    if permission.readonly:
        raise InUse("the disk has no file system, and a read-only volume is never formatted")
    if not permission.may_format:
        raise InUse(
            "the disk has no file system, and the driver that attached it does not say whether it may be "
            "formatted; detach it and attach it again (move the pod to another node, or restart it)"
        )
