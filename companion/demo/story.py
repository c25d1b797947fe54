"""What the demo shows, chapter by chapter. Each does, looks for itself, and tells; a look that fails ends it.

The look is never the driver's answer: it is the host's objects, the kernel's disks and the file's bytes.
"""

from __future__ import annotations

import hashlib
import os
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from companion.demo.guest import CallFailed

if TYPE_CHECKING:
    from companion.demo.guest import Claim
    from companion.demo.stage import GuestNode, Stage

LETTER = b"written on the first node\n" * 4096
PAYLOAD = os.urandom(1 << 20)
BLOCK_BYTES = 1 << 20
HOST_TIDIES_WITHIN = 5.0
"""Seconds for the host to remove what was deleted: a claim ends after its last pod."""


class Untrue(Exception):
    """Something that the demo says is not so."""


@dataclass(frozen=True, slots=True)
class Told:
    """One line for the reader: what happened, and the evidence."""

    what: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Chapter:
    """A titled part of the story. `kernel` chapters need root."""

    title: str
    tell: Callable[[Stage], Iterator[Told]]
    kernel: bool


Telling: TypeAlias = Iterator[Told]


def hold(truth: bool, otherwise: str) -> None:
    """Raise Untrue when `truth` is not."""
    if not truth:
        raise Untrue(otherwise)


def attach(stage: Stage, claim: Claim, node: GuestNode) -> tuple[dict[str, str], Told]:
    """Attach and look at the machine's status and its kernel's disks."""
    before = set(node.disks())
    context = stage.controller.attach(claim, node.name)
    phase, target = stage.host.disk_state(node.name, claim.volume)
    appeared = sorted(set(node.disks()) - before)
    hold(phase == "Ready" and bool(target), f"the host shows the disk as {phase or 'absent'} in {node.name}")
    hold(len(appeared) == 1, f"the kernel of {node.name} shows {appeared} new disks, one was to come")
    identity = context.get("identity", "")
    page = (node.root / "sys" / "block" / appeared[0] / "device" / "vpd_pg83").read_bytes()
    hold(identity.encode() in page, f"the disk {appeared[0]} does not carry the identity {identity}")
    return context, Told(f"hot-plugged into {node.name}", f"disk {appeared[0]}, identity {identity}")


def first_volume(stage: Stage) -> Telling:
    """An app team's claim, from nothing to a file, to the other node, and the file still there."""
    first, second = stage.nodes
    claim = stage.controller.create("data")
    phase = stage.host.claim_phase(claim.volume)
    hold(phase == "Bound", f"the host's claim is {phase}")
    yield Told("PVC `data`, 1 GiB, is a claim on the host", f"claim {claim.volume} {phase}")
    context, told = attach(stage, claim, first)
    yield told
    mount = first.kubelet.mount(claim, context)
    kind = file_system(mount)
    hold(kind == "ext4", f"{mount} is {kind or 'not a mount'}")
    yield Told("proved blank, formatted and mounted", f"{kind} at the pod's path on {first.name}")
    digest = write(mount / "letter", LETTER)
    yield Told("the pod writes a file", f"{len(LETTER)} bytes, sha256 {digest[:16]}…")
    first.kubelet.unmount(claim)
    stage.controller.detach(claim, first.name)
    hold(stage.host.disk_state(first.name, claim.volume) == ("", ""), f"{first.name} still shows the disk")
    yield Told(f"unplugged from {first.name}", "no layer of the host shows it there")
    context, told = attach(stage, claim, second)
    yield told
    mount = second.kubelet.mount(claim, context)
    moved = hashlib.sha256((mount / "letter").read_bytes()).hexdigest()
    hold(moved == digest, f"the file's digest is {moved} on the second node")
    yield Told("the file is intact on the second node", f"sha256 {moved[:16]}…")
    second.kubelet.unmount(claim)
    stage.controller.detach(claim, second.name)
    stage.controller.delete(claim)


def claim_and_disk(stage: Stage) -> Telling:
    """The part of the first chapter that needs no root: up to the disk in the VM."""
    node = stage.nodes[0]
    claim = stage.controller.create("data")
    phase = stage.host.claim_phase(claim.volume)
    hold(phase == "Bound", f"the host's claim is {phase}")
    yield Told("PVC `data`, 1 GiB, is a claim on the host", f"claim {claim.volume} {phase}")
    _, told = attach(stage, claim, node)
    yield told
    stage.controller.detach(claim, node.name)
    hold(stage.host.disk_state(node.name, claim.volume) == ("", ""), f"{node.name} still shows the disk")
    yield Told(f"unplugged from {node.name}", "no layer of the host shows it there")
    stage.controller.delete(claim)


