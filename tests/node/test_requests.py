"""Mount flags, the publish context, and arguments."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from csi.deadline import Deadline
from csi.errors import InvalidArgument
from csi.model import AccessMode, Capability, NodeId, NodePublishRequest, StageRequest, VolumeId
from csi.node.filesystems import file_system
from csi.node.machine import linux_machine
from csi.node.mount_flags import bind_flags, check_flags, is_readonly, staging_flags
from csi.node.publish_context import Expected, read_context
from csi.node.service import Node

V = VolumeId("pvc-1")
WRITER = AccessMode.SINGLE_NODE_WRITER


def flags(*words: str, mode: AccessMode = WRITER) -> Capability:
    return Capability(mode, mount_flags=words)


def test_flags_of_the_two_mounts() -> None:
    """The first mount gets all flags; a bind gets only those that the kernel keeps for each mount."""
    wanted = flags("noatime", "data=journal", "discard")
    assert staging_flags(wanted) == {"noatime", "data=journal", "discard"}
    assert bind_flags(wanted, readonly=False) == {"noatime"}
    assert bind_flags(wanted, readonly=True) == {"noatime", "ro"}


def test_a_reader_reads() -> None:
    """A read-only mode or flag makes both mounts read-only."""
    for reader in (flags("ro"), flags(mode=AccessMode.SINGLE_NODE_READER_ONLY)):
        assert is_readonly(reader)
        assert "ro" in staging_flags(reader)
        assert "ro" in bind_flags(reader, readonly=False)


@pytest.mark.parametrize(
    ("capability", "readonly"),
    [
        (flags("rw"), True),
        (flags("noatime,rw"), True),
        (flags("rw", mode=AccessMode.SINGLE_NODE_READER_ONLY), False),
        (flags("bind"), False),
        (flags("noatime,remount"), False),
    ],
)
def test_contradicting_flags_are_refused(capability: Capability, readonly: bool) -> None:
    """`rw` on a read-only request, and flags that mount something else, are invalid."""
    with pytest.raises(InvalidArgument):
        check_flags(capability, readonly)


def test_file_systems() -> None:
    """No fs_type means ext4; another one is refused with what there is."""
    assert file_system("").name == file_system("ext4").name == "ext4"
    with pytest.raises(InvalidArgument, match="ext4"):
        file_system("ntfs")


def test_context_of_ours() -> None:
    """Our context says which disk, how large, and until when nothing on it is of worth."""
    context = {"kind": "disk", "identity": "x", "size": "7", "fresh-until": "2026-01-02T03:04:05Z"}
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert read_context(V, context) == Expected("x", 7, may_format=True, fresh_until=moment)


def test_context_of_upstream() -> None:
    """Without our kind the disk is found by the volume's id and never formatted."""
    assert read_context(V, {"identity": "other"}) == Expected("drive-ua-pvc-1")


@pytest.mark.parametrize("moment", ["", "soon", "2026-01-02T03:04:05", "2026-13-02T03:04:05Z"])
def test_a_time_that_cannot_be_read_permits_nothing(moment: str) -> None:
    """A malformed `fresh-until`, or one without a zone, is as if it were not there."""
    context = {"kind": "disk", "identity": "x", "fresh-until": moment}
    assert read_context(V, context).fresh_until is None


@pytest.mark.parametrize(
    "context",
    [{"kind": "nfs"}, {"kind": "disk"}, {"kind": "disk", "identity": "x", "size": "-1"}, {"kind": ""}],
)
def test_a_context_of_ours_that_cannot_be_used(context: dict[str, str]) -> None:
    """A context of ours must name a disk."""
    with pytest.raises(InvalidArgument):
        read_context(V, context)


@pytest.mark.parametrize("path", ["relative/path", "/a/../b", ""])
def test_paths_are_absolute(path: str) -> None:
    """No call works on a path that is relative or climbs."""
    node = Node(NodeId("n"), linux_machine(Path("/nonexistent")))
    capability, deadline = Capability(WRITER), Deadline(1)
    with pytest.raises(InvalidArgument):
        node.stage(StageRequest(V, path, capability, {}), deadline)
    with pytest.raises(InvalidArgument):
        node.unstage(V, path, deadline)
    with pytest.raises(InvalidArgument):
        node.publish(NodePublishRequest(V, "/st", path, capability, False, {}), deadline)
    with pytest.raises(InvalidArgument):
        node.unpublish(V, path, deadline)


def test_a_disk_is_on_one_node() -> None:
    """Multi-node modes are not served."""
    node = Node(NodeId("n"), linux_machine(Path("/nonexistent")))
    shared = Capability(AccessMode.MULTI_NODE_MULTI_WRITER)
    with pytest.raises(InvalidArgument, match="MULTI_NODE"):
        node.stage(StageRequest(V, "/st", shared, {}), Deadline(1))


def test_info() -> None:
    """The node's id is what it was given."""
    assert Node(NodeId("vm-a"), linux_machine(Path("/nonexistent"))).info().node == "vm-a"
