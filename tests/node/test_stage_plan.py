"""What staging means for what is mounted already."""

from __future__ import annotations

from dataclasses import replace

import pytest

from csi.errors import AlreadyExists, CsiError, InUse
from csi.node.stage_plan import (
    ClearDead,
    Death,
    Join,
    Prepare,
    Seen,
    Staged,
    StagePlan,
    Wish,
    plan_stage,
    refuse_published,
)
from tests.node.shapes import DISK, OTHER, TMPFS, mount

EXT4 = Wish("/st", "ext4")
EXT4_RO = Wish("/st", "ext4", readonly=True)
BLOCK = Wish("/st", "")
NOTHING = Seen(DISK)
DEAD = Death("its device is gone", gone=True)


@pytest.mark.parametrize(
    ("wish", "seen", "expected"),
    [
        pytest.param(EXT4, NOTHING, Prepare(), id="nothing-there"),
        pytest.param(EXT4, Seen(DISK, (mount("/st"),)), Staged(), id="staged"),
        pytest.param(EXT4_RO, Seen(DISK, (mount("/st", options="ro"),)), Staged(), id="staged-read-only"),
        pytest.param(
            EXT4, Seen(DISK, (mount("/st", OTHER), mount("/st"))), Staged(), id="the-top-of-a-stack-counts"
        ),
        pytest.param(EXT4, Seen(DISK, (mount("/st"),), death=DEAD), ClearDead(DEAD), id="a-dead-mount-goes"),
        pytest.param(EXT4, Seen(DISK, elsewhere=(mount("/target"),)), Join(), id="mounted-at-a-target-only"),
        pytest.param(BLOCK, NOTHING, Staged(), id="block-is-only-found"),
        pytest.param(BLOCK, Seen(DISK, raw_targets=("/t",)), Staged(), id="block-in-use"),
        pytest.param(BLOCK, Seen(DISK, (mount("/st"),), death=DEAD), ClearDead(DEAD), id="block-dead-mount"),
    ],
)
def test_plan(wish: Wish, seen: Seen, expected: StagePlan) -> None:
    """The next step follows from what is mounted and from what is wanted."""
    assert plan_stage(wish, seen) == expected


@pytest.mark.parametrize(
    ("wish", "seen", "error", "named"),
    [
        pytest.param(EXT4, Seen(DISK, (mount("/st", OTHER),)), AlreadyExists, "8:32", id="another-disk"),
        pytest.param(EXT4, Seen(DISK, (mount("/st", TMPFS),)), AlreadyExists, "0:40", id="no-disk-at-all"),
        pytest.param(EXT4, Seen(DISK, (mount("/st", root="/sub"),)), AlreadyExists, "another", id="a-part"),
        pytest.param(
            EXT4, Seen(DISK, (mount("/st", fs_type="xfs"),)), AlreadyExists, "xfs", id="another-file-system"
        ),
        pytest.param(
            EXT4, Seen(DISK, (mount("/st", options="ro"),)), AlreadyExists, "read-only", id="not-writable"
        ),
        pytest.param(EXT4_RO, Seen(DISK, (mount("/st"),)), AlreadyExists, "writable", id="not-read-only"),
        pytest.param(BLOCK, Seen(DISK, (mount("/st"),)), AlreadyExists, "block", id="block-staged-as-mount"),
        pytest.param(BLOCK, Seen(DISK, elsewhere=(mount("/t"),)), InUse, "/t", id="block-mounted-elsewhere"),
        pytest.param(EXT4, Seen(DISK, raw_targets=("/t",)), InUse, "raw", id="in-use-as-block"),
        pytest.param(
            EXT4, Seen(DISK, elsewhere=(mount("/t", fs_type="xfs"),)), InUse, "xfs", id="mounted-as-another"
        ),
        pytest.param(EXT4, Seen(replace(DISK, holders=("dm-0",))), InUse, "dm-0", id="multipath"),
        pytest.param(BLOCK, Seen(replace(DISK, holders=("dm-0",))), InUse, "dm-0", id="multipath-block"),
    ],
)
def test_refusals(wish: Wish, seen: Seen, error: type[CsiError], named: str) -> None:
    """What contradicts the request is refused with what was found."""
    with pytest.raises(error, match=named):
        plan_stage(wish, seen)


def test_a_published_volume_is_not_unstaged() -> None:
    """Unstage names the targets that are still there."""
    refuse_published("/st", ())
    with pytest.raises(InUse, match="/t1, /t2"):
        refuse_published("/st", ("/t1", "/t2"))