def raw_block(stage: Stage) -> Telling:
    """A raw block volume: the pod sees a device, and what it writes comes back from the disk."""
    node = stage.nodes[1]
    claim = stage.controller.create("raw", block=True)
    context, told = attach(stage, claim, node)
    yield told
    device = node.kubelet.mount(claim, context)
    hold(device.is_block_device(), f"{device} is no block device")
    fd = os.open(device, os.O_WRONLY | os.O_DSYNC)
    with os.fdopen(fd, "wb", buffering=0) as disk:
        disk.write(PAYLOAD)
    with device.open("rb") as disk:
        hold(disk.read(BLOCK_BYTES) == PAYLOAD, "the device does not give back what was written")
    yield Told("the pod's path is a block device", "1 MiB written and read back, no file system made")
    node.kubelet.unmount(claim)
    stage.controller.detach(claim, node.name)
    stage.controller.delete(claim)


def missing_class(stage: Stage) -> Telling:
    """A refusal: the storage class that the claim names does not exist on the host."""
    try:
        stage.controller.create("gold", parameters={"hostStorageClass": "gold"})
    except CallFailed as refusal:
        hold(refusal.code == "INVALID_ARGUMENT" and "gold" in refusal.words, str(refusal))
        yield Told("refused: a host class that does not exist", f"{refusal.code}: {refusal.words}")
        return
    raise Untrue("a claim with the host class `gold` was made; there is no such class")


def foreign_table(stage: Stage) -> Telling:
    """A refusal: the disk carries somebody's partition table, and is left as it is."""
    node = stage.nodes[0]
    claim = stage.controller.create("foreign")
    before = set(node.disks())
    context, _ = attach(stage, claim, node)
    (name,) = set(node.disks()) - before
    device = node.root / "dev" / name
    partition(device)
    digest = sha256_of(device)
    try:
        node.kubelet.mount(claim, context)
    except CallFailed as refusal:
        hold(refusal.code == "FAILED_PRECONDITION", str(refusal))
        hold(sha256_of(device) == digest, "the foreign disk was changed")
        yield Told("refused: a disk with a foreign partition table", f"{refusal.code}: {refusal.words}")
        yield Told("the foreign disk is untouched", f"sha256 {digest[:16]}… before and after")
    else:
        raise Untrue("a disk with a foreign partition table was mounted")
    node.kubelet.unmount(claim)
    stage.controller.detach(claim, node.name)
    stage.controller.delete(claim)


def nothing_left(stage: Stage) -> Telling:
    """Everything is deleted, and the host is as it was."""
    ends = time.monotonic() + HOST_TIDIES_WITHIN
    while (left := stage.host.objects() - stage.before) and time.monotonic() < ends:
        time.sleep(0.1)
    hold(not left, f"left on the host: {', '.join(sorted(left))}")
    yield Told(
        "all deleted, nothing left on the host", "no claim, volume, attachment or pod; templates clean"
    )


STORY = (
    Chapter("One PVC, through two nodes", first_volume, kernel=True),
    Chapter("A raw block volume", raw_block, kernel=True),
    Chapter("Two refusals: no such class", missing_class, kernel=False),
    Chapter("Two refusals: somebody's disk", foreign_table, kernel=True),
    Chapter("The end", nothing_left, kernel=False),
)
WITHOUT_ROOT = (
    Chapter("One PVC, up to the disk in the VM", claim_and_disk, kernel=False),
    *(chapter for chapter in STORY if not chapter.kernel),
)


def write(path: Path, content: bytes) -> str:
    """Write the file durably; return its digest."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return hashlib.sha256(content).hexdigest()


def file_system(path: Path) -> str:
    """Return the type of the file system mounted at `path`, or ""."""
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        fields = line.split()
        if fields[1] == str(path):
            return fields[2]
    return ""


def partition(device: Path) -> None:
    """Write a DOS partition table with one Linux partition, as an installer on another machine would have."""
    entry = struct.pack("<B3sB3sII", 0x80, b"\x20\x21\x00", 0x83, b"\xfe\xff\xff", 2048, 16384)
    with device.open("r+b") as disk:
        disk.write(bytes(446) + entry + bytes(3 * 16) + b"\x55\xaa")
        disk.flush()
        os.fsync(disk.fileno())


def sha256_of(device: Path) -> str:
    """Return the digest of the first and last 8 MiB of a disk."""
    digest = hashlib.sha256()
    with device.open("rb") as disk:
        digest.update(disk.read(8 << 20))
        disk.seek(-(8 << 20), os.SEEK_END)
        digest.update(disk.read())
    return digest.hexdigest()
