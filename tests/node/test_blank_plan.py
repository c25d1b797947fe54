"""When a disk may be formatted."""

from __future__ import annotations

import pytest

from csi.errors import InUse
from csi.node.blank_plan import Content, ContentPlan, Make, Permission, Use, plan_content

ALLOWED = Permission("ext4", may_format=True)
FRESH = Permission("ext4", may_format=True, fresh=True)
READONLY = Permission("ext4", may_format=True, readonly=True)
UPSTREAM = Permission("ext4", may_format=False)

BLANK = Content(zero=True)
BYTES = Content()
EXT4 = Content(("ext4",))
UNFINISHED = Content(marked=True)
LOOKS_WHOLE = Content(("ext4",), marked=True, never_mounted=True)
USED_WITH_MARK = Content(("ext4",), marked=True)


@pytest.mark.parametrize(
    ("seen", "permission", "expected"),
    [
        pytest.param(EXT4, ALLOWED, Use(), id="its-own-file-system"),
        pytest.param(EXT4, READONLY, Use(), id="its-own-file-system-read-only"),
        pytest.param(EXT4, UPSTREAM, Use(), id="made-by-upstream"),
        pytest.param(EXT4, FRESH, Use(), id="fresh-is-no-reason-to-format-again"),
        pytest.param(Content(("ext4",), never_mounted=True), ALLOWED, Use(), id="never-mounted-but-complete"),
        pytest.param(BLANK, ALLOWED, Make("blank"), id="blank"),
        pytest.param(BYTES, FRESH, Make("fresh"), id="old-bytes-on-a-fresh-volume"),
        pytest.param(UNFINISHED, ALLOWED, Make("unfinished"), id="half-made"),
        pytest.param(LOOKS_WHOLE, ALLOWED, Make("unfinished"), id="half-made-with-a-superblock"),
        pytest.param(USED_WITH_MARK, ALLOWED, Use(), id="a-used-one-is-never-unfinished"),
    ],
)
def test_plan(seen: Content, permission: Permission, expected: ContentPlan) -> None:
    """A disk is mounted when it has the file system, and formatted only on a positive proof."""
    assert plan_content(seen, permission) == expected


@pytest.mark.parametrize(
    ("seen", "permission", "named"),
    [
        pytest.param(BYTES, ALLOWED, "without a known signature", id="bytes-without-signature"),
        pytest.param(Content(("xfs",)), ALLOWED, "xfs", id="another-file-system"),
        pytest.param(Content(("xfs",)), FRESH, "xfs", id="another-file-system-fresh"),
        pytest.param(Content(("xfs",), marked=True), ALLOWED, "xfs", id="another-file-system-marked"),
        pytest.param(Content(("LVM2_member",)), FRESH, "LVM2_member", id="lvm"),
        pytest.param(Content(("crypto_LUKS",), zero=True), ALLOWED, "crypto_LUKS", id="luks"),
        pytest.param(Content(("a gpt partition table",)), FRESH, "gpt", id="partition-table"),
        pytest.param(Content(("ext4", "a dos partition table")), ALLOWED, "dos", id="both"),
        pytest.param(Content(ambivalent=True), FRESH, "exclude each other", id="ambivalent"),
        pytest.param(BLANK, READONLY, "read-only", id="blank-read-only"),
        pytest.param(UNFINISHED, READONLY, "read-only", id="half-made-read-only"),
        pytest.param(LOOKS_WHOLE, READONLY, "read-only", id="half-made-with-a-superblock-read-only"),
        pytest.param(BLANK, UPSTREAM, "attach it again", id="blank-attached-by-upstream"),
    ],
)
def test_refusals(seen: Content, permission: Permission, named: str) -> None:
    """Everything else is left untouched, and the error names what was found."""
    with pytest.raises(InUse, match=named):
        plan_content(seen, permission)
