"""Node roots with loop devices for disks, for tests of the node half on the real kernel."""

from __future__ import annotations

import os
import stat
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

MIB = 1024 * 1024
SECTOR = 512


def run(*argv: str) -> str:
    """Run a program that must succeed; return its output."""
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=20).stdout


def identification_page(*designators: bytes) -> bytes:
    """Return a VPD page 0x83 as QEMU writes it: ASCII, vendor specific, one designator after another."""
    body = b"".join(bytes((2, 0, 0, len(name))) + name for name in designators)
    return bytes((0, 0x83)) + len(body).to_bytes(2, "big") + body


@dataclass(slots=True)
class Drive:
    """A disk of a test: a file, the loop device over it, and the kernel name that it has under the root."""

    name: str
    image: Path
    loop: Path
    size: int

    def content(self) -> bytes:
        """Return all that is on the disk, past every cache of the loop device."""
        run("blockdev", "--flushbufs", str(self.loop))
        return self.image.read_bytes()

    def read(self, offset: int, length: int) -> bytes:
        """Return a part of it."""
        run("blockdev", "--flushbufs", str(self.loop))
        with self.image.open("rb") as image:
            return os.pread(image.fileno(), length, offset)

    def write(self, content: bytes, offset: int = 0) -> None:
        """Write through the loop device, as a disk's earlier user would have."""
        fd = os.open(self.loop, os.O_WRONLY)
        try:
            os.pwrite(fd, content, offset)
            os.fsync(fd)
        finally:
            os.close(fd)


@dataclass(slots=True)
class NodeRoot:
    """`<root>/sys/block` and `<root>/dev` of a node, and its kubelet directory."""

    top: Path
    drives: dict[str, Drive] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        """What `--root` is pointed at."""
        return self.top / "root"

    @property
    def kubelet(self) -> Path:
        """Where staging paths and targets are."""
        return self.top / "kubelet"

    def path(self, name: str) -> str:
        """Return a path below the kubelet directory, whose parent exists."""
        self.kubelet.mkdir(exist_ok=True)
        return str(self.kubelet / name)

    def plug(
        self,
        name: str,
        identity: str,
        size: int = 16 * MIB,
        image: Path | None = None,
        *,
        protected: bool = False,
    ) -> Drive:
        """Plug a disk in; `image` gives it what an unplugged disk held, `protected` forbids writing."""
        if image is None:
            image = self.top / f"{name}-{time.monotonic_ns()}.img"
            with image.open("wb") as blank:
                blank.truncate(size)
        access = ["--read-only"] if protected else []
        loop = Path(run("losetup", "--show", *access, "--find", str(image)).strip())
        drive = self.drives[name] = Drive(name, image, loop, image.stat().st_size)
        self._write_sysfs(drive, identity)
        return drive

    def grow(self, name: str, size: int) -> None:
        """Make the disk larger, and the kernel know it."""
        drive = self.drives[name]
        os.truncate(drive.image, size)
        run("losetup", "--set-capacity", str(drive.loop))
        drive.size = size
        (self.root / "sys" / "block" / name / "size").write_text(f"{size // SECTOR}\n")

    def unplug(self, name: str) -> Drive:
        """Take the disk out of the node's view, and free its loop device when it is not used any more."""
        drive = self.drives.pop(name)
        run("rm", "-r", str(self.root / "sys" / "block" / name), str(self.root / "dev" / name))
        run("losetup", "--detach", str(drive.loop))
        return drive

    def clean(self) -> None:
        """Unmount everything below the top and free all loop devices, whatever the test left."""
        for path in reversed(self.mounted()):
            with suppress(subprocess.CalledProcessError):
                run("umount", "-l", path)
        for name in list(self.drives):
            self.unplug(name)

    def mounted(self) -> list[str]:
        """Return the mounted paths below the top, one entry for each mount, in the kernel's order."""
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
        return [path for path in (line.split(" ")[4] for line in lines) if path.startswith(f"{self.top}/")]

    def options(self, path: str) -> set[str]:
        """Return the per-mount options of the last mount at the path."""
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
        return set(
            next(line.split(" ")[5] for line in reversed(lines) if line.split(" ")[4] == path).split(",")
        )

    def _write_sysfs(self, drive: Drive, identity: str) -> None:
        number = drive.loop.stat().st_rdev
        here = self.root / "sys" / "block" / drive.name
        (here / "device").mkdir(parents=True)
        (here / "holders").mkdir()
        (here / "dev").write_text(f"{os.major(number)}:{os.minor(number)}\n")
        (here / "size").write_text(f"{drive.size // SECTOR}\n")
        (here / "ro").write_text("0\n")
        (here / "device" / "vpd_pg83").write_bytes(identification_page(identity.encode()))
        (self.root / "dev").mkdir(exist_ok=True)
        os.mknod(self.root / "dev" / drive.name, stat.S_IFBLK | 0o600, number)
