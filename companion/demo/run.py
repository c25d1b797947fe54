"""Run the demo and show it: one line as each thing happens, then a verdict."""

from __future__ import annotations

import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from companion.demo.guest import CallFailed
from companion.demo.processes import DriverFailed
from companion.demo.stage import opened
from companion.demo.story import STORY, WITHOUT_ROOT, Untrue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from companion.demo.story import Chapter


class Stopped(BaseException):
    """A signal asked for the end: everything is taken down on the way out."""


def stop_on_sigterm() -> None:
    """Let SIGTERM end the demo as Ctrl-C does, so that no process, mount or loop device outlives it."""

    def stop(_number: int, _frame: object) -> None:
        raise Stopped

    signal.signal(signal.SIGTERM, stop)


NEEDS_ROOT = (
    "Not root: disks are plain files here, so the demo goes as far as the disk in the VM. File system, mount "
    "and the move to the second node need loop devices and mount(8): run `sudo make demo`."
)


def run(console: Console, *, root: bool, story: Sequence[Chapter] | None = None) -> int:
    """Play the story; return 0 only when all of it was true and nothing is left on the machine.

    Without `root` the part of it that needs no kernel is played, and what is left out is said.
    """
    console.print(
        "[bold]Harvester Companion[/bold]: a guest volume's life, on a simulated Harvester 1.9 host\n"
    )
    if not root:
        console.print(f"[yellow]{NEEDS_ROOT}[/yellow]\n")
    begun = time.monotonic()
    why = ""
    with tempfile.TemporaryDirectory(prefix="harvester-companion-") as directory:
        try:
            play(console, Path(directory), story or (STORY if root else WITHOUT_ROOT), loops=root)
        except (Untrue, CallFailed, DriverFailed) as failure:
            why = f"not true: {failure}"
        except (Stopped, KeyboardInterrupt):
            why = "stopped before its end"
        left = left_on_the_machine(Path(directory))
    if left:
        why += f"\nleft on this machine: {', '.join(left)}"
    if why:
        console.print(f"\n[bold red]{escape(why.strip())}[/bold red]")
        return 1
    seconds = time.monotonic() - begun
    console.print(f"\n[bold green]all of it true[/bold green], in {seconds:.1f} s; nothing left behind")
    return 0


def play(console: Console, directory: Path, story: Sequence[Chapter], *, loops: bool) -> None:
    """Open the stage and tell each chapter, a line with its evidence as it happens."""
    with opened(directory, loops=loops) as stage:
        for chapter in story:
            console.print(f"[bold cyan]{escape(chapter.title)}[/bold cyan]")
            for told in chapter.tell(stage):
                console.print(f"  [green]✓[/green] {escape(told.what)}")
                console.print(f"    [dim]{escape(told.evidence)}[/dim]")


def left_on_the_machine(directory: Path) -> list[str]:
    """Name the mounts and loop devices that still point into `directory`."""
    needle = str(directory)
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    found = [f"mount {line.split()[4]}" for line in mounts if needle in line]
    backings = Path("/sys/block").glob("loop*/loop/backing_file")
    found += [f"loop device {path.parent.parent.name}" for path in backings if needle in path.read_text()]
    return found
