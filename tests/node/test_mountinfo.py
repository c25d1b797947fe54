"""The kernel's list of mounts."""

from __future__ import annotations

from csi.node.disk import DeviceNumber
from csi.node.mountinfo import mounts_at, parse_mountinfo

LINES = r"""
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
40 27 8:16 / /var/lib/with\040space\134x ro,noexec,relatime shared:7 master:2 - ext4 /dev/sdb rw,shutdown
41 40 8:32 / /var/lib/with\040space\134x rw,relatime - xfs /dev/sdc rw
42 27 0:6 /sdd//deleted /block rw,nosuid shared:9 - devtmpfs devtmpfs rw,size=1k
43 27 0:40 / /caf\303\251 rw - tmpfs none rw
""".lstrip()


def test_fields() -> None:
    """A line gives number, root, path with its escapes undone, options of mount and file system."""
    mounts = {mount.id: mount for mount in parse_mountinfo(LINES)}
    assert mounts[40].path == "/var/lib/with space\\x"
    assert mounts[40].number == DeviceNumber(8, 16)
    assert mounts[40].readonly
    assert mounts[40].shut_down
    assert not mounts[27].readonly
    assert mounts[27].source == "/dev/vda"
    assert mounts[42].number.anonymous
    assert mounts[42].root_name == "sdd"
    assert mounts[43].path == "/café"


def test_the_top_of_a_stack_comes_last() -> None:
    """Of several mounts at one path the one that hides the others comes last, whatever their order."""
    mounts = parse_mountinfo(LINES)
    here = mounts_at(reversed(mounts), "/var/lib/with space\\x")
    assert [mount.fs_type for mount in here] == ["ext4", "xfs"]
    assert mounts_at(mounts, "/nowhere") == ()
