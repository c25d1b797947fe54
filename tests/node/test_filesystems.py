"""What the exit codes of mkfs and fsck mean."""

from __future__ import annotations

import pytest

from csi.errors import CsiError, InUse, Unavailable
from csi.node.commands import Commands, Finished
from csi.node.filesystems import FileSystems, file_system

EXT4 = file_system("ext4")


class Answers(Commands):
    """Programs that all end with one code."""

    def __init__(self, code: int) -> None:
        super().__init__()
        self._code = code

    def run(self, *argv: str, seconds: float | None) -> Finished:
        """End at once; a format or a check must have no time limit."""
        assert seconds is None
        return Finished(self._code, "", "said so")


@pytest.mark.parametrize("code", [0, 1, 2, 3, 8, 16])
def test_fsck_that_lets_us_mount(code: int) -> None:
    """Clean, corrected, and could-not-check go on to the mount, which fails by itself where it must."""
    FileSystems(Answers(code)).check("/dev/x", EXT4)


@pytest.mark.parametrize(
    ("code", "error"), [(4, InUse), (5, InUse), (12, InUse), (32, Unavailable), (-9, Unavailable)]
)
def test_fsck_that_does_not(code: int, error: type[CsiError]) -> None:
    """Uncorrected errors need a person; a check that was cut off is made again."""
    with pytest.raises(error):
        FileSystems(Answers(code)).check("/dev/x", EXT4)


@pytest.mark.parametrize("code", [1, -9])
def test_mkfs_that_failed(code: int) -> None:
    """A format that failed may be tried again; its words are passed on."""
    with pytest.raises(Unavailable, match="said so"):
        FileSystems(Answers(code)).make("/dev/x", EXT4)
