"""VPD pages, and which disk a volume is."""

from __future__ import annotations

import pytest

from csi.node.device_plan import Ambiguous, DevicePlan, Found, Missing, TooSmall, plan_device
from csi.node.disk import DeviceNumber, Disk
from csi.node.identity import designators, unit_serial

T10 = bytes((0x02, 0x01, 0x00, 0x08)) + b"QEMU    "
NAA = bytes((0x01, 0x03, 0x00, 0x08)) + bytes.fromhex("5000c50015ea71ac")


def page(*parts: bytes) -> bytes:
    body = b"".join(parts)
    return bytes((0, 0x83)) + len(body).to_bytes(2, "big") + body


def ascii_designator(text: bytes, kind: int = 0x00) -> bytes:
    return bytes((0x02, kind, 0x00, len(text))) + text


@pytest.mark.parametrize(
    ("vpd", "expected"),
    [
        pytest.param(b"", (), id="no-page"),
        pytest.param(page(), (), id="no-designator"),
        pytest.param(page(ascii_designator(b"drive-ua-pvc-1")), ("drive-ua-pvc-1",), id="qemu"),
        pytest.param(page(NAA, T10, ascii_designator(b"x")), ("QEMU", "x"), id="all-are-read"),
        pytest.param(page(ascii_designator(b"x \0\0 ")), ("x",), id="trailing-padding-goes"),
        pytest.param(page(ascii_designator(b" x y")), (" x y",), id="other-spaces-stay"),
        pytest.param(page(ascii_designator(b"  ")), (), id="an-empty-one-is-none"),
        pytest.param(page(ascii_designator(b"port", kind=0x10)), (), id="a-port-is-not-the-disk"),
        pytest.param(page(ascii_designator("ü".encode())), (), id="not-ascii"),
        pytest.param(page(ascii_designator(b"whole"))[:-1], (), id="a-cut-one-is-not-read"),
        pytest.param(b"\0\x80" + page(ascii_designator(b"x"))[2:], (), id="another-page"),
    ],
)
def test_designators(vpd: bytes, expected: tuple[str, ...]) -> None:
    """Only whole ASCII designators of the logical unit are names of a disk."""
    assert designators(vpd) == expected


def test_serial() -> None:
    """The unit serial is read without its padding."""
    assert unit_serial(b"\0\x80\0\x06abc  \0") == "abc"
    assert unit_serial(b"") == ""


def disk(name: str, *ids: str, size: int = 100) -> Disk:
    return Disk(name, DeviceNumber(8, ord(name[-1])), size, device_ids=ids)


A, B = disk("sda", "drive-ua-data"), disk("sdb", "drive-ua-data-2")
BARE = disk("vda")
SHADOW = disk("sdc", "drive-ua-data")


@pytest.mark.parametrize(
    ("disks", "identity", "size", "expected"),
    [
        pytest.param([A, B], "drive-ua-data", 0, Found(A), id="equal"),
        pytest.param([A, B], "drive-ua-data-2", 100, Found(B), id="equal-and-large-enough"),
        pytest.param([B], "drive-ua-data", 0, Missing(), id="a-longer-name-is-another-volume"),
        pytest.param([A], "drive-ua-data-2", 0, Missing(), id="a-shorter-name-is-another-volume"),
        pytest.param([A], "data", 0, Missing(), id="a-part-is-no-match"),
        pytest.param([A], "DRIVE-UA-DATA", 0, Missing(), id="case-counts"),
        pytest.param([BARE, disk("sda", "")], "", 0, Missing(), id="empty-matches-nothing"),
        pytest.param([A, SHADOW], "drive-ua-data", 0, Ambiguous((A, SHADOW)), id="two-are-refused"),
        pytest.param([A], "drive-ua-data", 101, TooSmall(A), id="too-small"),
        pytest.param(
            [disk("sda", "x", size=0)], "x", 0, TooSmall(disk("sda", "x", size=0)), id="no-size-yet"
        ),
    ],
)
def test_plan_device(disks: list[Disk], identity: str, size: int, expected: DevicePlan) -> None:
    """A volume's disk is the one whose identity is equal, or none."""
    assert plan_device(disks, identity, size) == expected
