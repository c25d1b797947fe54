"""What publishing means for what is mounted already."""

from __future__ import annotations

import pytest

from csi.errors import AlreadyExists, CsiError, InUse
from csi.model import AccessMode
from csi.node.publish_plan import (
    Bind,
    NodePlan,
    Published,
    PublishPlan,
    Restage,
    Restrict,
    SeenMounts,
    SeenNode,
    Target,
    plan_publish,
    plan_publish_node,
)
from csi.node.stage_plan import ClearDead, Death
from tests.node.shapes import DISK, OTHER, mount

DEAD = Death("its device is gone", gone=True)
RW = Target("/t", frozenset(), AccessMode.SINGLE_NODE_WRITER)
RO = Target("/t", frozenset({"ro"}), AccessMode.SINGLE_NODE_WRITER)
NOEXEC = Target("/t", frozenset({"noexec"}), AccessMode.SINGLE_NODE_WRITER)
ALONE = Target("/t", frozenset(), AccessMode.SINGLE_NODE_SINGLE_WRITER)
STAGED = (mount("/st", options="rw,relatime"),)


def at_target(options: str = "rw,relatime") -> SeenMounts:
    return SeenMounts(DISK, here=(mount("/t", options=options),), staged=STAGED)


@pytest.mark.parametrize(
    ("target", "seen", "expected"),
    [
        pytest.param(RW, SeenMounts(DISK, staged=STAGED), Bind(), id="staged"),
        pytest.param(RW, SeenMounts(DISK, staged=STAGED, others=("/t2",)), Bind(), id="a-second-pod"),
        pytest.param(RW, at_target(), Published(), id="published"),
        pytest.param(
            RW, SeenMounts(DISK, here=(mount("/t"),)), Published(), id="upstreams-way-without-stage"
        ),
        pytest.param(ALONE, SeenMounts(DISK, here=(mount("/t"),), staged=STAGED), Published(), id="alone"),
        pytest.param(RO, at_target("ro,relatime"), Published(), id="published-read-only"),
        pytest.param(
            RO,
            at_target("rw,nosuid,relatime"),
            Restrict(frozenset({"ro", "nosuid"})),
            id="cut-off-after-the-bind",
        ),
        pytest.param(NOEXEC, at_target(), Restrict(frozenset({"noexec"})), id="flags-of-the-class"),
        pytest.param(RW, SeenMounts(DISK), Restage(), id="after-a-reboot"),
        pytest.param(
            RW, SeenMounts(DISK, staged=STAGED, staging_death=DEAD), Restage(), id="staging-mount-dead"
        ),
        pytest.param(
            RW, SeenMounts(DISK, (mount("/t", OTHER),), STAGED, death=DEAD), ClearDead(DEAD), id="target-dead"
        ),
    ],
)
def test_plan(target: Target, seen: SeenMounts, expected: PublishPlan) -> None:
    """The next step follows from what is mounted at both paths."""
    assert plan_publish(target, "/st", seen) == expected


@pytest.mark.parametrize(
    ("target", "seen", "error", "named"),
    [
        pytest.param(RW, SeenMounts(DISK, staging_path_exists=False), InUse, "not staged", id="never-staged"),
        pytest.param(
            RW, SeenMounts(DISK, staged=(mount("/st", OTHER),)), InUse, "not the volume", id="another-staged"
        ),
        pytest.param(RW, SeenMounts(None, staged=STAGED), InUse, "not the volume", id="no-such-disk"),
        pytest.param(
            RW,
            SeenMounts(DISK, staged=(mount("/st", options="ro"),)),
            InUse,
            "read-only",
            id="staged-read-only",
        ),
        pytest.param(
            ALONE, SeenMounts(DISK, staged=STAGED, others=("/t2",)), InUse, "/t2", id="single-writer"
        ),
        pytest.param(RW, at_target("ro"), AlreadyExists, "read-only", id="published-read-only"),
        pytest.param(
            RW,
            SeenMounts(DISK, (mount("/t", OTHER),), STAGED),
            AlreadyExists,
            "8:32",
            id="another-at-the-target",
        ),
        pytest.param(
            RW,
            SeenMounts(DISK, (mount("/t", root="/s"),), STAGED),
            AlreadyExists,
            "another",
            id="a-part-of-it",
        ),
    ],
)
def test_refusals(target: Target, seen: SeenMounts, error: type[CsiError], named: str) -> None:
    """What contradicts the request is refused with what was found."""
    with pytest.raises(error, match=named):
        plan_publish(target, "/st", seen)


NODE_HERE = (mount("/t", root="/sdb", fs_type="devtmpfs"),)


@pytest.mark.parametrize(
    ("target", "seen", "expected"),
    [
        pytest.param(RW, SeenNode(DISK), Bind(), id="nothing-there"),
        pytest.param(RW, SeenNode(DISK, NODE_HERE, DISK.number), Published(), id="not-bound-twice"),
        pytest.param(RO, SeenNode(DISK, NODE_HERE, DISK.number), Restrict(frozenset({"ro"})), id="cut-off"),
        pytest.param(RW, SeenNode(DISK, NODE_HERE, OTHER, death=DEAD), ClearDead(DEAD), id="plugged-anew"),
    ],
)
def test_plan_node(target: Target, seen: SeenNode, expected: NodePlan) -> None:
    """A raw block target is known by the device behind it, never by being a mount."""
    assert plan_publish_node(target, seen) == expected


@pytest.mark.parametrize(
    ("target", "seen", "error"),
    [
        pytest.param(RW, SeenNode(DISK, NODE_HERE, OTHER), AlreadyExists, id="another-disk"),
        pytest.param(RW, SeenNode(DISK, (mount("/t"),), None), AlreadyExists, id="no-device-at-all"),
        pytest.param(ALONE, SeenNode(DISK, others=("/t2",)), InUse, id="single-writer"),
    ],
)
def test_refusals_node(target: Target, seen: SeenNode, error: type[CsiError]) -> None:
    """Something else at a raw block target is never covered."""
    with pytest.raises(error):
        plan_publish_node(target, seen)
